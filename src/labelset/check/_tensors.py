"""Checks of tensors: on the host where that is free, on an accelerator without waiting for it."""

from __future__ import annotations

import math
import numbers
from typing import Any

import torch
from torch import Tensor

from labelset.check import number
from labelset.torch_private import assert_on_device, is_wrapped


def per_label(name: str, value: Any, *, positive: bool = False) -> float | Tensor:
    """One number, or a 1-D tensor with one number per label (a list or array becomes one)."""
    if isinstance(value, numbers.Real):
        return number(name, value, low=0.0 if positive else -math.inf, open_low=positive)
    try:
        each = value if isinstance(value, Tensor) else torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        each = None
    if each is not None and not each.is_complex() and each.dtype != torch.bool:
        each = each if each.is_floating_point() else each.double()
    if each is None or not each.is_floating_point() or each.ndim > 1:
        got = f"{type(value).__name__} of shape {tuple(each.shape)}" if each is not None else value
        raise TypeError(f"{name} must be a number or one number per label (1-D), got {got!r}")
    if can_look(each):
        good = torch.isfinite(each) & (each > 0 if positive else torch.ones_like(each).bool())
        if not bool(good.all()):
            bad = each[~good].flatten()[0].item()
            kind = "finite and above 0" if positive else "finite"
            raise ValueError(f"every entry of {name} must be {kind}, got {bad}")
    return each


def can_look(t: Tensor) -> bool:
    """Whether reading the values of `t` is free: no device to wait for, no tracing to break."""
    return not torch.compiler.is_compiling() and t.device.type == "cpu" and not is_wrapped(t)


def scores(given: Any) -> Tensor:
    """Floating-point scores on a real device, as they are."""
    if not isinstance(given, Tensor):
        raise TypeError(
            f"logits must be a torch.Tensor, got {type(given).__name__}; "
            "convert with torch.as_tensor(...)"
        )
    if not given.is_floating_point():
        raise TypeError(
            f"logits must be floating point, got {given.dtype}; give the raw scores of the "
            "model, before any sigmoid or threshold"
        )
    if given.is_meta:
        raise ValueError("logits are on the meta device and hold no values; move the model first")
    return given


def logits(given: Any) -> Tensor:
    """Floating-point scores on a real device, in float32 unless they are float64."""
    v = scores(given)
    return v if v.dtype == torch.float64 else v.float()


def same_place(v: Tensor, labels: Any) -> None:
    """`labels` (a tensor or Labels) fit the (rows, labels) matrix of scores, on its device."""
    if v.ndim != 2:
        raise ValueError(
            f"logits must be 2-D (rows, labels), got shape {tuple(v.shape)}; "
            "reshape them, for one row with logits[None]"
        )
    if labels.shape != v.shape:
        raise ValueError(
            f"labels must have the shape of the logits {tuple(v.shape)}, got {tuple(labels.shape)}"
        )
    if labels.device != v.device:
        raise ValueError(
            f"logits are on {v.device}, labels on {labels.device}; "
            f"move the labels with labels.to({str(v.device)!r})"
        )


def unit_interval(y: Tensor) -> None:
    """Every entry of a (rows, labels) tensor is NaN or in [0, 1]; the first bad one is named.

    On an accelerator the check runs there, asynchronously, so that nothing waits for it.
    """
    if y.dtype == torch.bool or torch.compiler.is_compiling():
        return
    good = (y >= 0) & (y <= 1)
    if y.is_floating_point():
        good = good | y.isnan()
    if can_look(y):
        if not bool(good.all()):
            row, label = (int(i) for i in (~good).nonzero()[0])
            raise ValueError(
                f"labels must lie in [0, 1] (NaN: unknown), got {y[row, label].item():g} at row "
                f"{row}, label {label}; for another mark of unknown use "
                "Labels.from_dense(y, unknown=...)"
            )
    elif y.device.type == "cuda" and not is_wrapped(y):
        assert_on_device(good.all(), "labelset: labels must lie in [0, 1] (NaN: unknown)")
