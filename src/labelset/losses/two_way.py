"""Two-way multi-label loss (Kobayashi)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.losses._axes import AxisLoss
from labelset.losses._separable import softplus


@dataclass(frozen=True, kw_only=True, eq=False)
class TwoWay(AxisLoss):
    """The hardest positive against the hardest negative, softly, along rows and along columns.

        row = softplus(T- log sum_N exp(x / T-) + T+ log sum_P exp(-x / T+))             (14)
        loss = mean over rows (15) + mean over columns (16)                              (17)
        joint: one such loss over the whole matrix                                       (22)
        P, N: the positives and the negatives of the row
        link: none

    Rows and columns without a positive are left out of their mean; one without a negative costs
    exactly 0 and counts. Soft labels weigh the exponentials.

    Use it: to rank well both labels within a row and rows within a label. The loss of
    columns sees the rows of the batch: 64 or more of them.

    Probabilities: none. Only differences of scores count, and adding a number to all of them
    changes nothing. Calibrate held-out scores.

    >>> import torch
    >>> TwoWay(way="sample")(torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 0.0]]))
    tensor(0.1269)
    """

    temperature: float = hyper(4.0, "T+, of the positives: larger widens the margin")
    temperature_neg: float = hyper(1.0, "T-, of the negatives")
    way: str = hyper("both", "`both`, `class` (columns), `sample` (rows), `joint` (all at once)")

    ways = ("both", "class", "sample", "joint")
    limits = {"softmax": {"way": "sample"}}
    limits_one_positive = frozenset({"softmax"})
    examples = (
        {},
        {"way": "sample"},
        {"way": "class", "temperature": 2.0, "temperature_neg": 0.5},
        {"way": "joint"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("temperature", "temperature_neg"):
            check.number(name, getattr(self, name), low=0.0, open_low=True)

    @property
    def exponents(self) -> tuple[float, float]:
        return -1.0 / self.temperature, 1.0 / self.temperature_neg

    def value(self, positive: Tensor, negative: Tensor, mean: Tensor) -> Tensor:
        return softplus(self.temperature_neg * negative + self.temperature * positive)
