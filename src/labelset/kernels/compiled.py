"""Any loss by torch.compile: value and gradient in one compiled function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.kernels._gradient import Kernel, Result
from labelset.labels import Labels

__all__ = ["compiled"]


def compiled(eager: Callable[[Tensor, Any], Tensor]) -> Kernel:
    """The loss of that formula, for scores and labels of every kind."""

    def both(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = torch.func.grad_and_value(eager)(scores, labels)
        return found

    both = torch.compile(both)

    def kernel(scores: Tensor, labels: Tensor | Labels) -> Result:
        if isinstance(labels, Labels):
            labels = labels.dense(scores.dtype)
        else:
            check.unit_interval(labels)
        gradient, value = both(scores.detach(), labels)
        return value, gradient, None

    return kernel
