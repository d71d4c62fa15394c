"""`load`: a data set from a built-in name, a file, a folder of pictures, or a description."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from labelset import check
from labelset.data import (
    _arff,
    _csv,
    _images,
    _jsonl,
    _mulan,
    _npy,
    _npz,
    _parquet,
    _plain,
    _svmlight,
)
from labelset.data._dataset import Dataset
from labelset.data._description import FILES, Description
from labelset.data._growing import no_labels
from labelset.data._piece import Piece, below, beside
from labelset.data._reading import BadFile, kind_of, reading
from labelset.data._spool import spooled
from labelset.data._vocabulary import names_in
from labelset.data.builtin import build, names

__all__ = ["FORMATS", "assembled", "described", "format_of", "found", "label_attributes", "load"]

MOST_LABELS = 20_000_000
"""More labels than this, and unnamed, are taken for a mistake in the file."""
Reader = Callable[[Sequence[Path], Description, str], list[Piece]]
FORMATS: dict[str, tuple[Reader, tuple[str, ...]]] = {
    "npz": (_npz.read, ("npz",)),
    "npy": (_npy.read, ("npy",)),
    "svmlight": (_svmlight.read, ("svm", "svmlight", "libsvm", "txt")),
    "arff": (_arff.read, ("arff",)),
    "csv": (_csv.read, ("csv", "tsv")),
    "parquet": (_parquet.read, ("parquet", "pq")),
    "jsonl": (_jsonl.read, ("jsonl", "ndjson")),
}


def load(source: str | Path, *, labelled: bool = True, **flags: Any) -> Dataset:
    """A data set from what `source` names; `flags` are the keys of a description file.

    A built-in name (digits, icons, yeast), whose own settings are then the flags; a file (npz, npy,
    svmlight, ARFF, CSV, Parquet, jsonl; most of them also gzipped); a folder of pictures with a CSV
    file; or a description, a small TOML file. Rows without labels are refused unless `labelled` is
    False. `./digits` is a file even where `digits` is built in.

    >>> load("digits", train=100, valid=10, test=20)
    Dataset(130 rows, images 1 x 24 x 24, 10 labels, 1.8 on per row, parts 100 / 10 / 20)
    """
    if isinstance(source, str) and source in names():
        return build(source, **flags).make()
    return assembled(described(source, flags), str(source), labelled)


def described(source: str | Path, flags: Mapping[str, Any]) -> Description:
    """Which files to read, and how."""
    path = Path(source)
    if path.is_dir():
        return _folder(path, flags)
    if not path.is_file():
        raise ValueError(
            f"{source}: no such file or folder, and no built-in data set of that name "
            f"({check.nearest(str(source), names())})"
        )
    if kind_of(path) == "toml":
        return Description.read(path, flags)
    return Description.of({"data": str(path), **flags})


def _folder(path: Path, flags: Mapping[str, Any]) -> Description:
    """A folder of pictures: its one CSV file names them, and its other columns are the labels."""
    tables = sorted(p for p in path.iterdir() if kind_of(p) in ("csv", "tsv"))
    if "data" not in flags and len(tables) != 1:
        raise BadFile(
            f"{path}: expected one CSV file that names the pictures and their labels, found "
            f"{len(tables)}; give data='...'"
        )
    table = Path(flags.get("data") or tables[0])
    column = flags.get("image_column") or _image_column(table, flags)
    given: dict[str, Any] = {"data": str(table), "images": str(path), "image_column": column}
    if not {"labels", "label_columns", "label_column"} & set(flags):
        given["label_columns"] = ["*"]  # all that is nothing else
    return Description.of(given | dict(flags))


def _image_column(table: Path, flags: Mapping[str, Any]) -> str:
    """The first column whose first cell ends like a picture's name."""
    with reading(table):
        head, cells = _csv.first_rows(table, flags.get("separator"))
        for name, cell in zip(head, cells, strict=False):
            if cell.strip().lower().rpartition(".")[2] in _images.ENDINGS:
                return name
    raise BadFile(f"{table}: no column names pictures; say which with image_column")


