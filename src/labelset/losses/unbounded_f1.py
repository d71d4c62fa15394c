"""unboundedF1 (Benedict et al.): F1 of the raw scores."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from labelset.losses._confusion import ConfusionLoss, Counts


@dataclass(frozen=True, kw_only=True, eq=False)
class UnboundedF1(ConfusionLoss):
    """One minus the F1 of the batch, the raw scores standing in for decisions.

        tp = sum v y,  fp = sum v (1 - y),  fn = sum (1 - v) y                            (4)
        loss = 1 - 2 tp / (2 tp + fn + fp)                                                (7)
        link: none

    Use it: as the paper's baseline for `sigmoid-f1`: there is no steepness to choose. It has no
    lower bound: where the scores of a label sum to about minus its positives it runs away.

    Probabilities: none. Calibrate held-out scores.

    >>> import torch
    >>> UnboundedF1()(torch.tensor([[1.0], [0.0]]), torch.tensor([[1.0], [0.0]]))
    tensor(0.)
    """

    examples = ({}, {"average": "micro"}, {"average": "weighted"}, {"average": "samples"})

    def decide(self, v: Tensor) -> tuple[Tensor, Tensor]:
        return v, 1 - v

    def ratio(self, counts: Counts) -> tuple[Tensor, Tensor]:
        return 2 * counts.tp, 2 * counts.tp + counts.fn + counts.fp
