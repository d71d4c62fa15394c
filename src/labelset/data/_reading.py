"""Opening what users have on disk: every way in which a file can be bad becomes one line."""

from __future__ import annotations

import codecs
import gzip
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

__all__ = ["BadFile", "as_number", "kind_of", "lines", "reading", "rows_of"]

DAMAGE = (
    *(EOFError, OSError, zipfile.BadZipFile, zlib.error, struct.error),
    *(KeyError, IndexError, UnicodeDecodeError, NotImplementedError, OverflowError, MemoryError),
)


class BadFile(ValueError):
    """A file that is not what it should be; the message names it and, in a text file, the line."""


def as_number(cell: str) -> float:
    """A number as people write it; Python's own 1_000 is more likely a name."""
    if "_" in cell:
        raise ValueError(f"not a number: {cell!r}")
    return float(cell)


def kind_of(path: Path) -> str:
    """The ending of a file name, `.gz` aside, in small letters: x.CSV.gz -> csv."""
    return path.name.lower().removesuffix(".gz").rpartition(".")[2]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """While `path` is read: whatever goes wrong is its fault, and is said in one line."""
    try:
        yield
    except BadFile:
        raise
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise BadFile(f"{path}: cannot be opened ({error.strerror})") from None
    except DAMAGE as error:
        reason = " ".join(str(error).split())
        raise BadFile(f"{path}: damaged or not a .{kind_of(path)} file ({reason})") from None
    except (ValueError, TypeError) as error:
        raise BadFile(f"{path}: {' '.join(str(error).split())}") from None


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 text file, plain or gzipped, each with its end; a BOM is dropped."""
    number = 0
    try:
        with _open(path) as file:
            for number, raw in enumerate(file, 1):
                yield _decoded(raw, number, path)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        where = f" after line {number}" if number else ""
        raise ValueError(f"damaged or not a .{kind_of(path)} file{where} ({error})") from None


def rows_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line number, line) without line ends and surrounding blanks; empty lines are left out."""
    for number, line in enumerate(lines(path), 1):
        text = line.strip()
        if text:
            yield number, text


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        magic = file.read(2)
    zipped = magic == b"\x1f\x8b" or path.suffix.lower() == ".gz"
    return cast(IO[bytes], gzip.open(path, "rb")) if zipped else path.open("rb")


def _decoded(raw: bytes, number: int, path: Path) -> str:
    if number == 1:
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ValueError("line 1: is UTF-16 text; save the file as UTF-8")
        raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(
            f"line {number}: damaged or not a .{kind_of(path)} file in UTF-8 (byte {byte:#04x})"
        ) from None
