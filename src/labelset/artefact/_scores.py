"""Scores from a file that a model of one's own wrote: npy or npz."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from torch import Tensor

from labelset import _given

__all__ = ["read_scores"]


def read_scores(path: str | Path) -> Tensor:
    """(rows, labels) scores: an .npy file, or `scores` (or the only array) of an .npz file."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    try:
        with path.open("rb") as raw:
            held = np.load(raw, allow_pickle=False)
            array = held if isinstance(held, np.ndarray) else _chosen(held)
        return _given.scores(array)
    except (OSError, EOFError, zipfile.BadZipFile, ValueError, TypeError) as error:
        raise ValueError(f"{path}: cannot read scores: {error}") from None


def _chosen(held: np.lib.npyio.NpzFile) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    names = held.files
    name = "scores" if "scores" in names else names[0] if len(names) == 1 else None
    if name is None:
        raise ValueError(f"holds {', '.join(names)}; name the scores `scores`")
    array: np.ndarray[tuple[int, ...], np.dtype[np.generic]] = held[name]
    return array
