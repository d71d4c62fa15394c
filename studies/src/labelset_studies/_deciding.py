"""Which comparison decided about a sentence on a data set, and how it is told."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labelset_studies._read import Results
from labelset_studies._special import direction
from labelset_studies._verdict import Comparison, Sentence, called

DIGITS = (3, 4, 5, 6)


def told(results: Results, sentence: Sentence) -> tuple[str, dict[str, str]]:
    """What the sentence compares, and by data set the comparison that decided there."""
    own = [c for c in results.comparisons if (c.table, c.says) == (sentence.table, sentence.says)]
    expects = [e for t in results.tables if t.name == sentence.table for e in t.expect]
    margin = next((e.within or 0.0 for e in expects if e.says == sentence.says), 0.0)
    others, metrics = (list(dict.fromkeys(map(part, own))) for part in (_other, _metric))
    other = "against each" if others[1:] else others[0]
    metric = "by each metric" if metrics[1:] else metrics[0]
    compares = f"{own[0].own} {other}".strip() + f", {metric}"
    by_set: dict[str, list[Comparison]] = {}
    for one in own:
        by_set.setdefault(called(one.data, one.missing), []).append(one)
    found = {}
    for name, several in by_set.items():
        one = deciding(several)
        more = [one.other] * bool(others[1:]) + [_metric(one)] * bool(metrics[1:])
        if one.verdict == "holds" and name in sentence.open:
            more = ["the others were not trained"]
        found[name] = interval(one, margin) + (f" ({', '.join(more)})" if more else "")
    return compares, found


def deciding(comparisons: Sequence[Comparison]) -> Comparison:
    """Of a sentence's comparisons on one data set the one that made the verdict.

    One that contradicts it, the clearest; else of those that are open, or where all hold of all of
    them, the one whose interval reaches lowest.
    """
    contradicting = [one for one in comparisons if one.verdict == "contradicted"]
    if contradicting:
        return min(contradicting, key=lambda one: _turned(one)[2])
    still_open = [one for one in comparisons if one.verdict == "open"]
    return min(still_open or comparisons, key=lambda one: _turned(one)[1])


def interval(one: Comparison, margin: float = 0.0) -> str:
    """Difference and interval, above 0 being as claimed, in digits that show where it lies.

    No number that is not 0, or not at the margin, is rounded to it.
    """
    numbers = _turned(one)
    if max(map(abs, numbers)) >= 100:
        delta, low, high = (f"{x:+,.0f}" for x in numbers)
    else:
        digits = next((d for d in DIGITS if _clear(numbers, d, margin)), DIGITS[-1])
        delta, low, high = (_signed(x, digits) for x in numbers)
    return f"{delta} [{low}, {high}]"


def _turned(one: Comparison) -> tuple[float, float, float]:
    """Difference, lower and upper end, turned so that more is better."""
    found = one.found
    if direction(one.own_metric):
        return found.delta, found.low, found.high
    return 0.0 - found.delta, 0.0 - found.high, 0.0 - found.low


def _clear(numbers: Sequence[float], digits: int, margin: float) -> bool:
    """Whether rounding leaves all numbers on their sides of 0 and of minus the margin."""
    return all(
        math.isnan(x) or (round(x, digits) == bound) == (x == bound)
        for x in numbers
        for bound in (0.0, -margin)
    )


def _signed(value: float, digits: int) -> str:
    tiny = value != 0 and round(value, digits) == 0
    return f"{value:+.0e}" if tiny else f"{value:+.{digits}f}"


def _other(one: Comparison) -> str:
    return "" if one.own == one.other else f"against {one.other}"


def _metric(one: Comparison) -> str:
    same = one.own_metric == one.other_metric
    return f"`{one.own_metric}`" if same else f"`{one.own_metric}` against `{one.other_metric}`"
