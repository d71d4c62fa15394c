"""A stable hash of data: the same numbers and words give the same one on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset.data._sparse import SparseRows
from labelset.labels import Labels

__all__ = ["digest"]

BLOCK = 1 << 20
"""Numbers hashed at a time, so that no second copy of the data is made."""


def digest(**parts: Any) -> str:
    """sha256 over named tensors, sparse rows, labels, lists of words, numbers and None."""
    hasher = hashlib.sha256()
    for name, part in parts.items():
        hasher.update(f"{name}\0{type(part).__name__}\0".encode())
        _feed(hasher, part)
    return hasher.hexdigest()


def _feed(hasher: Any, part: Any) -> None:
    if isinstance(part, Tensor):
        _tensor(hasher, part)
    elif isinstance(part, (SparseRows, Labels)):
        hasher.update(f"{part.shape}".encode())
        for tensor in (part.indptr, part.indices, part.values):
            _feed(hasher, tensor)
    elif isinstance(part, (list, tuple)):
        _words(hasher, part)
    else:
        hasher.update(repr(part).encode())


def _tensor(hasher: Any, tensor: Tensor) -> None:
    hasher.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    flat = tensor.detach().cpu().contiguous().view(-1)
    for start in range(0, len(flat), BLOCK):
        block = flat[start : start + BLOCK]
        if block.is_floating_point():  # one NaN and one zero, whatever bits they came with
            block = torch.where(block.isnan(), torch.nan, block + 0.0)
        array = block.numpy()
        hasher.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())


def _words(hasher: Any, words: Sequence[str]) -> None:
    coded = [word.encode("utf-8", "surrogatepass") for word in words]
    hasher.update(np.array([len(word) for word in coded], dtype="<i8").tobytes())
    for word in coded:
        hasher.update(word)
