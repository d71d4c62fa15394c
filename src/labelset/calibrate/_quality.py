"""How well calibrated a map is, before and after: the statement that every fit makes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelset.metrics import reliability

__all__ = ["Quality", "ace", "fold_numbers"]


@dataclass(frozen=True)
class Quality:
    """The average calibration error (ACE) of rows that the map was not fitted on.

    ACE = mean over non-empty bins of |mean p - mean y|; 15 bins of equal width, all known entries
    pooled.

    >>> print(Quality(before=0.1, after=0.02, folds=5))
    ACE 0.1000 before and 0.0200 after calibration (5-fold cross-validation): it helped.
    """

    before: float
    """Of the link of the loss, or of the sigmoid where there is none."""
    after: float
    """Of the map."""
    folds: int
    """Parts of the rows that were held out in turn; 0 where there was nothing to fit."""

    @property
    def helped(self) -> bool:
        """Whether the error is smaller than before."""
        return self.after < self.before

    def __str__(self) -> str:
        how = f"{self.folds}-fold cross-validation" if self.folds else "nothing to fit"
        return (
            f"ACE {self.before:.4f} before and {self.after:.4f} after calibration ({how}): "
            f"it {'helped' if self.helped else 'did not help'}."
        )


def ace(p: Tensor, y: Tensor) -> float:
    """The pooled ACE of (rows, labels) probabilities; unknown labels are NaN."""
    return reliability(p, y).ace()


def fold_numbers(rows: int, folds: int, seed: int) -> Tensor:
    """The part that each row belongs to: sizes differ by one at most.

    >>> fold_numbers(5, 2, seed=0).bincount()
    tensor([3, 2])
    """
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    return order % folds
