"""Labels alone from a file: npz, npy, or one JSON object per line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from labelset.data.columns import Piece, gathered
from labelset.data.dataset import part_numbers
from labelset.data.description import Description
from labelset.data.formats import arrow, npz
from labelset.data.label_column import from_numbers, largest
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
    pieces = arrow.blocks(path, replace(ask, text_column=[], feature_columns=[]), "labels")
    piece = gathered(_with_labels(pieces), 0)
    assert piece.listing is not None
    n = len(piece.names) if piece.names else ask.labels
    count = n if isinstance(n, int) else largest([piece.listing]) + 1
    split = None if piece.split is None else piece.split.tolist()
    return LabelFile(from_numbers(piece.listing, count), piece.names, split)


def _with_labels(pieces: Iterator[Piece]) -> Iterator[Piece]:
    for piece in pieces:
        if piece.listed is None:
            raise ValueError("line 1: no `labels`")
        yield piece
