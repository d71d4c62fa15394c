"""The retrieval protocol: average precision of very many queries, by their length."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelset import _given, check
from labelset.retrieve._sample import possible, some_queries

__all__ = ["Group", "Retrieval", "evaluate"]

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
    p, y = _given.paired_probabilities(probs, labels)
    p, y = _given.probabilities(p), _given.hard(y)  # also where the label is unknown
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
