"""Arrays and texts as short strings that a browser turns back into arrays."""

from __future__ import annotations

import base64
import json
import math
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

KINDS = {"uint8": "u1", "uint16": "u2", "uint32": "u4", "float32": "f4", "float64": "f8"}


def packed(array: NDArray[Any] | Tensor) -> dict[str, str]:
    """`{kind, data}`: the little-endian bytes, deflated, in base64.

    >>> packed(np.array([1, 2], dtype=np.uint8))["kind"]
    'u1'
    """
    held = _narrow(array.numpy() if isinstance(array, Tensor) else array)
    kind = KINDS[held.dtype.name]
    content = np.ascontiguousarray(held, dtype=held.dtype.newbyteorder("<")).tobytes()
    return {"kind": kind, "data": _short(content, zlib.Z_FILTERED)}


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    """Counts in the fewest bytes that hold the largest."""
    if array.dtype.kind != "u" or not array.size:
        return array
    most = array.max()
    return array.astype(
        next(t for t in (np.uint8, np.uint16, array.dtype) if most <= np.iinfo(t).max)
    )


def packed_json(given: Any) -> dict[str, str]:
    """The same for anything that JSON can hold."""
    return {"kind": "json", "data": _short(json.dumps(given).encode())}


def _short(content: bytes, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> str:
    """Numbers repeat less than texts do: `Z_FILTERED` makes some per cent less of them."""
    squeeze = zlib.compressobj(9, strategy=strategy)
    return base64.b64encode(squeeze.compress(content) + squeeze.flush()).decode()


def plain(given: Any) -> Any:
    """JSON of anything: what is not finite becomes None, what JSON lacks its text.

    >>> plain({"lr": float("inf"), 3: (1, "a")})
    {'lr': None, '3': [1, 'a']}
    """
    if isinstance(given, dict):
        return {str(key): plain(value) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [plain(value) for value in given]
    if isinstance(given, float):
        return given if math.isfinite(given) else None
    return given if given is None or isinstance(given, bool | int | str) else str(given)
