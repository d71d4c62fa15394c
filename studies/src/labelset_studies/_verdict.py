"""Verdicts: of a sentence on one data set, over all of them, and of a claim.

On one data set, for every comparison that the sentence makes, the interval of the paired
difference, turned so that more is better, is looked at:

    better   holds where it lies above 0, is contradicted where it lies below 0, else is open
    within   holds where it lies above -margin, is contradicted where it lies below -margin
    reaches  holds where every seed is as good as the value, else is contradicted

A sentence of several comparisons holds where all of them do and is contradicted where one of them
is. Over data sets it is reproduced where it holds on more than half of them and is contradicted
on none, not reproduced where it is contradicted on more than it holds on, else inconclusive.
A claim is reproduced where all its sentences are, not reproduced where one of them is not, else
inconclusive; sentences beyond the paper have no say, and as nobody claimed them they are told to
hold, not to hold or to be open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labelset_studies._difference import Difference, Seeds, difference
from labelset_studies._expect import Expect
from labelset_studies._special import direction
from labelset_studies._store import Done

ASKED = {"reproduced": "holds", "not reproduced": "does not hold", "inconclusive": "open"}
"""Verdicts of what no paper claims."""

Group = dict[str, dict[int, Done]]
"""Candidate -> seed -> what its cell left, on one data set."""


@dataclass(frozen=True)
class Comparison:
    """One comparison of a sentence on one data set."""

    claim: int
    table: str
    says: str
    data: str
    missing: float
    own: str
    own_metric: str
    other: str
    other_metric: str
    found: Difference
    verdict: str
    """holds, contradicted or open."""


@dataclass(frozen=True)
class Sentence:
    """One sentence over all data sets."""

    claim: int
    table: str
    says: str
    extra: bool
    holds: tuple[str, ...]
    contradicted: tuple[str, ...]
    open: tuple[str, ...]
    main: bool = False

    @property
    def verdict(self) -> str:
        """reproduced, not reproduced or inconclusive."""
        sets = len(self.holds) + len(self.contradicted) + len(self.open)
        if 2 * len(self.holds) > sets and not self.contradicted:
            return "reproduced"
        return "not reproduced" if len(self.contradicted) > len(self.holds) else "inconclusive"

    @property
    def told(self) -> str:
        """The verdict in words that suit: nothing can be reproduced that nobody claimed.

        >>> Sentence(1, "t", "s", True, ("yeast",), (), ()).told
        'holds'
        """
        return ASKED[self.verdict] if self.extra else self.verdict


def compared(
    claim: int, table: str, expect: Expect, where: tuple[str, float], group: Group
) -> list[Comparison]:
    """All comparisons of a sentence on one data set for which there are numbers."""
    found: list[Comparison] = []
    for metric in expect.metrics if expect.reaches is not None else ():
        own = Seeds.of(group.get(expect.better, {}), metric)
        if own.values:
            names = (expect.better, metric, f"{expect.reaches:g}", metric)
            reached = _reached(own, expect.reaches or 0.0, direction(metric))
            found.append(Comparison(claim, table, expect.says, *where, *names, *reached))
    for own_metric, name, other_metric in expect.pairs():
        own = Seeds.of(group.get(expect.better, {}), own_metric)
        other = Seeds.of(group.get(name, {}), other_metric)
        paired = difference(own, other)
        if paired is not None:
            verdict = _verdict(paired, direction(own_metric), expect.within or 0.0)
            names = (expect.better, own_metric, name, other_metric)
            found.append(Comparison(claim, table, expect.says, *where, *names, paired, verdict))
    return found


def _reached(own: Seeds, value: float, higher: bool) -> tuple[Difference, str]:
    low, high = min(own.values.values()) - value, max(own.values.values()) - value
    good = low >= 0 if higher else high <= 0
    return (
        Difference(own.mean, value, own.mean - value, low, high),
        "holds" if good else "contradicted",
    )


def _verdict(found: Difference, higher: bool, margin: float) -> str:
    low, high = (found.low, found.high) if higher else (-found.high, -found.low)
    return "holds" if low > -margin else "contradicted" if high < -margin else "open"


def sentence_verdict(expect: Expect, comparisons: Sequence[Comparison]) -> Sentence:
    """Over data sets; a set with numbers for only some of the comparisons is left open."""
    by_set: dict[str, list[str]] = {}
    for one in comparisons:
        by_set.setdefault(called(one.data, one.missing), []).append(one.verdict)
    wanted = len(expect.metrics) if expect.kind == "reaches" else len(expect.pairs())
    sides: dict[str, list[str]] = {"holds": [], "contradicted": [], "open": []}
    for name, verdicts in by_set.items():
        whole = len(verdicts) == wanted and set(verdicts) == {"holds"}
        kind = "contradicted" if "contradicted" in verdicts else "holds" if whole else "open"
        sides[kind].append(name)
    first = comparisons[0]
    holds, contradicted, unsure = map(tuple, sides.values())
    names = (first.claim, first.table, expect.says, expect.extra)
    return Sentence(*names, holds, contradicted, unsure, expect.main)


def claim_verdict(sentences: Sequence[Sentence]) -> str:
    """As its weakest sentence.

    >>> claim_verdict([])
    'no claim'
    """
    verdicts = {sentence.verdict for sentence in sentences if not sentence.extra}
    if not verdicts:
        return "no claim"
    if "not reproduced" in verdicts:
        return "not reproduced"
    return "reproduced" if verdicts == {"reproduced"} else "inconclusive"


def called(data: str, missing: float) -> str:
    """A data set and its condition."""
    return f"{data} (r = {missing:g})" if missing else data


def data_of(name: str) -> str:
    """The data set alone.

    >>> data_of(called("yeast", 0.5)), data_of("yeast")
    ('yeast', 'yeast')
    """
    return name.partition(" (r = ")[0]
