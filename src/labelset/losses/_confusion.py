"""Smooth metrics: one minus a ratio of the four sums of a soft confusion matrix."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.formulas import NotTraceable
from labelset.kernels import Kernel
from labelset.kernels.confusion import SmoothMetric, confusion, traced_metric
from labelset.labels import Labels
from labelset.losses._base import Loss, Target, Terms

AVERAGES = ("macro", "micro", "weighted", "samples")
TINY = 1e-16  # in every denominator, as in the paper's program: nothing to find costs exactly 1


class Counts(NamedTuple):
    """True and false, positives and negatives, as sums of soft decisions."""

    tp: Tensor
    fp: Tensor
    fn: Tensor
    tn: Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class ConfusionLoss(Loss):
    """Subclasses give the soft decision and the ratio; `average` says what is summed together."""

    average: str = hyper(
        "macro",
        "`macro`: mean over labels; `micro`: all entries together; `weighted`: mean over labels "
        "by their number of positives; `samples`: mean over rows",
    )

    of_sums: ClassVar[bool] = True
    kernel_replaces = ("terms", "groups", "loss")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("average", self.average, AVERAGES)

    @property
    def saturates_positives(self) -> bool:
        return True

    @property
    def saturates_negatives(self) -> bool:
        return True

    @abstractmethod
    def decide(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """How much a score counts as a positive, and how much as a negative."""

    @abstractmethod
    def ratio(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Numerator and denominator of the metric."""

    def link_missing(self) -> str:
        return (
            "it counts soft decisions over the batch, and its optimum fixes no probability. Fit a "
            "calibrator (temperature, Platt, isotonic) to held-out scores instead"
        )

    def terms(self, logits: Tensor, labels: Target) -> Terms:
        yes, no, pos, neg = *self.decide(logits), labels.positive, labels.negative
        if self.average == "micro":
            yes, no, pos, neg = (m.reshape(-1, 1) for m in (yes, no, pos, neg))
        dim = 1 if self.average == "samples" else 0
        sums = [(a * b).sum(dim) for a, b in ((yes, pos), (yes, neg), (no, pos), (no, neg))]
        weights = pos.sum(dim) if self.average == "weighted" else (pos + neg > 0).any(dim)
        return self.loss(*sums), weights

    def loss(self, tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        """One minus the metric."""
        top, bottom = self.ratio(Counts(tp, fp, fn, tn))
        return 1 - top / (bottom + TINY)

    def kernel(self, impl: str, scores: Tensor, labels: Tensor | Labels) -> Kernel | None:
        metric = self._metric(scores.shape[1], scores.device) if self.has_kernel else None
        if metric is None:
            return None
        mean = self.reduction == "mean"
        return confusion(metric, impl, scores, labels, self.average, mean)

    def _metric(self, n: int, device: Any) -> SmoothMetric | None:
        """Decision and ratio as formulas, traced once for each number of labels."""
        key = n, device
        if key not in self._metrics:
            width = n if self.per_label() else 1
            try:
                self._metrics[key] = traced_metric(self.decide, self.loss, width, device)
            except NotTraceable:
                self._metrics[key] = None
        return self._metrics[key]

    @cached_property
    def _metrics(self) -> dict[Any, SmoothMetric | None]:
        return {}


def soft_step(v: Tensor, beta: Any, eta: Any) -> tuple[Tensor, Tensor]:
    """S and 1 - S, S = sigmoid(beta (v + eta)) of (6), each exact in its own tail."""
    for name, value in (("beta", beta), ("eta", eta)):
        if isinstance(value, Tensor) and value.ndim and value.shape[-1] not in (1, v.shape[-1]):
            raise ValueError(
                f"{name} was given for {value.shape[-1]} labels, the logits have {v.shape[-1]}"
            )
    beta, eta = (x.to(v.dtype) if isinstance(x, Tensor) else x for x in (beta, eta))
    z = beta * (v + eta)
    return torch.sigmoid(z), torch.sigmoid(-z)
