"""The k most probable labels."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.decide._base import Rule, largest


@dataclass(kw_only=True, eq=False)
class TopK(Rule):
    """The k largest probabilities of each row; of equal ones the lowest label number.

    >>> TopK(k=2)([[0.1, 0.7, 0.1, 0.1]]).dense()
    tensor([[1., 1., 0., 0.]])
    """

    name = "top-k"
    needs_fit = False

    k: int = hyper(doc="how many labels are on in each row")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("k", self.k, low=1)

    def decide(self, p: Tensor) -> Tensor:
        """Exactly k in each row."""
        return largest(p, self.k)
