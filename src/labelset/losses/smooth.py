"""Any metric of the confusion matrix as a smooth loss (Benedict et al.)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.losses._confusion import ConfusionLoss, Counts, soft_step

Ratio = Callable[[Counts, float], tuple[Tensor, Tensor]]

METRICS: dict[str, Ratio] = {
    "f1": lambda c, _: (2 * c.tp, 2 * c.tp + c.fn + c.fp),
    "fbeta": lambda c, b: ((1 + b**2) * c.tp, (1 + b**2) * c.tp + b**2 * c.fn + c.fp),
    "jaccard": lambda c, _: (c.tp, c.tp + c.fp + c.fn),
    "accuracy": lambda c, _: (c.tp + c.tn, c.tp + c.fp + c.fn + c.tn),
    "precision": lambda c, _: (c.tp, c.tp + c.fp),
    "recall": lambda c, _: (c.tp, c.tp + c.fn),
    "specificity": lambda c, _: (c.tn, c.tn + c.fp),
    "npv": lambda c, _: (c.tn, c.tn + c.fn),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Smooth(ConfusionLoss):
    """One minus a metric of the batch, its decisions softened by a steep sigmoid.

        S = sigmoid(beta (v + eta))                                                       (6)
        tp = sum S y,  fp = sum S (1 - y),  fn = sum (1 - S) y,  tn = sum (1 - S)(1 - y)  (5)
        loss = 1 - metric(tp, fp, fn, tn)                                           (Table 5)
        link: none

        f1         2 tp / (2 tp + fn + fp)            precision    tp / (tp + fp)
        fbeta      (1 + b^2) tp / ((1 + b^2) tp       recall       tp / (tp + fn)
                   + b^2 fn + fp),  b = f_beta        specificity  tn / (tn + fp)
        jaccard    tp / (tp + fp + fn)                npv          tn / (tn + fn)
        accuracy   (tp + tn) / (tp + fp + fn + tn)

    `beta` is the steepness of S; the b of F-beta is `f_beta`. A ratio of nothing by nothing is 0,
    so that label or row costs exactly 1.

    Use it: when the metric that will judge the model is one of these. Precision or recall alone
    is won by predicting little or everything: add the other, or use `fbeta`.

    Probabilities: none. Calibrate held-out scores.

    >>> import torch
    >>> Smooth(metric="recall")(torch.tensor([[0.0], [0.0]]), torch.tensor([[1.0], [0.0]]))
    tensor(0.5000)
    """

    metric: str = hyper(
        "f1",
        "one of `f1`, `fbeta`, `jaccard`, `accuracy`, `precision`, `recall`, `specificity`, `npv`",
    )
    beta: Any = hyper(1.0, "steepness, above 0: a number, one per label, or an nn.Parameter")
    eta: Any = hyper(0.0, "offset of the scores: a number, one per label, or an nn.Parameter")
    f_beta: float = hyper(1.0, "the b of `fbeta`: how much more recall counts than precision")

    limits = {"sigmoid-f1": {"metric": "fbeta", "f_beta": 1.0}}
    examples = (
        *({"metric": metric} for metric in METRICS),
        {"metric": "fbeta", "f_beta": 2.0, "beta": 3.0, "average": "micro"},
        {"metric": "jaccard", "average": "weighted"},
        {"metric": "recall", "average": "samples"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("metric", self.metric, tuple(METRICS))
        object.__setattr__(self, "beta", check.per_label("beta", self.beta, positive=True))
        object.__setattr__(self, "eta", check.per_label("eta", self.eta))
        check.number("f_beta", self.f_beta, low=0.0, open_low=True)

    def decide(self, v: Tensor) -> tuple[Tensor, Tensor]:
        return soft_step(v, self.beta, self.eta)

    def ratio(self, counts: Counts) -> tuple[Tensor, Tensor]:
        return METRICS[self.metric](counts, self.f_beta)
