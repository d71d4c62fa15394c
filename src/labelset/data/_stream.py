"""`stream`: the rows of a file, some at a time, so that memory never holds more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from labelset import check
from labelset.data import _arff, _csv, _images, _jsonl, _parquet, _svmlight
from labelset.data._dataset import Dataset
from labelset.data._description import Description
from labelset.data._growing import no_labels
from labelset.data._load import assembled, described, format_of, found, label_attributes
from labelset.data._piece import Piece

__all__ = ["stream"]

Blocks = Callable[[Path, Description, str], Iterator[Piece]]
BLOCKS: dict[str, Blocks] = {
    "svmlight": _svmlight.blocks,
    "arff": _arff.blocks,
    "csv": _csv.blocks,
    "parquet": _parquet.blocks,
    "jsonl": _jsonl.blocks,
}
"""Formats that are read from their start to their end; arrays are read where they lie."""


def stream(source: str | Path, *, rows: int = 1024, **flags: Any) -> Iterator[Dataset]:
    """Data sets of up to `rows` rows, without labels, for prediction; `flags` as for `load`.

    What comes first is there before the rest is read. Only where all rows together decide what
    they mean, a file is read twice: whether svmlight counts from 0 or 1, whether pictures are grey.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "x.csv"
    ...     _ = path.write_text("a,b\\n1,2\\n3,4\\n5,6\\n")
    ...     [len(part) for part in stream(path, rows=2)]
    [2, 1]
    """
    check.whole("rows", rows, low=1)
    ask = described(source, flags)
    path = _only_file(ask)
    read = None if path is None else BLOCKS.get(format_of(path, ask, "data"))
    if path is None or read is None:
        whole = assembled(ask, str(source), labelled=False)
        for start in range(0, len(whole), rows):
            yield whole.rows(slice(start, start + rows)).in_memory()
        return
    names = label_attributes(ask)
    if names is not None:
        read = partial(_arff.blocks, names=names)
    pictures, seen = None, 0
    for piece in read(path, ask, "data"):
        files = None if piece.files is None else list(found(piece, ask, seen))
        if files is not None and pictures is None:
            every = (file for part in read(path, ask, "data") for file in found(part, ask))
            pictures = _images.Pictures(ask.image_size, ask.image_mode or _images.mode_of(every))
            rows = min(rows, pictures.together(files[0]))
        seen += piece.rows
        for start in range(0, piece.rows, rows):
            at = slice(start, min(start + rows, piece.rows))
            images = None if pictures is None or files is None else pictures.read(files[at])
            yield _unlabelled(piece, at, images)


def _only_file(ask: Description) -> Path | None:
    """The one file that a description names, Mulan's XML aside."""
    parts = ask.parts()
    files = {key: path for key, path in parts["train"].items() if path.suffix != ".xml"}
    return files["data"] if list(parts) == ["train"] and list(files) == ["data"] else None


def _unlabelled(piece: Piece, at: slice, images: Tensor | None) -> Dataset:
    return Dataset(
        labels=no_labels(at.stop - at.start),
        names=[],
        features=None if piece.features is None else piece.features[at],
        texts=None if piece.texts is None else list(piece.texts[at]),
        images=images,
        ids=None if piece.ids is None else piece.ids[at],
    )
