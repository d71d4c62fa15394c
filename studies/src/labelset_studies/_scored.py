"""Scores of a trained model, and what each stage makes of them.

A stage is a map from scores to probabilities and, where label sets are judged, a rule:

    raw        scores as they are
    sigmoid    1 / (1 + exp(-v)), whatever the loss: what the papers threshold at 0.5
    link       the loss's own probabilities (phi for focal and asl)
    own        link; where there is none what the loss itself takes for on, else sigmoid
    platt, temperature, isotonic, ...   maps that are fitted on validation rows
    MAP/tuned  the rule that makes the metric largest on validation rows
    MAP/averaging, MAP/expected-f1   other rules, fitted on validation rows where they learn
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from labelset import calibrate, decide
from labelset.labels import Labels
from labelset.losses import ConfusionLoss, Loss
from labelset.metrics import build

TUNED = {
    **{name: ("global", name) for name in ("f1-micro", "f1-samples")},
    **{name: ("per-class", name) for name in ("f1-macro", "f1-weighted")},
    "of1": ("global", "f1-micro"),
    "cf1": ("per-class", "f1-macro"),
}


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores and labels of validation and test rows."""

    loss: Loss
    scores: dict[str, Tensor]
    labels: dict[str, Labels]
    held: dict[tuple[str, str], Tensor] = field(default_factory=dict)
    """Probabilities that were asked for before."""

    def given(self, stage: str, metric: str, split: str) -> Any:
        """What a metric takes at a stage: scores, probabilities or label sets."""
        takes = build(metric).takes
        name, slash, rule = stage.partition("/")
        if takes == "scores" and name == "raw":
            return self.scores[split]
        p = self.probabilities(name, split)
        if takes != "label sets":
            return p
        return self._rule(name, rule, metric)(p) if slash else decide.build("fixed")(p)

    def probabilities(self, name: str, split: str) -> Tensor:
        """By a map's name."""
        if (name, split) not in self.held:
            self.held[name, split] = self._mapped(name, self.scores[split])
        return self.held[name, split]

    def _mapped(self, name: str, v: Tensor) -> Tensor:
        if name == "sigmoid" or (name == "own" and self._plain()):
            return torch.sigmoid(v)
        if name == "own" and isinstance(self.loss, ConfusionLoss):
            return self.loss.decide(v)[0].clamp(0.0, 1.0)
        if name in ("link", "own"):
            return self.loss.link(v)
        chosen = calibrate.build(name, loss=None if self.loss.link_missing() else self.loss)
        mapped: Tensor = chosen.fit(self.scores["valid"], self.labels["valid"], folds=0)(v)
        return mapped

    def _plain(self) -> bool:
        """Nothing better than the sigmoid is known."""
        return self.loss.link_missing() is not None and not isinstance(self.loss, ConfusionLoss)

    def _rule(self, name: str, rule: str, metric: str) -> Any:
        if rule == "tuned":
            kind, aim = TUNED[metric]
            chosen = decide.build(kind, metric=aim)
        else:
            chosen = decide.build(rule)
        if not chosen.needs_fit:
            return chosen
        return chosen.fit(self.probabilities(name, "valid"), self.labels["valid"])
