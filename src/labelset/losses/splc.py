"""Self-paced loss correction (Zhang et al.)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.losses._base import Loss, as_loss
from labelset.losses._separable import Separable


@dataclass(frozen=True, kw_only=True, eq=False)
class SPLC(Separable):
    """For missing labels: a negative the model is sure of is taken for a positive.

        pos(v) = pos of the base
        neg(v) = pos of the base without its margin   where sigmoid(v) > tau             (10)
                 neg of the base                      elsewhere
        link: none

    `loss.at(epoch)` is the base before `start_epoch` (counted from 0) and this loss from then on.

    Use it: when entries recorded as negative are partly positive, with any separable base; the
    training loop passes the epoch through `at`. `tau` is read off sigmoid(v), whatever the base.

    Probabilities: none. The correction follows the model's own scores, and its optimum depends on
    where training began. Calibrate scores on rows whose labels are complete.

    >>> loss = SPLC(base="bce")
    >>> loss(torch.tensor([[2.0]]), torch.tensor([[0.0]]))
    tensor(0.1269)
    >>> loss.at(0)(torch.tensor([[2.0]]), torch.tensor([[0.0]]))
    tensor(2.1269)
    """

    base: Any = hyper("focal-margin", "separable loss, or its name, that is corrected")
    tau: float = hyper(0.6, "sigmoid(v) above which a negative is taken for a positive")
    start_epoch: int = hyper(1, "first epoch, counted from 0, that corrects")

    limits = {"focal-margin": {"tau": 1.0}}
    examples = ({}, {"base": "bce", "tau": 0.7}, {"base": "asl"}, {"base": "wan"}, {"base": "hill"})

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "base", as_loss("base", self.base, Separable))
        check.number("tau", self.tau, low=0.0, high=1.0, open_low=True)
        check.whole("start_epoch", self.start_epoch)

    @property
    def saturates_positives(self) -> bool:
        return self.base.saturates_positives  # type: ignore[no-any-return]

    @property
    def saturates_negatives(self) -> bool:
        return True

    @property
    def detached(self) -> bool:
        return self.base.detached  # type: ignore[no-any-return]

    def pos(self, v: Tensor) -> Tensor:
        return self.base.pos(v)  # type: ignore[no-any-return]

    def neg(self, v: Tensor) -> Tensor:
        corrected = self.base.unmargined().pos(v)
        return torch.where(torch.sigmoid(v) > self.tau, corrected, self.base.neg(v))

    def at(self, epoch: int) -> Loss:
        base = self.base.at(epoch)
        if epoch >= self.start_epoch:
            return super().at(epoch)
        return base._with(reduction=self.reduction, impl=self.impl)  # type: ignore[no-any-return]

    def unmargined(self) -> Separable:
        return self.base.unmargined()  # type: ignore[no-any-return]

    def link_missing(self) -> str:
        return (
            "it follows the model's own scores, so its optimum fixes no probability. Fit a "
            "calibrator (temperature, Platt, isotonic) to held-out scores of rows whose "
            "labels are complete"
        )
