"""Label pairs by kernels: memory of a few times the scores, however many pairs there are."""

from __future__ import annotations

from torch import Tensor

from labelset.kernels import _pairs_blocks
from labelset.kernels._gradient import Kernel, Result
from labelset.kernels._pairs_odds import Odds, finite
from labelset.labels import Labels

__all__ = ["Odds", "few", "finite", "pairs"]

FEW = 2**17  # pairs; with fewer, calls of torch cost more than what they compute


def pairs(odds: Odds, impl: str, mean: bool) -> Kernel:
    """The mean over rows with two known labels, or the sum, of

    2 / (T (T - 1)) sum over t on, t' off of softplus(u_t' - u_t), T labels of the row being known.
    """

    def kernel(v: Tensor, labels: Tensor | Labels) -> Result:
        if impl == "triton":
            from labelset.kernels import _pairs_device

            found = _pairs_device.value_and_gradient(*odds.by_triton(v), labels, mean, v.dtype)
        else:
            found = _pairs_blocks.value_and_gradient(odds.by_native, v, labels, mean)
        return *found, None

    return kernel


def few(labels: Tensor | Labels) -> bool:
    """Whether the formula, written out for every pair at once, is small (on a CPU)."""
    if isinstance(labels, Labels):
        return len(labels.indices) * labels.n <= FEW
    small = labels.numel() <= FEW
    return small and int((labels > 0).sum()) * labels.shape[1] <= FEW
