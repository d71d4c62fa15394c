"""Thresholds tuned for a metric: what one for all labels and one per label have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from labelset import _given, check
from labelset.catalog import hyper
from labelset.decide._base import aligned
from labelset.decide._metric import METRICS, check_beta, metric_value
from labelset.decide._thresholds import Thresholds

__all__ = ["Tuned"]


@dataclass(kw_only=True, eq=False)
class Tuned(Thresholds):
    """Thresholds with the best value of `metric` on the data given to `fit`."""

    metrics: ClassVar[tuple[str, ...]] = METRICS
    """Those it can be tuned for."""

    metric: str
    beta: float = hyper(1.0, "F-beta for F1: how much more recall matters than precision")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("metric", self.metric, self.metrics)
        check_beta(self.beta)

    @property
    @abstractmethod
    def optimal(self) -> bool:
        """Whether what it learns is the exact optimum over all cut points."""

    @property
    def thresholds(self) -> Tensor:
        """What was learnt."""
        return self.found("thresholds")

    def objective(self, probs: Any, labels: Any) -> float:
        """The metric of this rule's decisions, over known labels; larger is better."""
        p, on, known = aligned(probs, labels)
        picked = self(p).dense().numpy() == 1
        return metric_value(self.metric, self.beta, picked, on.numpy(), known.numpy())

    def score(self, decided: Any, labels: Any) -> float:
        """The metric of any label sets, over known labels."""
        chosen, y = _given.label_sets(decided, labels)
        truth = y.dense().cpu().numpy()
        picked = chosen.dense().cpu().numpy() == 1
        return metric_value(self.metric, self.beta, picked, truth == 1, ~np.isnan(truth))
