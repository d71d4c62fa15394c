"""Numbers as they come -> features (rows, d) and images (rows, channels, height, width)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset.data._sparse import SparseRows

__all__ = ["any_features", "dense_features", "image_tensor"]


def any_features(given: Any) -> Tensor | SparseRows:
    """Sparse rows as they are, from a scipy matrix, or a dense tensor."""
    if isinstance(given, SparseRows):
        return given
    return SparseRows.from_scipy(given) if hasattr(given, "tocsr") else dense_features(given)


def dense_features(array: Any) -> Tensor:
    """(rows, d) float32 from any numbers; infinite ones are refused, NaN is missing."""
    t = _numbers(array, "features")
    if t.ndim != 2:
        raise ValueError(f"features must be 2-D (rows, features), got shape {tuple(t.shape)}")
    x = t.to(torch.float32)
    if bool(x.isinf().any()):
        row, column = (int(i) for i in x.isinf().nonzero()[0])
        raise ValueError(
            f"features must be finite in float32 (NaN: missing), got {float(t[row, column]):g} at "
            f"row {row}, feature {column}"
        )
    return x


def image_tensor(array: Any) -> Tensor:
    """(rows, channels, height, width), uint8 or float32.

    (rows, height, width) gets one channel; (rows, height, width, 1, 3 or 4) is turned round
    unless its second size, being 1 or 3, looks like channels as well.
    """
    t = _numbers(array, "images")
    if t.ndim == 3:
        t = t[:, None]
    if t.ndim != 4:
        raise ValueError(f"images must be (rows, channels, height, width), got {tuple(t.shape)}")
    if t.shape[1] not in (1, 3) and t.shape[3] in (1, 3, 4):
        t = t.permute(0, 3, 1, 2).contiguous()
    if t.dtype == torch.uint8:
        return t
    if not bool(torch.isfinite(t).all()):
        raise ValueError("images must be finite, got NaN or infinite numbers")
    return t.to(torch.float32)


def _numbers(array: Any, what: str) -> Tensor:
    if isinstance(array, Tensor):
        t = array.detach()
    else:
        plain = np.asarray(array)
        if plain.dtype.kind not in "biuf":
            raise ValueError(f"{what} must be numbers, got {plain.dtype}")
        plain = plain.astype(plain.dtype.newbyteorder("="), copy=False)
        if plain.dtype.itemsize > 8:  # long doubles
            plain = plain.astype(np.float64)
        t = torch.from_numpy(np.require(plain, requirements=["C", "W"]))
    if t.is_complex() or t.layout != torch.strided:
        raise ValueError(f"{what} must be dense real numbers, got {t.dtype} in {t.layout}")
    return t
