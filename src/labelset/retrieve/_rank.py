"""Ranking rows by the probability that a query holds."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from labelset import _given, check
from labelset.retrieve._diagram import FALSE, TRUE, Diagram
from labelset.retrieve._formula import Formula, Name
from labelset.retrieve._order import best_first, contenders
from labelset.retrieve._query import QueryError, parse

__all__ = ["certain", "log_scores", "rank"]

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
    p = _given.probabilities(probs)
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
