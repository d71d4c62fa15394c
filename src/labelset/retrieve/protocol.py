"""How well queries of some length are answered, and how many of the first rows will be right."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelset import charts, check, csr, inputs

Queries = NDArray[np.int64]


def possible(n: int, length: int, forbidden: int | None = None) -> int:
    """How many queries of a length there are over n labels with at least one asked for.

    C(n, length) (2^length - 1); with exactly so many forbidden, C(n, length) C(length, forbidden).
    """
    ways = 2**length - 1 if forbidden is None else math.comb(length, forbidden)
    return math.comb(n, length) * ways


def some_queries(n: int, length: int, most: int, seed: int) -> Queries:
    """(m, length): the queries, j for label j asked for and n + j for label j forbidden.

    All of them where they are at most `most`; otherwise `most` different ones, every set of them
    equally likely.

    >>> some_queries(2, 2, most=10, seed=0).tolist()
    [[0, 1], [2, 1], [0, 3]]
    """
    if possible(n, length) <= most:
        return _all(n, length)
    random = np.random.default_rng([seed, length])
    found = np.empty((0, length), dtype=np.int64)
    while len(found) < most:
        found = np.concatenate([found, _draw(random, n, length, 2 * most)])
        first = np.unique(found, axis=0, return_index=True)[1]
        found = found[np.sort(first)]  # in the order drawn: the first ones are a fair sample
    return found[:most]


def _all(n: int, length: int) -> Queries:
    sets = np.array(list(itertools.combinations(range(n), length)), dtype=np.int64)
    sets = sets.reshape(-1, 1, length)
    codes = np.arange(2**length - 1)[:, None]
    forbidden = codes >> np.arange(length) & 1  # every code but the last has a 0
    return (sets + n * forbidden).reshape(-1, length)


def _draw(random: np.random.Generator, n: int, length: int, count: int) -> Queries:
    """Queries drawn evenly, with repeats; those that ask for nothing are dropped."""
    sets = np.empty((count, length), dtype=np.int64)
    for place, top in enumerate(range(n - length, n)):  # Floyd: every set of labels equally likely
        label = random.integers(top + 1, size=count)
        taken = (sets[:, :place] == label[:, None]).any(axis=1)
        sets[:, place] = np.where(taken, top, label)
    forbidden = random.integers(2, size=(count, length))
    drawn = np.sort(sets, axis=1) + n * forbidden
    return drawn[~forbidden.all(axis=1)]


FALSE, UNKNOWN, TRUE = 0, 1, 2  # a conjunction is the least of its parts
TIE = 2.0**-46  # log scores this close, relative to their size, differ by rounding alone
Z = 1.959963984540054  # 95%


@dataclass(frozen=True)
class Group:
    """The queries of one length, or of one length with so many labels forbidden."""

    length: int
    """|P| + |N|: labels in the query."""
    forbidden: int | None
    """|N|, or None for all together."""
    possible: int
    """How many such queries there are."""
    asked: int
    """How many of them were asked."""
    empty: int
    """How many of these have no right row: they are left out of the mean."""
    map: float
    """Mean average precision over the others; NaN if there are none."""
    low: float
    """95% interval for the mean over all possible queries; map itself where all were asked."""
    high: float


@dataclass(frozen=True)
class Retrieval:
    """What `evaluate` found: one group per length, and finer ones."""

    by_length: tuple[Group, ...]
    by_shape: tuple[Group, ...]
    """One group per length and number of forbidden labels."""

    @property
    def map(self) -> float:
        """Over all queries: lengths weigh as many queries with a right row as they have."""
        groups = [g for g in self.by_length if g.asked > g.empty]
        weights = [g.possible * (g.asked - g.empty) / g.asked for g in groups]
        return float(np.average([g.map for g in groups], weights=weights)) if groups else np.nan

    def __str__(self) -> str:
        lines = ["length     mAP  95% interval     asked of     possible   no right row"]
        for g in self.by_length:
            lines.append(
                f"{g.length:>6}  {g.map:6.4f}  {g.low:.4f}-{g.high:.4f}  {g.asked:>8,} of"
                f" {g.possible:>12,}  {g.empty:>12,}"
            )
        return "\n".join([*lines, f"   all  {self.map:6.4f}"])

    def as_json(self) -> dict[str, Any]:
        """All of it, for a file; None where there is no number."""
        whole = {"map": self.map}
        return {
            **_without_nan(whole),
            "by_length": [_without_nan(asdict(g)) for g in self.by_length],
            "by_shape": [_without_nan(asdict(g)) for g in self.by_shape],
        }


def _without_nan(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: None if value != value else value for key, value in facts.items()}


def evaluate(
    probs: Any, labels: Any, most: int = 5, queries: int = 10_000, seed: int = 0
) -> Retrieval:
    """Mean average precision over all queries with |P| >= 1 and |P| + |N| <= most.

    probs: (rows, labels) in [0, 1]; labels: the truth. Every query ranks the rows by (23); those
    that truly satisfy it are right. Where a length has more than `queries` queries, so many are
    drawn, each equally likely. A row whose unknown labels leave open whether it is right is left
    out of that query; a query without a right row is left out of the means, and counted.

    >>> probs = [[0.9, 0.2], [0.6, 0.7], [0.2, 0.8]]
    >>> found = evaluate(probs, [[1, 0], [1, 1], [0, 1]], most=2)
    >>> [(g.length, g.asked, g.empty, g.map) for g in found.by_length]
    [(1, 2, 0, 1.0), (2, 3, 0, 1.0)]
    """
    p, y = inputs.paired_probabilities(probs, labels)
    p, y = inputs.probabilities(p), inputs.hard(y)  # also where the label is unknown
    check.whole("most", most, low=1)
    check.whole("queries", queries, low=1)
    check.whole("seed", seed)
    if not y.n:
        raise ValueError("queries need at least one label, got 0")
    logs, states = _literals(p.cpu().double().numpy(), y.dense().cpu().numpy())
    lengths, shapes = list[Group](), list[Group]()
    for length in range(1, min(most, y.n) + 1):
        asked = some_queries(y.n, length, queries, seed)
        found = np.array([_answer(logs, states, query) for query in asked])
        forbidden = (asked >= y.n).sum(axis=1)
        lengths.append(_group(found, length, None, possible(y.n, length)))
        shapes += [
            _group(found[forbidden == k], length, k, possible(y.n, length, k))
            for k in range(length)
        ]
    return Retrieval(tuple(lengths), tuple(shapes))


def _literals(
    p: NDArray[np.float64], y: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """(2 labels, rows): log p, then log(1 - p); and whether label and negation hold."""
    with np.errstate(divide="ignore"):
        logs = np.concatenate([np.log(p.T), np.log1p(-p.T)])
    holds = np.where(np.isnan(y.T), UNKNOWN, TRUE * (y.T > 0)).astype(np.int8)
    return logs, np.concatenate([holds, TRUE - holds])


def _answer(logs: NDArray[np.float64], states: NDArray[np.int8], query: NDArray[np.int64]) -> float:
    """Average precision of one query; NaN where no row is right."""
    state = states[query].min(axis=0)
    truth = state == TRUE
    if not truth.any():
        return np.nan
    scores = logs[query].sum(axis=0)
    decided = state != UNKNOWN
    return _average_precision(scores[decided], truth[decided])


def _average_precision(scores: NDArray[np.float64], truth: NDArray[np.bool_]) -> float:
    """Mean over the right rows of the precision among all rows that score at least as much.

    As scikit-learn's, with ties counted together; at least one row must be right. Only rows above
    the least right one are sorted.
    """
    hits = np.sort(scores[truth])
    at_least = hits - TIE * np.abs(hits)
    rivals = np.sort(scores[scores >= at_least[0]])
    rows = len(rivals) - np.searchsorted(rivals, at_least)
    right = len(hits) - np.searchsorted(hits, at_least)
    return float((right / rows).mean())


def _group(found: NDArray[np.float64], length: int, forbidden: int | None, possible: int) -> Group:
    """The mean with the standard error of a sample without replacement."""
    scored = found[~np.isnan(found)]
    mean = float(scored.mean()) if len(scored) else np.nan
    error = np.inf  # nothing is known from fewer than two
    if len(found) == possible:
        error = 0.0
    elif len(scored) > 1:
        error = float(scored.std(ddof=1)) * ((1 - len(found) / possible) / len(scored)) ** 0.5
    low, high = np.clip([mean - Z * error, mean + Z * error], 0, 1).tolist()
    empty = len(found) - len(scored)
    return Group(length, forbidden, possible, len(found), empty, mean, low, high)


def curves(results: Mapping[str, Retrieval], title: str = "Retrieval by queries") -> str:
    """An SVG: mAP against query length, one line per name, bands for the 95% intervals.

    >>> one = evaluate([[0.9, 0.2], [0.6, 0.7], [0.2, 0.8]], [[1, 0], [1, 1], [0, 1]])
    >>> curves({"model": one}).startswith("<svg")
    True
    """
    lines = {
        name: [group for group in table.by_length if not math.isnan(group.map)]
        for name, table in results.items()
    }
    drawn = {name: line for name, line in lines.items() if line}
    if not drawn:
        raise ValueError("curves needs at least one evaluation with a query that has a right row")
    marks = list[charts.Mark]()
    for i, (name, line) in enumerate(drawn.items()):
        points = [(group.length, group.map) for group in line]
        marks.append(charts.Band([(g.length, g.low, g.high) for g in line], i))
        marks.append(charts.Line(points, i, name, dots=[4.0] * len(line)))
    groups = [group for line in drawn.values() for group in line]
    longest = max(group.length for group in groups)
    low = math.floor(min(group.low for group in groups) * 10 - 1e-9) / 10
    high = math.ceil(max(group.high for group in groups) * 10 + 1e-9) / 10
    y = max(low, 0.0), min(high, 1.0)
    tenths = range(round(y[0] * 10), round(y[1] * 10) + 1)
    shown = [t / 10 for t in tenths if len(tenths) <= 6 or t % 2 == 0]
    panel = charts.Panel(
        title,
        "labels in the query, |P| + |N|",
        "mAP",
        marks,
        (1, max(longest, 2)),
        y,
        [(length, str(length)) for length in range(1, longest + 1)],
        [(value, f"{value:.1f}") for value in shown],
        names_at_ends=True,
        width=400,
        height=260,
    )
    return charts.svg([panel], title)


EXACT = 2_000  # first rows whose interval is exact


@dataclass(frozen=True)
class Expected:
    """Of the first 1, 2, ..., k rows: how many are right."""

    mean: Tensor
    """(k,) float64: the expected number."""
    low: Tensor
    """(k,) int64: the number lies between `low` and `high` with at least probability `level`."""
    high: Tensor
    level: float

    def __str__(self) -> str:
        if not len(self.mean):
            return "no rows"
        return (
            f"{self.mean[-1].item():.1f} of the first {len(self.mean):,} rows expected right, "
            f"{int(self.low[-1]):,} to {int(self.high[-1]):,} with probability {self.level:g}"
        )


def expected_right(scores: Any, level: float = 0.95) -> Expected:
    """The expected number of right rows among the first 1, ..., k, with an interval.

    scores: (k,) probabilities, such as `rank` returns. The mean is their running sum. If they are
    calibrated and rows independent, the number follows the Poisson binomial distribution; the
    interval is central, exact for the first 2,000 rows and from its mean, variance and skewness
    (Cornish and Fisher) beyond.

    >>> print(expected_right([0.9, 0.8, 0.8, 0.1]))
    2.6 of the first 4 rows expected right, 1 to 4 with probability 0.95
    """
    p = _probabilities(scores)
    tail = (1 - check.number("level", level, low=0, high=1, open_low=True, open_high=True)) / 2
    ends = np.concatenate([_exact(p[:EXACT], tail), _approximate(p, tail)[EXACT:]])
    low, high = torch.as_tensor(ends, dtype=torch.int64).unbind(1)
    return Expected(torch.as_tensor(p.cumsum()), low, high, level)


def _probabilities(scores: Any) -> NDArray[np.float64]:
    p = csr.as_tensor(scores).detach()
    if p.ndim != 1:
        raise ValueError(f"scores must be 1-D, one probability per row, got {tuple(p.shape)}")
    bad = (~((p >= 0) & (p <= 1))).nonzero()[:, 0]
    if len(bad):
        place = int(bad[0])
        raise ValueError(
            f"scores must be probabilities in [0, 1], got {p[place].item():g} at {place}; for "
            "log_scores take their exp()"
        )
    return np.asarray(p.cpu().double().numpy())


def _exact(p: NDArray[np.float64], tail: float) -> NDArray[np.float64]:
    """(k, 2) ends: the distribution of the count, one row after another."""
    ends = np.zeros((len(p), 2))
    chance = np.ones(1)
    for i, each in enumerate(p.tolist()):
        chance = np.append(chance * (1 - each), 0.0) + np.append(0.0, chance * each)
        below = chance.cumsum()
        ends[i] = np.minimum(np.searchsorted(below, (tail, 1 - tail)), i + 1)
    return ends


def _approximate(p: NDArray[np.float64], tail: float) -> NDArray[np.float64]:
    mean, variance = p.cumsum(), (p * (1 - p)).cumsum()
    third = (p * (1 - p) * (1 - 2 * p)).cumsum()
    spread = np.sqrt(variance)
    z = NormalDist().inv_cdf(1 - tail)
    # sd * (z + skewness (z^2 - 1) / 6), where sd * skewness = third / variance
    shift = (z * z - 1) / 6 * np.divide(third, variance, out=np.zeros_like(p), where=variance > 0)
    ends = np.stack([mean + shift - z * spread, mean + shift + z * spread], axis=1)
    most = np.arange(1, len(p) + 1)[:, None]
    return np.asarray(np.clip(np.ceil(ends - 0.5), 0, most))
