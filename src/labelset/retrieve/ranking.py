"""Rows ranked by how probably a query holds; where rounding could mislead, by exact arithmetic."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelset import check, inputs
from labelset.retrieve.query import FALSE, TRUE, Diagram, Formula, Name, QueryError, parse


@dataclass(frozen=True)
class Dyadic:
    """numbers / 2^bits, exactly; sums and products of doubles stay in this form.

    >>> third = Dyadic.of(np.array([0.25, 0.75]))
    >>> (third * third.one_minus()).numbers.tolist()
    [3, 3]
    """

    numbers: NDArray[Any]
    """Python's whole numbers, of any size."""
    bits: int

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Dyadic:
        """Finite doubles >= 0, as they are."""
        distinct, place = np.unique(values, return_inverse=True)
        ratios = [value.as_integer_ratio() for value in distinct.tolist()]
        bits = max((below.bit_length() - 1 for _, below in ratios), default=0)
        whole = np.empty(len(ratios), dtype=object)
        whole[:] = [above << (bits + 1 - below.bit_length()) for above, below in ratios]
        return cls(whole[place], bits)

    def one_minus(self) -> Dyadic:
        """1 - x."""
        return Dyadic((1 << self.bits) - self.numbers, self.bits)

    def __mul__(self, other: Dyadic) -> Dyadic:
        return Dyadic(self.numbers * other.numbers, self.bits + other.bits)

    def __add__(self, other: Dyadic) -> Dyadic:
        bits = max(self.bits, other.bits)
        return Dyadic(self._over(bits) + other._over(bits), bits)

    def _over(self, bits: int) -> NDArray[Any]:
        return self.numbers * (1 << (bits - self.bits))


EPS = 2.0**-52


def contenders(odds: Tensor, k: int, names: int) -> Tensor:
    """Rows (ascending) that may be among the first k: found without sorting all."""
    if k >= len(odds):
        return torch.arange(len(odds), device=odds.device)
    last = odds.topk(k, sorted=False).values.min()
    slack = 0.0 if last.isinf() else _slack(last, names)
    return (odds >= last - slack).nonzero()[:, 0]


def best_first(odds: Tensor, p: Tensor, diagram: Diagram) -> Tensor:
    """Places by falling probability, ties by place. odds: (m,) log odds, p: (m, names).

    Log odds whose difference could be rounding form a cluster with their neighbours; where its rows
    differ in p at all, their probabilities are compared as whole numbers over a power of two.
    """
    order = odds.sort(descending=True, stable=True).indices
    down, sorted_p = odds[order], p[order]
    gap = down[:-1] - down[1:]
    near = gap.isfinite() & (gap <= _slack(down[1:], p.shape[1]))  # infinite odds are exact
    doubtful = near & (sorted_p[:-1] != sorted_p[1:]).any(dim=1)
    if not bool(doubtful.any()):
        return order
    cluster = torch.cat([near.new_zeros(1), ~near]).cumsum(0)
    hit = torch.isin(cluster, cluster[1:][doubtful])
    rows = order[hit].cpu().numpy()
    value = _exact_ranks(sorted_p[hit].cpu().numpy(), diagram)
    again = np.lexsort((rows, -value, cluster[hit].cpu().numpy()))
    order[hit] = torch.as_tensor(rows[again], device=order.device)
    return order


def _slack(odds: Tensor, names: int) -> Tensor:
    """How far rounding can move the log odds of two rows apart, generously.

    Each name adds a few roundings, each of at most EPS relative to a logarithm or to 1.
    """
    return 64 * (names + 1) * EPS * (1 + odds.abs())


def _exact_ranks(p: NDArray[np.float64], diagram: Diagram) -> NDArray[np.int64]:
    """For every row of p a whole number that rises with its exact probability."""
    distinct, place = np.unique(p, axis=0, return_inverse=True)
    on = [Dyadic.of(column) for column in distinct.T]
    off = [column.one_minus() for column in on]
    exact = diagram.weigh(on, off, operator.mul, operator.add).numbers
    ranks = np.unique(exact, return_inverse=True)[1].reshape(-1)
    return np.asarray(ranks[place.reshape(-1)], dtype=np.int64)


CELLS = 2**22  # numbers held at a time
LISTED = 20  # names that an error lists


