"""Formats: an ending (or a name) -> what reads such files, loaded when used; plain text lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from labelset import check
from labelset.data.columns import Piece, gathered, is_full
from labelset.data.dataset import part_numbers
from labelset.data.description import Description
from labelset.data.reading import STDIN, ZIPPED, BadFile, files_of, kind_of, lines, reading
from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.data.formats import arff, locate, pictures
else:
    __getattr__, __dir__ = door(__name__)

__all__ = [
    "ENDINGS",
    "FORMATS",
    "arff",
    "blocks_of",
    "format_of",
    "locate",
    "pictures",
    "read_plain",
    "reader_of",
]

Read = Callable[..., list[Piece]]
Blocks = Callable[..., Iterator[Piece]]
FORMATS = {
    "npz": ("npz", ("npz",)),
    "npy": ("npz", ("npy",)),
    "svmlight": ("svmlight", ("svm", "svmlight", "libsvm", "txt")),
    "arff": ("arff", ("arff",)),
    "csv": ("arrow", ("csv", "tsv")),
    "parquet": ("arrow", ("parquet", "pq")),
    "arrow": ("arrow", ("arrow", "feather", "ipc")),
    "jsonl": ("jsonl", ("jsonl", "ndjson")),
}
"""Name of a format -> the file of this room that reads it, and the endings of such files."""
WHOLE = ("npz", "npy", "parquet", "pq", "arrow", "feather", "ipc")
"""Endings of files that are not read from start to end."""
ENDINGS = frozenset(ending for _, endings in FORMATS.values() for ending in endings)


def format_of(path: Path, ask: Description, role: str) -> str:
    """By what the description says, or by the ending."""
    if not files_of(path)[0].is_file() and str(path) != STDIN:
        raise BadFile(f"{path}: no such file")
    if ask.format is not None and role == "data":
        return check.one_of("format", ask.format, tuple(FORMATS))
    ending, schema = kind_of(path), ask.schema
    if path.suffix.lower() in ZIPPED and ending in WHOLE:
        raise BadFile(f"{path}: .{ending} files are not read compressed; unpack it first")
    only_texts = schema is not None and schema.texts and schema.width is None
    if (role in ("texts", "split") or only_texts) and ending in ("txt", "text", ""):
        return "plain"
    for name, (_, endings) in FORMATS.items():
        if ending in endings:
            return name
    known = ", ".join(f".{e}" for _, endings in FORMATS.values() for e in endings)
    raise BadFile(f"{path}: cannot read .{ending} files; give one of {known}, or format='...'")


def reader_of(name: str) -> Read:
    """`read(paths, description, role)`: one piece per file, all numbered alike."""
    if name == "plain":
        return read_plain
    module: Any = import_module(f"{__name__}.{FORMATS[name][0]}")
    return cast(Read, module.read_npy if name == "npy" else module.read)


def blocks_of(name: str) -> Blocks | None:
    """`blocks(path, description, role)`: the rows from the start to the end of a file, some at a
    time; None for arrays, which are read where they lie."""
    if name == "plain":
        return lambda path, ask, role: _plain_blocks(path, "texts")
    return getattr(import_module(f"{__name__}.{FORMATS[name][0]}"), "blocks", None)


def read_plain(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """Texts, or train, valid and test, one per line; empty lines at the end do not count."""
    out = []
    for path in paths:
        with reading(path):
            out.append(gathered(_plain_blocks(path, role), ask.memory << 20))
    return out


def _plain_blocks(path: Path, role: str) -> Iterator[Piece]:
    rows, letters, first = list[str](), 0, 0
    blank = list[str]()
    for line in lines(path):
        blank.append(line.rstrip("\r\n"))
        if not blank[-1].strip():
            continue  # a row only if another one follows
        rows += blank
        blank.clear()
        letters += len(line)
        if is_full(len(rows), letters):
            yield _plain_piece(path, rows, role, first)
            rows, letters, first = [], 0, first + len(rows)
    if rows or not first:
        yield _plain_piece(path, rows, role, first)


def _plain_piece(path: Path, rows: list[str], role: str, first: int) -> Piece:
    if role == "split":
        return Piece(path=path, rows=len(rows), split=part_numbers(rows, first=first))
    return Piece(path=path, rows=len(rows), texts=rows)
