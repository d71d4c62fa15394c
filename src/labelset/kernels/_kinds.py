"""What scores and labels are, whatever lies in them: that decides which kernel reads them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labelset.kernels._choice import traced
from labelset.labels import Labels

__all__ = ["LabelTypes", "call_kind", "label_kind", "label_types", "place_type"]

NARROW = 2**31 - 2**16  # stored entries, and what a kernel may count on beyond the last

LabelTypes = torch.dtype | tuple[torch.dtype, torch.dtype, torch.dtype | None]
"""The dtype of dense labels; those of stored ones, of their places and of values, if any."""


def call_kind(scores: Any, labels: Any) -> tuple[Any, ...] | None:
    """Equal for calls that pass the same checks and go by the same kernel.

    None where a call has to be looked at each time: torch is tracing it, no tensors are given, or
    the labels want a gradient.
    """
    if not isinstance(scores, Tensor) or not isinstance(labels, (Tensor, Labels)):
        return None
    layout = None
    if isinstance(labels, Tensor):
        if labels.requires_grad or traced(labels):
            return None
        layout = labels.layout
    if traced(scores):
        return None
    given = type(scores), scores.shape, scores.dtype, scores.device
    return *given, type(labels), labels.shape, label_types(labels), labels.device, layout


def label_types(labels: Tensor | Labels) -> LabelTypes:
    """What a kernel that reads these labels is compiled for."""
    if isinstance(labels, Labels):
        values = None if labels.values is None else labels.values.dtype
        return labels.indices.dtype, place_type(labels), values
    return labels.dtype


def place_type(labels: Labels) -> torch.dtype:
    """What a kernel counts stored entries in: the smaller type, wherever that will do."""
    return torch.int32 if labels.indices.numel() < NARROW else torch.int64


def label_kind(types: LabelTypes) -> tuple[str, bool]:
    """How a kernel reads such labels, and whether they may be soft or unknown."""
    if isinstance(types, tuple):
        return "stored", types[-1] is not None
    if types == torch.bool:
        return "bits", False
    return ("soft", True) if types.is_floating_point else ("hard", False)