def rank(
    query: str | Formula, probs: Any, names: Sequence[str], k: int | None = None
) -> tuple[Tensor, Tensor]:
    """Rows from the most to the least probable answer: `(order, scores)`.

    probs: (rows, labels) in [0, 1], calibrated ones at best; names: one per label. order: row
    numbers (int64), equal rows in their own order; scores: the probability that the query holds in
    each of these rows (float64), labels being independent given the row. For a conjunction that is

    s(x) = prod over j in P of eta_j(x) * prod over k in N of (1 - eta_k(x))                 (23)

    and otherwise the same summed over all ways in which the query can hold. The order is exact: it
    comes from logarithms, so that scores too small for a double still differ, and where rounding
    could mislead, from exact arithmetic. With `k` only the best k rows, without sorting all.

    >>> probs = [[0.9, 0.2, 0.5], [0.8, 0.9, 0.1], [0.7, 0.6, 0.0]]
    >>> order, scores = rank("fork & apple & !knife", probs, ["fork", "apple", "knife"])
    >>> order
    tensor([1, 2, 0])
    >>> scores
    tensor([0.6480, 0.4200, 0.0900], dtype=torch.float64)
    >>> rank("fork & (apple | knife)", probs, ["fork", "apple", "knife"], k=1)[0]
    tensor([1])
    """
    diagram, p = _asked(query, probs, names)
    rows = len(p)
    k = rows if k is None else min(check.whole("k", k, low=1), rows)
    if diagram.certain is not None:
        scores = p.new_full((k,), float(diagram.certain))
        return torch.arange(k, device=p.device), scores
    odds = _in_blocks(diagram, p, lambda yes, no: yes - no)
    near = contenders(odds, k, p.shape[1])
    order = near[best_first(odds[near], p[near], diagram)][:k]
    on = p[order].unbind(1)
    scores = diagram.weigh(on, [1 - c for c in on], operator.mul, operator.add)
    return order, scores.cummin(0).values  # the order is exact, the scores are rounded


def log_scores(query: str | Formula, probs: Any, names: Sequence[str]) -> Tensor:
    """(rows,) float64: the logarithm of each row's probability that the query holds.

    For a conjunction the logarithm of (23): sum of log eta_j + sum of log(1 - eta_k).

    >>> log_scores("a & !b", [[1e-300, 1 - 1e-16], [0.0, 0.5]], ["a", "b"])
    tensor([-727.5123,      -inf], dtype=torch.float64)
    """
    diagram, p = _asked(query, probs, names)
    if diagram.certain is not None:
        return p.new_full((len(p),), 0.0 if diagram.certain else -torch.inf)
    return _in_blocks(diagram, p, lambda yes, no: yes)


def certain(query: str | Formula) -> bool | None:
    """False if the query can never hold, True if it always does, else None.

    >>> certain("dog & !dog"), certain("dog | !dog"), certain("dog & !cat")
    (False, True, None)
    """
    return Diagram(_formula(query)).certain


def _formula(query: str | Formula) -> Formula:
    return parse(query) if isinstance(query, str) else query


def _asked(query: str | Formula, probs: Any, names: Sequence[str]) -> tuple[Diagram, Tensor]:
    """The query's diagram, and the (rows, names of the query) probabilities it asks about."""
    p = inputs.probabilities(probs)
    place = _places(names, p.shape[1])
    diagram = Diagram(_formula(query))
    for name in diagram.names:
        if name.text not in place:
            raise _unknown(name, query, list(place))
    columns = [place[name.text] for name in diagram.names]
    return diagram, p[:, columns].double()


def _places(names: Any, n: int) -> dict[str, int]:
    """Name -> label number, each once."""
    given = names
    names = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else [None]
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"names must be a list of strings, one per label, got {given!r:.80}")
    if len(names) != n:
        raise ValueError(f"names must be one per label, {n}, got {len(names)}")
    place = {name: i for i, name in enumerate(names)}
    if len(place) < n:
        twice = next(name for i, name in enumerate(names) if place[name] != i)
        first, second = [i for i, name in enumerate(names) if name == twice][:2]
        raise ValueError(
            f"names must differ, got {twice!r} for labels {first} and {second}; rename one"
        )
    return place


def _unknown(name: Name, query: str | Formula, names: list[str]) -> QueryError:
    if len(names) <= LISTED:
        hint = check.nearest(name.text, names)
    else:
        same = [other for other in names if other.casefold() == name.text.casefold()]
        close = same or difflib.get_close_matches(name.text, names, n=3, cutoff=0.5)
        offer = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
        hint = f"{offer}{len(names):,} names are known, such as {', '.join(names[:3])}"
    problem = f"unknown name {name.text[:80]!r}: {hint}"
    return QueryError(problem, query if isinstance(query, str) else None, name.at)


def _in_blocks(diagram: Diagram, p: Tensor, of: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """`of` the log probabilities that the query holds and that it does not; rows in blocks."""
    size = max(1, CELLS // (2 * len(diagram.steps()) + 2 * p.shape[1]))
    blocks = []
    for block in torch.split(p, size):
        on = [column.log() for column in block.unbind(1)]
        off = [torch.log1p(-column) for column in block.unbind(1)]
        yes, no = (diagram.weigh(on, off, torch.add, torch.logaddexp, end) for end in (TRUE, FALSE))
        blocks.append(of(yes, no))
    return torch.cat(blocks)
