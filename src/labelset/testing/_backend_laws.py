"""The law of implementations: a faster one errs no more than the formula in the same precision."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from labelset.kernels._choice import missing
from labelset.labels import Labels
from labelset.losses import Loss
from labelset.losses._sum import Sum
from labelset.testing._cases import Cases, hold, value_and_grad

__all__ = ["as_close_as_eager", "implementations"]


def implementations(loss: Loss) -> None:
    """Every implementation at hand is as close to float64 as the eager formula is."""
    if not isinstance(loss, Loss) or isinstance(loss, Sum) or loss.reduction == "none":
        return
    for impl, device in (("native", "cpu"), ("triton", "cuda")):
        if (device == "cuda" and not torch.cuda.is_available()) or missing(
            impl, torch.zeros(1, device=device)
        ):
            continue
        for v, y in (*Cases(loss).all(12), Cases(loss).far()):
            for labels in (y.to(device), Labels.from_dense(y).to(device)):
                as_close_as_eager(loss.to(device), impl, v.float().to(device), labels)


def as_close_as_eager(
    loss: Loss, impl: str, v: Tensor, labels: Tensor | Labels, upstream: float = 3.0
) -> None:
    """Value and gradient against float64: the eager error fourfold, and rounding.

    A loss of which this implementation has no kernel is left alone.
    """
    eager, kernel = loss._with(impl="eager"), loss._with(impl=impl)
    try:
        # Triton's interpreter computes in NumPy, which warns where a GPU gives infinity
        with np.errstate(all="ignore"):
            found = value_and_grad(lambda s, y: upstream * kernel(s, y), v, labels)
    except RuntimeError as problem:
        if "has no kernel" in str(problem):
            return
        raise
    truth = value_and_grad(lambda s, y: upstream * eager(s, y), v.double(), labels)
    plain = value_and_grad(lambda s, y: upstream * eager(s, y), v, labels)
    for what, mine, theirs, right in zip(("value", "gradient"), found, plain, truth, strict=True):
        wrong = (mine.double() - right).abs().max()
        allowed = 4 * (theirs.double() - right).abs().max() + 4e-6 * right.abs().max() + 1e-6
        hold(wrong <= allowed, f"the {what} by {impl!r} is off by {wrong:.2g}, more than eager's")
