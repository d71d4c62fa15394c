"""What is to be verified: the weights as stored, and each label set once."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from labelset.labels import Labels

__all__ = ["Problem", "distinct", "read_model", "signs_of"]

Floats = NDArray[np.float64]
ROUNDING = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11}


@dataclass(frozen=True)
class Problem:
    """Weights and bias in float64, exactly as stored, and rows scaled for the search."""

    weight: Floats
    """(n, d)"""
    bias: Floats | None
    rounding: float
    """Relative rounding of the stored numbers: 2^-24 for float32."""
    rows: Floats
    """(n, d) or, with a bias, (n, d + 1): each row of [weight, bias] times a power of two."""
    empty: NDArray[np.bool_]
    """Rows that are zero throughout."""

    @property
    def n(self) -> int:
        """How many labels."""
        return len(self.weight)

    def scale(self, row: int) -> Fraction:
        """The power of two by which a row was multiplied."""
        if row == self.n:
            return Fraction(1)
        stored = (
            self.weight[row] if self.bias is None else np.append(self.weight[row], self.bias[row])
        )
        _, exponent = np.frexp(np.abs(stored).max())
        return Fraction(2) ** -int(exponent)

    @property
    def open_row(self) -> Floats:
        """The row that, with a bias, keeps the last coordinate positive."""
        return np.eye(self.rows.shape[1])[-1:]


def read_model(model: Any, bias: Any = None) -> Problem:
    """From a head, an `nn.Linear`, or a (labels, features) matrix with its bias."""
    if isinstance(model, nn.Linear):
        model, bias = model.weight, model.bias if bias is None else bias
    elif callable(getattr(model, "matrix", None)):
        model, own = model.matrix()
        bias = own if bias is None else bias
    weight = _numbers("weights", model)
    stored = model.dtype if isinstance(model, Tensor) else torch.as_tensor(np.asarray(model)).dtype
    if weight.ndim != 2 or 0 in weight.shape:
        raise ValueError(f"weights must be 2-D (labels, features), got shape {weight.shape}")
    offset = None if bias is None else _numbers("bias", bias)
    if offset is not None and offset.shape != (len(weight),):
        raise ValueError(f"bias must have one entry per label, {len(weight)}, got {offset.shape}")
    full = weight if offset is None else np.concatenate([weight, offset[:, None]], axis=1)
    _, exponent = np.frexp(np.abs(full).max(axis=1, keepdims=True))
    rows = np.ascontiguousarray(np.ldexp(full, -exponent))
    return Problem(
        weight, offset, ROUNDING.get(stored, 2.0**-8), rows, np.asarray(~full.any(axis=1))
    )


def _numbers(name: str, value: Any) -> Floats:
    array = value.detach().cpu().double().numpy() if isinstance(value, Tensor) else value
    try:
        array = np.array(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be real numbers, got {type(value).__name__}") from None
    if not np.isfinite(array).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[at]} at {at}")
    return array


def distinct(labels: Labels) -> tuple[Labels, NDArray[np.int64]]:
    """Each label set once, and for every row the number of its set."""
    if labels.values is not None:
        soft = (labels.values != 1) & ~labels.values.isnan()
        if bool(soft.any()):
            raise ValueError(
                "label sets must be on, off or unknown, got a soft value of "
                f"{float(labels.values[soft][0]):g}; threshold it first"
            )
    pointer, index = labels.indptr.tolist(), labels.indices.cpu().numpy()
    values = None if labels.values is None else labels.values.isnan().cpu().numpy()
    seen: dict[bytes, int] = {}
    first, which = list[int](), np.empty(len(labels), np.int64)
    for i in range(len(labels)):
        part = slice(pointer[i], pointer[i + 1])
        key = index[part].tobytes() + (b"" if values is None else b"|" + values[part].tobytes())
        which[i] = seen.setdefault(key, len(seen))
        if which[i] == len(first):
            first.append(i)
    return labels[first], which


def signs_of(labels: Labels) -> NDArray[np.int8]:
    """(rows, n): 1 on, -1 off, 0 unknown."""
    dense = labels.dense().cpu().numpy()
    return np.where(np.isnan(dense), 0, np.where(dense > 0, 1, -1)).astype(np.int8)
