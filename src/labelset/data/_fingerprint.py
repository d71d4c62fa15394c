"""A stable hash of data: the same numbers and words give the same one on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import _csr
from labelset.data._sparse import SparseRows
from labelset.data._stored import StoredRows, StoredSparse, StoredTexts, blocks
from labelset.labels import Labels

__all__ = ["digest"]

BLOCK = 1 << 20
"""Numbers hashed at a time, so that no second copy of the data is made."""


def digest(**parts: Any) -> str:
    """sha256 over named tensors, sparse rows, labels, lists of words, numbers and None."""
    hasher = hashlib.sha256()
    for name, part in parts.items():
        hasher.update(f"{name}\0{_kind(part)}\0".encode())
        _feed(hasher, part)
    return hasher.hexdigest()


def _kind(part: Any) -> str:
    """What it is, wherever it lies."""
    for stored, kind in ((StoredRows, Tensor), (StoredSparse, SparseRows), (StoredTexts, list)):
        if isinstance(part, stored):
            return kind.__name__
    return type(part).__name__


def _feed(hasher: Any, part: Any) -> None:
    if isinstance(part, Tensor):
        _numbers(hasher, part.dtype, tuple(part.shape), blocks(part.reshape(-1), BLOCK))
    elif isinstance(part, StoredRows):
        _numbers(hasher, part.dtype, part.shape, blocks(part, BLOCK))
    elif isinstance(part, StoredSparse):
        _sparse(hasher, part)
    elif isinstance(part, (SparseRows, Labels)):
        hasher.update(f"{part.shape}".encode())
        for tensor in (part.indptr, part.indices, part.values):
            _feed(hasher, tensor)
    elif isinstance(part, (list, tuple, StoredTexts)):
        _words(hasher, part)
    else:
        hasher.update(repr(part).encode())


def _numbers(hasher: Any, dtype: Any, shape: tuple[int, ...], parts: Iterable[Tensor]) -> None:
    hasher.update(f"{dtype} {shape}".encode())
    for part in parts:
        block = part.detach().cpu()
        if block.is_floating_point():  # one NaN and one zero, whatever bits they came with
            block = torch.where(block.isnan(), torch.nan, block + 0.0)
        array = block.contiguous().numpy()
        hasher.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())


def _sparse(hasher: Any, part: StoredSparse) -> None:
    """As if it were in memory."""
    hasher.update(f"{part.shape}".encode())
    lengths = part.lengths()
    stored = (int(lengths.sum()),)
    _feed(hasher, _csr.cumulate(lengths))
    _numbers(hasher, torch.int32, stored, (block.indices for block in blocks(part, BLOCK)))
    if part.values is None:
        _feed(hasher, None)
    else:
        _numbers(hasher, torch.float32, stored, (b.filled() for b in blocks(part, BLOCK)))


def _words(hasher: Any, words: Sequence[str]) -> None:
    if isinstance(words, StoredTexts):
        lengths = words.lengths()
    else:
        each = (len(_coded(word)) for word in words)
        lengths = np.fromiter(each, dtype=np.int64, count=len(words))
    hasher.update(lengths.astype("<i8").tobytes())
    for word in words:
        hasher.update(_coded(word))


def _coded(word: str) -> bytes:
    return word.encode("utf-8", "surrogatepass")
