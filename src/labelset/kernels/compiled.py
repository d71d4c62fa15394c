"""Any loss by torch.compile: value and gradient in one compiled function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labelset.kernels._gradient import Result, differentiable

__all__ = ["compiled", "value_and_gradient"]

Eager = Callable[[Tensor, Any], Tensor]


def value_and_gradient(eager: Eager) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A compiled function of scores and dense labels that returns the gradient and the value."""

    def both(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = torch.func.grad_and_value(eager)(scores, labels)
        return found

    return torch.compile(both)


def compiled(
    both: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    scores: Tensor,
    labels: Tensor,
    eager: Eager,
) -> Tensor:
    """The value of a loss, its gradient computed along with it."""

    def fused(v: Tensor) -> Result:
        gradient, value = both(v, labels)
        return value, gradient, None

    return differentiable(scores, fused, lambda v: eager(v, labels))
