"""Numbers as they come -> features (rows, d) and images (rows, channels, height, width)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset.data._column import Array
from labelset.data._filed import Filed
from labelset.data._long import has_long, long_kept
from labelset.data._sparse import SparseRows
from labelset.data._spool import spooled
from labelset.data._stored import StoredRows

__all__ = ["any_features", "array_features", "array_images", "dense_features", "image_tensor"]


def any_features(given: Any) -> Tensor | SparseRows:
    """Sparse rows as they are, from a scipy matrix, or a dense tensor."""
    if isinstance(given, SparseRows):
        return given
    return SparseRows.from_scipy(given) if hasattr(given, "tocsr") else dense_features(given)


def array_features(array: Array | Filed, scale: Any = None) -> Tensor | StoredRows:
    """(rows, d) float32 of an array, wherever it is; times `scale`."""
    if isinstance(array, np.ndarray):
        return dense_features(_scaled(array, scale))
    if array.ndim != 2:
        raise ValueError(f"features must be 2-D (rows, features), got shape {array.shape}")
    checked = (dense_features(_scaled(block, scale), start) for start, block in array.blocks())
    if array.fortran or scale is not None:  # rows must lie together to be read one by one
        held: Tensor | StoredRows = spooled(checked, 0)
        return held
    dtypes = {block.dtype for block in checked}
    dtype = torch.float64 if torch.float64 in dtypes else torch.float32
    return StoredRows(column=array.column, inner=array.shape[1:], dtype=dtype, given=True)


def array_images(array: Array | Filed, scale: Any = None) -> Tensor | StoredRows:
    """(rows, channels, height, width) of an array, wherever it is; times `scale`."""
    if isinstance(array, np.ndarray):
        return image_tensor(_scaled(array, scale))
    blocks = (image_tensor(_scaled(block, scale)) for _, block in array.blocks())
    held: Tensor | StoredRows = spooled(blocks, 0)
    return held


def _scaled(array: Array, scale: Any) -> Array:
    return array if scale is None else array.astype(np.float32) * np.float32(scale)


def dense_features(array: Any, first: int = 0) -> Tensor:
    """(rows, d) float32 from any numbers; infinite ones are refused, NaN is missing.

    Where float32 would round numbers of a million and more, such as times in seconds since 1970,
    it is float64, with smaller numbers as float32 has them. `first`: what to call the first row in
    an error.

    >>> dense_features([[1.7e9 + 3]]), dense_features([[0.1]]).dtype
    (tensor([[1.7000e+09]], dtype=torch.float64), torch.float32)
    """
    t = _numbers(array, "features")
    if t.ndim != 2:
        raise ValueError(f"features must be 2-D (rows, features), got shape {tuple(t.shape)}")
    x = t.to(torch.float32)
    if bool(x.isinf().any()):
        row, column = (int(i) for i in x.isinf().nonzero()[0])
        raise ValueError(
            f"features must be finite in float32 (NaN: missing), got {float(t[row, column]):g} at "
            f"row {first + row}, feature {column}"
        )
    return long_kept(t) if has_long(t) else x


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
