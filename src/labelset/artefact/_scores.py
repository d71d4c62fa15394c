"""Scores from a file that a model of one's own wrote: npy or npz."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from labelset import _given
from labelset.data._column import Array
from labelset.data._filed import Filed, array_in
from labelset.data._npz import opened

__all__ = ["read_scores", "score_batches"]


def read_scores(path: str | Path) -> Tensor:
    """(rows, labels) scores: an .npy file, or `scores` (or the only array) of an .npz file."""
    parts = list(score_batches(path, memory=1 << 62))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def score_batches(path: str | Path, memory: int = 64 << 20) -> Iterator[Tensor]:
    """The same, in one go or, past `memory` bytes, some rows at a time."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    with _reading(path):
        array = _array(path, memory)
        if not isinstance(array, Filed):
            yield _given.scores(array)
            return
        for _, block in array.blocks():
            yield _given.scores(block)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zipfile.BadZipFile, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: cannot read scores: {error}") from None


def _array(path: Path, memory: int) -> Array | Filed:
    if not zipfile.is_zipfile(path):
        return array_in(path, memory)
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    name = "scores" if "scores" in names else names[0] if len(names) == 1 else None
    if name is None:
        raise ValueError(f"holds {', '.join(names)}; name the scores `scores`")
    held: Array | Filed = opened(path, (name,), memory, (name,))[name]
    return held
