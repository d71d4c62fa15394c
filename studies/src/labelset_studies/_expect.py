"""Expect: one sentence of a claim, and what would show it on one data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from labelset import check


@dataclass(frozen=True, kw_only=True)
class Expect:
    """`better` beats each of `than` by each of `metrics`; or is within a margin; or has a value.

    >>> Expect(says="a beats b", better="a", than=("b",), metrics=("raw map@class",)).kind
    'better'
    """

    says: str
    """The sentence."""
    better: str
    """The candidate it is about."""
    metrics: tuple[str, ...]
    than: tuple[str, ...] = ()
    than_metrics: tuple[str, ...] = ()
    """What of the others is compared; the same metrics unless given."""
    within: float | None = None
    """It need not be better: the interval must lie above a loss of this much."""
    reaches: float | None = None
    """No comparison: every seed must be as good as this value."""
    extra: bool = False
    """Beyond the paper: reported, with no say in the claim's verdict."""
    main: bool = False
    """Told in the summary, being what the claim comes to in a sentence."""

    @classmethod
    def read(cls, given: dict[str, Any]) -> Expect:
        """From a table's file; lists may be single words there."""
        known = [f.name for f in fields(cls)]
        for key in given:
            if key not in known:
                raise ValueError(f"expect has no {key!r}: {check.nearest(key, known)}")
        listed = ("metrics", "than", "than_metrics")
        held: dict[str, Any] = {k: _words(v) if k in listed else v for k, v in given.items()}
        made = cls(**held)
        if made.kind != "reaches" and not made.than:
            raise ValueError(f"expect {made.says!r}: names nobody to compare with in `than`")
        if made.than_metrics and len(made.than_metrics) != len(made.metrics):
            raise ValueError(f"expect {made.says!r}: as many than_metrics as metrics are needed")
        return made

    @property
    def kind(self) -> str:
        """better, within or reaches."""
        if self.reaches is not None:
            return "reaches"
        return "better" if self.within is None else "within"

    def named(self) -> tuple[str, ...]:
        """Candidates that it needs."""
        return (self.better, *self.than)

    def measured(self) -> tuple[str, ...]:
        """Metrics that it needs."""
        return (*self.metrics, *self.than_metrics)

    def pairs(self) -> list[tuple[str, str, str]]:
        """Of every comparison: own metric, the other candidate, its metric."""
        others = self.than_metrics or self.metrics
        both = list(zip(self.metrics, others, strict=True))
        return [(own, name, other) for name in self.than for own, other in both]


def _words(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
