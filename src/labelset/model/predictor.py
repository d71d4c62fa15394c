"""Predictor: what scores mean. Probabilities by a calibrator, label sets by a decision rule."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from labelset import calibrate, decide, metrics
from labelset.calibrate import ProbMap
from labelset.decide import Rule
from labelset.labels import Labels
from labelset.losses import NoLink, read_loss
from labelset.metrics import Metric


@dataclass(frozen=True, eq=False)
class Predictor:
    """scores -> calibrator -> probabilities -> rule -> label sets.

    `Predictor.of(loss, calibrator, rule)` takes what there is. Without a calibrator it is the link
    of the loss, without either the scores are log-odds; without a rule a label is predicted from
    probability 0.5.

    >>> Predictor.of("spa").sets([[0.0, 1.0]]).dense()
    tensor([[0., 1.]])
    """

    calibrator: ProbMap | None
    """None where the loss has no link and no calibrator was given."""
    rule: Rule
    names: Sequence[str] | None = None
    """What the labels are called."""
    lacking: str | None = None
    """Why there is no calibrator."""

    @classmethod
    def of(
        cls,
        loss: Any = None,
        calibrator: Any = None,
        rule: Any = None,
        names: Sequence[str] | None = None,
        remedy: str = ". Give it as `map`",
    ) -> Predictor:
        """From a loss, a calibrator and a rule, each as such, by name, or None.

        `remedy` ends the message that there are no probabilities.
        """
        rule = decide.build("fixed", threshold=0.5) if rule is None else rule
        decision = decide.build(rule) if isinstance(rule, str) else rule
        if calibrator is not None:
            named = isinstance(calibrator, str)
            return cls(calibrate.build(calibrator) if named else calibrator, decision, names)
        try:
            return cls(calibrate.build("link", loss=read_loss(loss)), decision, names)
        except NoLink as reason:
            return cls(None, decision, names, f"{reason}{remedy}")

    def or_sigmoid(self) -> Predictor:
        """The same, scores being log-odds where nothing else is known: for a look at what is."""
        if self.calibrator is not None:
            return self
        return replace(self, calibrator=calibrate.build("link"), lacking=None)

    def probabilities(self, scores: Any) -> Tensor:
        """(rows, labels) probabilities; `NoLink` where there is no way to them."""
        if self.calibrator is None:
            raise NoLink(str(self.lacking))
        return self.calibrator(scores)

    def decide(self, probabilities: Any) -> Labels:
        """The label sets that the rule decides for."""
        return self.rule(probabilities)

    def sets(self, scores: Any) -> Labels:
        """The same, from scores."""
        return self.rule(self.probabilities(scores))

    # ---- metrics --------------------------------------------------------------------------------

    def metric_input(self, metric: Metric, scores: Any) -> Any:
        """What the metric takes, from scores."""
        if metric.takes == "scores":
            return scores
        return self.sets(scores) if metric.takes == "label sets" else self.probabilities(scores)

    def require(self, metric: Metric) -> None:
        """`NoLink` or `NotFitted` for a metric whose input it cannot make."""
        if metric.takes == "scores":
            return
        if self.calibrator is None:
            raise NoLink(str(self.lacking))
        self.calibrator.as_json()
        if metric.takes == "label sets":
            self.rule.as_json()

    def metrics(self, wanted: Iterable[str | Metric]) -> dict[str, Metric]:
        """Metrics by name, from names or metrics; one whose input it cannot make is refused.

        >>> list(Predictor.of("bce").metrics(["ece", metrics.build("ndcg@3")]))
        ['ece', 'ndcg@3']
        """
        if isinstance(wanted, str):
            raise TypeError(f"metrics must be a list of names, got {wanted!r}; give [{wanted!r}]")
        named: dict[str, Metric] = {}
        for one in wanted:
            if not isinstance(one, (str, Metric)):
                raise TypeError(f"a metric or the name of one is due, got {one!r}")
            name = one if isinstance(one, str) else _called(one)
            if name in named:
                raise ValueError(f"two metrics are called {name!r}; leave one out")
            named[name] = metrics.build(one) if isinstance(one, str) else one
            self.require(named[name])
        if not named:
            raise ValueError("name at least one metric, such as 'map@class'")
        return named

    # ---- JSON -----------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        """All but the names, for `from_json`."""
        calibrator = None if self.calibrator is None else self.calibrator.as_json()
        return {"calibrator": calibrator, "rule": self.rule.as_json(), "lacking": self.lacking}

    @classmethod
    def from_json(cls, saved: Any, names: Sequence[str] | None = None) -> Predictor:
        """What `as_json` described."""
        if not isinstance(saved, dict) or not {"calibrator", "rule", "lacking"} <= set(saved):
            raise ValueError("a saved predictor must be a dict with calibrator, rule and lacking")
        found = saved["calibrator"]
        calibrator = None if found is None else calibrate.from_json(found)
        return cls(calibrator, decide.from_json(saved["rule"]), names, saved["lacking"])

    def digest(self) -> str:
        """Equal for predictors that predict the same, and hardly ever for others."""
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()


def _called(metric: Metric) -> str:
    """Its name in the catalogue, ndcg@k with its k."""
    name = metrics.catalog.name_of(type(metric))
    return name.replace("@k", f"@{metric.settings().get('k', 'k')}")