def label_attributes(ask: Description) -> list[str] | None:
    """Their names, where Mulan's XML tells them."""
    if isinstance(ask.labels, str) and kind_of(Path(ask.labels)) == "xml":
        return _mulan.label_names(Path(ask.labels))
    return None


def assembled(ask: Description, source: str, labelled: bool = True) -> Dataset:
    """All files of a description as one data set."""
    parts = ask.parts()
    exact = label_attributes(ask)
    if exact is not None:
        parts["train"].pop("labels")
    pieces: dict[str, dict[str, Piece]] = {part: {} for part in parts}
    for role in FILES:
        having = [part for part in parts if role in parts[part]]
        read = _read([parts[part][role] for part in having], ask, role, exact)
        for part, piece in zip(having, read, strict=True):
            pieces[part][role] = piece
    for part, found in pieces.items():
        if not found:
            raise BadFile(f"{source}: names no file with {part} rows; give data or features")
    piece = below({part: beside(found) for part, found in pieces.items()})
    if piece.labels is None and not labelled:
        piece = replace(piece, labels=no_labels(piece.rows), names=[])
    return _dataset(piece, ask, source)


def _read(
    paths: Sequence[Path], ask: Description, role: str, exact: list[str] | None
) -> list[Piece]:
    """All files of one key, read together, so that they are numbered alike."""
    if not paths:
        return []
    formats = [format_of(path, ask, role) for path in paths]
    if len(set(formats)) > 1:
        raise BadFile(f"{paths[1]}: is {formats[1]}, {paths[0]} is {formats[0]}; convert one")
    if formats[0] == "plain":
        return _plain.read(paths, ask, role)
    if formats[0] == "arff":
        return _arff.read(paths, ask, role, exact)
    if exact is not None:
        ask = replace(ask, label_columns=exact)
    return FORMATS[formats[0]][0](paths, ask, role)


def format_of(path: Path, ask: Description, role: str) -> str:
    """By what the description says, or by the ending."""
    if not path.is_file():
        raise BadFile(f"{path}: no such file")
    if ask.format is not None and role == "data":
        return check.one_of("format", ask.format, tuple(FORMATS))
    ending = kind_of(path)
    if role in ("texts", "split") and ending in ("txt", "text", ""):
        return "plain"
    for name, (_, endings) in FORMATS.items():
        if ending in endings:
            return name
    known = ", ".join(f".{e}" for _, endings in FORMATS.values() for e in endings)
    raise BadFile(f"{path}: cannot read .{ending} files; give one of {known}, or format='...'")


def _dataset(piece: Piece, ask: Description, source: str) -> Dataset:
    images = piece.images
    with reading(piece.path):
        if piece.labels is None:
            raise ValueError(
                "holds no labels; say where they are with labels (a file, or how many columns), "
                "label_columns or label_column"
            )
        if piece.files is not None:
            for _ in found(piece, ask):
                pass  # whether all are there comes before any is opened
            mode = ask.image_mode or _images.mode_of(found(piece, ask))
            pictures = _images.Pictures(ask.image_size, mode)
            images = spooled(pictures.blocks(found(piece, ask)), ask.memory << 20)
        called = names_in(ask.label_names) or piece.names
        if not called and piece.labels.n > MOST_LABELS:
            raise ValueError(
                f"names label number {piece.labels.n - 1}, too large for a list of labels; if it "
                "is no mistake, give label_names"
            )
        return Dataset(
            labels=piece.labels,
            names=called or [str(i) for i in range(piece.labels.n)],
            features=piece.features,
            texts=piece.texts,
            images=images,
            split=piece.split,
            ids=piece.ids,
            card={
                "source": source,
                "notes": list(piece.notes),
                "about": piece.about,
                "text_column": ask.text_column,
            },
        )


def found(piece: Piece, ask: Description, first: int = 0) -> Iterator[Path]:
    """Pictures in the folder named, or beside the file that names them; `first`: the number of
    the piece's first row."""
    folder = Path(ask.images) if ask.images is not None else piece.path.parent
    for row, name in enumerate(piece.files or (), first):
        if not (folder / name).is_file():
            raise ValueError(f"row {row}: no picture {folder / name}")
        yield folder / name
