"""sigmoidF1 (Benedict et al.)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.losses._confusion import ConfusionLoss, Counts, soft_step


@dataclass(frozen=True, kw_only=True, eq=False)
class SigmoidF1(ConfusionLoss):
    """One minus the F1 of the batch, its decisions softened by a steep sigmoid.

        S = sigmoid(beta (v + eta))                                                       (6)
        tp = sum S y,  fp = sum S (1 - y),  fn = sum (1 - S) y                            (5)
        loss = 1 - 2 tp / (2 tp + fn + fp)                                                (8)
        link: none

    A label without a positive in the batch costs exactly 1 and has no gradient. The paper's best
    settings: beta = 10.25, eta = -0.75 (images); beta = 9, eta = 1 (text). `beta` and `eta` may
    be one number, one per label, or an `nn.Parameter` of either kind, which `loss.parameters()`
    hands to an optimiser; keep a learnt beta above 0.

    Use it: when F1 at a fixed threshold is the goal. It is a loss of the batch: take large ones.

    Probabilities: none. It moves scores to either side of -eta and does not say by how much.
    Calibrate held-out scores.

    >>> import torch
    >>> SigmoidF1()(torch.tensor([[0.0], [0.0]]), torch.tensor([[1.0], [0.0]]))
    tensor(0.5000)
    """

    beta: Any = hyper(1.0, "steepness, above 0: a number, one per label, or an nn.Parameter")
    eta: Any = hyper(0.0, "offset of the scores: a number, one per label, or an nn.Parameter")

    limits = {"smooth": {}}
    examples = (
        {},
        {"beta": 10.25, "eta": -0.75, "average": "micro"},
        {"average": "weighted"},
        {"beta": 2.0, "average": "samples"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "beta", check.per_label("beta", self.beta, positive=True))
        object.__setattr__(self, "eta", check.per_label("eta", self.eta))

    def decide(self, v: Tensor) -> tuple[Tensor, Tensor]:
        return soft_step(v, self.beta, self.eta)

    def ratio(self, counts: Counts) -> tuple[Tensor, Tensor]:
        return 2 * counts.tp, 2 * counts.tp + counts.fn + counts.fp
