"""The strictly proper asymmetric loss with its label pair regulariser."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.losses._base import Loss, Target, Terms
from labelset.losses.lpr import LPR
from labelset.losses.spa import SPA


@dataclass(frozen=True, kw_only=True, eq=False)
class SPAPairs(Loss):
    """spa + lam * lpr(of=spa): the paper's full training loss.

        loss = mean of spa (16) + lam * mean over rows of lpr (20)                       (21)
        link(v) = that of spa (17, corrected)

    The paper does not state lam. The default, 1, gives both parts the same order of size: a row
    with few positives has about T |P| active pairs, and 2 / (T (T - 1)) scales their sum to
    about twice the share that |P| positives have in a mean over T entries.

    Use it: where `spa` is used and training rows are few; it costs |P| x |N| operations per row.

    Probabilities: true ones at the optimum, through the link of spa only.

    >>> import torch
    >>> SPAPairs().link(torch.tensor([0.0]))
    tensor([0.0538])
    """

    zeta_pos: float = hyper(1.0, "as in spa")
    k_pos: float = hyper(1.0, "as in spa")
    b_pos: float = hyper(0.0, "as in spa")
    zeta_neg: float = hyper(5.0, "as in spa")
    k_neg: float = hyper(3.0, "as in spa")
    b_neg: float = hyper(1.0, "as in spa")
    lam: float = hyper(1.0, "weight of the label pairs")

    name = "spa+lpr"
    reductions = ("mean", "sum")
    limits = {"spa": {"lam": 0.0}}
    examples = ({}, {"lam": 0.25, "zeta_neg": 2.0})

    def __post_init__(self) -> None:
        super().__post_init__()
        check.number("lam", self.lam, low=0.0)
        _ = self._sum  # made once here, not inside a traced call

    @cached_property
    def _spa(self) -> SPA:
        return SPA(**{f.name: getattr(self, f.name) for f in fields(SPA)})

    @cached_property
    def _sum(self) -> Loss:
        return self._spa + self.lam * LPR(of=self._spa, reduction=self.reduction, impl=self.impl)

    def __call__(self, logits: Tensor, labels: Any) -> Tensor:
        return self._sum(logits, labels)

    def terms(self, logits: Tensor, labels: Target) -> Terms:
        raise TypeError("spa+lpr is a sum and has no terms of its own; ask spa and lpr")

    def link_missing(self) -> None:
        return None

    def log_odds(self, v: Tensor) -> Tensor:
        return self._spa.log_odds(v)

    def meaning(self) -> Loss:
        return self._spa
