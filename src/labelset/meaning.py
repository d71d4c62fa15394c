"""What scores mean: probabilities by a map, label sets by a rule. Other libraries are told so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from labelset import calibrate, decide, metrics
from labelset.calibrate import ProbMap
from labelset.decide import Rule
from labelset.labels import Labels
from labelset.losses import NoLink
from labelset.losses._described import read_loss
from labelset.metrics import Metric

__all__ = ["Meaning"]


@dataclass(frozen=True, eq=False)
class Meaning:
    """scores -> map -> probabilities -> rule -> label sets.

    `Meaning.of(loss, map, rule)` takes what there is. Without a map it is the link of the loss,
    without either the scores are log-odds; without a rule a label is on from probability 0.5.

    >>> Meaning.of("spa").sets([[0.0, 1.0]]).dense()
    tensor([[0., 1.]])
    """

    map: ProbMap | None
    """None where the loss has no link and no map was given."""
    rule: Rule
    lacking: str | None = None
    """Why there is no map."""

    @classmethod
    def of(cls, loss: Any = None, map: Any = None, rule: Any = None) -> Meaning:
        """From a loss, a map and a rule, each as such, by name, or None."""
        decision = decide.build("fixed", threshold=0.5) if rule is None else _rule(rule)
        if map is not None:
            return cls(calibrate.build(map) if isinstance(map, str) else map, decision)
        try:
            return cls(calibrate.build("link", loss=read_loss(loss)), decision)
        except NoLink as reason:
            return cls(None, decision, f"{reason}. Give it as `map`")

    def probabilities(self, scores: Any) -> Tensor:
        """(rows, labels) probabilities; `NoLink` where there is no way to them."""
        if self.map is None:
            raise NoLink(str(self.lacking))
        return self.map(scores)

    def sets(self, scores: Any) -> Labels:
        """The label sets that the rule decides for."""
        return self.rule(self.probabilities(scores))

    def given(self, metric: Metric, scores: Any) -> Any:
        """What the metric takes, from scores."""
        if metric.takes == "scores":
            return scores
        return self.sets(scores) if metric.takes == "label sets" else self.probabilities(scores)

    def refuse(self, metric: Metric) -> None:
        """`NoLink` or `NotFitted` for a metric that it has nothing for."""
        if metric.takes == "scores":
            return
        if self.map is None:
            raise NoLink(str(self.lacking))
        self.map.as_json()
        if metric.takes == "label sets":
            self.rule.as_json()

    def metrics(self, given: Iterable[str | Metric]) -> dict[str, Metric]:
        """Metrics by name, from names or metrics; one that it has nothing for is refused.

        >>> list(Meaning.of("bce").metrics(["ece", metrics.build("ndcg@3")]))
        ['ece', 'ndcg@3']
        """
        if isinstance(given, str):
            raise TypeError(f"metrics must be a list of names, got {given!r}; give [{given!r}]")
        found: dict[str, Metric] = {}
        for one in given:
            if not isinstance(one, (str, Metric)):
                raise TypeError(f"a metric or the name of one is due, got {one!r}")
            name = one if isinstance(one, str) else _called(one)
            if name in found:
                raise ValueError(f"two metrics are called {name!r}; leave one out")
            found[name] = metrics.build(one) if isinstance(one, str) else one
            self.refuse(found[name])
        if not found:
            raise ValueError("name at least one metric, such as 'map@class'")
        return found

    # ---- JSON -----------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        """All there is, for `from_json`."""
        if not self.rule.row_by_row:
            raise ValueError(
                f"the rule {self.rule.name!r} decides for many rows together, and rows that come "
                "one at a time cannot be decided so; fit it, or take another, such as 'per-class'"
            )
        held = None if self.map is None else self.map.as_json()
        return {"map": held, "rule": self.rule.as_json(), "lacking": self.lacking}

    @classmethod
    def from_json(cls, saved: Any) -> Meaning:
        """What `as_json` described."""
        if not isinstance(saved, dict) or not {"map", "rule", "lacking"} <= set(saved):
            raise ValueError("a saved meaning must be a dict with map, rule and lacking")
        held = None if saved["map"] is None else calibrate.from_json(saved["map"])
        return cls(held, decide.from_json(saved["rule"]), saved["lacking"])


def _called(metric: Metric) -> str:
    """Its name in the catalogue, ndcg@k with its k."""
    name = metrics.catalog.name_of(type(metric))
    return name.replace("@k", f"@{metric.settings().get('k', 'k')}")


def _rule(rule: Any) -> Rule:
    return decide.build(rule) if isinstance(rule, str) else rule
