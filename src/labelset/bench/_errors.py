"""How far value and gradient are from the formula in float64: a fast wrong kernel is seen."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor

from labelset.bench._case import Inputs
from labelset.bench._memory import is_out_of_memory
from labelset.losses import Loss

__all__ = ["Errors", "Truth", "errors", "largest_errors", "truth"]

WHOLE = {"cpu": 2**22, "cuda": 2**27}
"""Entries up to which all rows are compared."""
ALLOWED = {torch.float32: 1e-3, torch.bfloat16: 2e-2, torch.float16: 2e-2}
"""Errors above these are not rounding, but where those of the formula itself are as large."""
SIMILAR = 4.0
ORDERS = 8


class Truth(NamedTuple):
    """Value and gradient in float64, of the first rows of the inputs."""

    rows: int
    value: Tensor
    gradient: Tensor


class Errors(NamedTuple):
    """Relative error of the value; of the gradient, norm of the difference by norm."""

    value: float
    gradient: float
    rows: int

    def note(self, dtype: torch.dtype, plain: Callable[[], Errors]) -> str:
        """A warning where they are more than rounding; `plain`: those of the formula in the dtype.

        Where a sum of the formula cancels, rounding is all that is left of it.
        """
        allowed = ALLOWED[dtype]
        if self.value <= allowed and self.gradient <= allowed:  # False for NaN too
            return ""
        bounds = [max(allowed, SIMILAR * own) for own in plain()[:2] if isfinite(own)]
        if len(bounds) == 2 and self.value <= bounds[0] and self.gradient <= bounds[1]:
            return "ill-conditioned: the formula in this dtype is as far from float64"
        return "WRONG: value or gradient is not that of the formula"


def truth(eager: Loss, inputs: Inputs) -> Truth | None:
    """The formula in float64 on the same scores: of all rows, or of as many as memory allows."""
    scores = inputs.scores.detach()
    rows, n = scores.shape
    most = max(1, min(rows, WHOLE[scores.device.type] // n))
    for some in (most, -(-most // 16)):
        try:
            wide = scores[:some].double().requires_grad_()
            value = eager(wide, inputs.labels[:some])
            (gradient,) = torch.autograd.grad(value, wide)
            return Truth(some, value.detach(), gradient)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
    return None


def errors(
    function: Callable[[Tensor, Any], Tensor], scores: Tensor, labels: Any, true: Truth
) -> Errors:
    """Of one implementation on the rows that the truth has."""
    some = scores.detach()[: true.rows].requires_grad_()
    value = function(some, labels[: true.rows])
    value.backward()  # type: ignore[no-untyped-call]
    assert some.grad is not None
    tiny = torch.finfo(torch.float64).tiny
    off = (value.detach().double() - true.value).abs() / true.value.abs().clamp(min=tiny)
    apart = (some.grad.double() - true.gradient).norm() / true.gradient.norm().clamp(min=tiny)
    return Errors(float(off), float(apart), true.rows)


def largest_errors(
    function: Callable[[Tensor, Any], Tensor], scores: Tensor, labels: Any, true: Truth
) -> Errors:
    """The largest over several orders of the rows, which change how sums along them are rounded.

    A sum that cancels is near the truth in one order, by luck, and far from it in another.
    """
    g = torch.Generator().manual_seed(0)
    found = [errors(function, scores, labels, true)[:2]]
    for _ in range(ORDERS - 1):
        order = torch.randperm(true.rows, generator=g).to(scores.device)
        try:
            same = Truth(true.rows, true.value, true.gradient[order])
            found.append(errors(function, scores.detach()[order], labels[order], same)[:2])
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            break  # the orders until then will do
    value, gradient = torch.tensor(found, dtype=torch.float64).amax(0).tolist()  # (NaN is largest)
    return Errors(value, gradient, true.rows)
