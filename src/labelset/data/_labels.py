"""Labels alone from a file: npz, npy, or one JSON object per line."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from labelset.data.dataset import part_numbers
from labelset.data.description import Description
from labelset.data.formats import jsonl, npz
from labelset.data.label_column import Listing, from_numbers, largest
from labelset.data.reading import kind_of, reading
from labelset.labels import Labels


class LabelFile(NamedTuple):
    """What a file says: the labels, their names, and which split each row belongs to."""

    labels: Labels
    names: list[str] | None
    split: list[int] | None


def read_labels(path: str | Path, n: int | None = None) -> LabelFile:
    """Labels from `path`; `n` is how many there are, where the file does not say.

    .npz: `Y` dense, or `Y_indptr`, `Y_indices`, `Y_shape`, with `U_indptr`, `U_indices` for unknown
    entries; `label_names` and `split` if there. .npy: dense, NaN unknown. .jsonl, .jsonl.gz: a
    list of numbers under `labels` (and `unknown`) per line; a first line with `header` may hold
    `label_names`.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    readers = {"npz": _from_npz, "npy": _from_npy, "jsonl": _from_jsonl}
    kind = kind_of(path)
    if kind not in readers:
        raise ValueError(f"{path}: cannot read .{kind} files; give one of .npz, .npy, .jsonl")
    with reading(path):
        found = readers[kind](path, Description(labels=n))
        for what, values, count in (
            ("label_names", found.names, found.labels.n),
            ("split", found.split, len(found.labels)),
        ):
            if values is not None and len(values) != count:
                raise ValueError(f"has {len(values)} entries in {what} for {count}")
        return found


def _from_npz(path: Path, ask: Description) -> LabelFile:
    held = npz.opened(path, ("Y", "Y_", "U_", "label_names", "split"))
    labels = npz.labels_in(held, ask)
    if labels is None:
        raise ValueError("holds neither Y nor Y_indptr, Y_indices, Y_shape")
    split = part_numbers(held["split"]).tolist() if "split" in held else None
    return LabelFile(labels, npz.words(held, "label_names"), split)


def _from_npy(path: Path, ask: Description) -> LabelFile:
    with path.open("rb") as raw:
        return LabelFile(Labels.from_dense(np.load(raw, allow_pickle=False)), None, None)


def _from_jsonl(path: Path, ask: Description) -> LabelFile:
    piece = jsonl.listed(path, ask)
    n = len(piece.names) if piece.names else ask.labels
    listing = piece.listing or Listing()
    count = n if isinstance(n, int) else largest([listing]) + 1
    split = None if piece.split is None else piece.split.tolist()
    return LabelFile(from_numbers(listing, count), piece.names, split)
