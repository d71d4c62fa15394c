"""One place for checks and their wording: what was expected, what came, what to do."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "can_look",
    "fraction",
    "logits",
    "nearest",
    "number",
    "one_of",
    "per_label",
    "same_place",
    "scores",
    "unit_interval",
    "whole",
]


def nearest(wrong: str, names: Iterable[str]) -> str:
    """The hint of an error about a name: the nearest right one, then all of them."""
    names = sorted(names)
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(wrong.casefold(), folded, n=1, cutoff=0.5)
    hint = f"did you mean {folded[close[0]]!r}? " if close else ""
    return f"{hint}known: {', '.join(names) or 'none'}"


def number(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """A finite real number between `low` and `high`; `open_*` leaves the end itself out."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {type(value).__name__} {value!r}")
    real = float(value)
    inside = (real > low if open_low else real >= low) and (
        real < high if open_high else real <= high
    )
    if not (math.isfinite(real) and inside):
        raise ValueError(
            f"{name} must be {_interval(low, high, open_low, open_high)}, got {value!r}"
        )
    return real


def _interval(low: float, high: float, open_low: bool, open_high: bool) -> str:
    left = "(" if open_low or math.isinf(low) else "["
    right = ")" if open_high or math.isinf(high) else "]"
    return f"a finite number in {left}{low:g}, {high:g}{right}"


def fraction(name: str, value: Any) -> float:
    """A number in [0, 1)."""
    return number(name, value, low=0.0, high=1.0, open_high=True)


def whole(name: str, value: Any, *, low: int = 0) -> int:
    """A whole number of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, got {type(value).__name__} {value!r}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")
    return int(value)


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


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
    return (
        not torch.compiler.is_compiling()
        and t.device.type == "cpu"
        and not torch._C._functorch.is_functorch_wrapped_tensor(t)
    )


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
    elif y.device.type == "cuda" and not torch._C._functorch.is_functorch_wrapped_tensor(y):
        torch._assert_async(good.all(), "labelset: labels must lie in [0, 1] (NaN: unknown)")
