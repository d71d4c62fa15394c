"""What scores and labels are, whatever lies in them: that decides which kernel reads them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labelset.labels import Labels

__all__ = ["LabelTypes", "call_kind", "label_kind", "label_types", "remembered"]

LabelTypes = torch.dtype | tuple[torch.dtype, torch.dtype | None]
"""The dtype of dense labels; those of stored labels and of their values, if these have any."""
MOST = 256  # kinds of calls that a loss remembers


def call_kind(scores: Any, labels: Any) -> tuple[Any, ...] | None:
    """Equal for calls that pass the same checks and go by the same kernel.

    None where a call has to be looked at each time: torch is tracing it, or no tensors are given.
    """
    if not isinstance(scores, Tensor) or not isinstance(labels, (Tensor, Labels)):
        return None
    if torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(scores):
        return None
    layout = labels.layout if isinstance(labels, Tensor) else None
    given = type(scores), scores.shape, scores.dtype, scores.device
    return *given, type(labels), labels.shape, label_types(labels), labels.device, layout


def label_types(labels: Tensor | Labels) -> LabelTypes:
    """What a kernel that reads these labels is compiled for."""
    if isinstance(labels, Labels):
        return labels.indices.dtype, None if labels.values is None else labels.values.dtype
    return labels.dtype


def label_kind(types: LabelTypes) -> tuple[str, bool]:
    """How a kernel reads such labels, and whether they may be soft or unknown."""
    if isinstance(types, tuple):
        return "stored", types[1] is not None
    if types == torch.bool:
        return "bits", False
    return ("soft", True) if types.is_floating_point else ("hard", False)


def remembered(found: dict[Any, Any], kind: Any, kernel: Any) -> None:
    """Keeps the kernel for calls of that kind; what is kept stays bounded."""
    if len(found) >= MOST:
        found.clear()
    found[kind] = kernel
