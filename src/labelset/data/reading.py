"""Opening what users have on disk: every way in which a file can be bad becomes one line."""

from __future__ import annotations

import codecs
import glob
import gzip
import io
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

DAMAGE = (
    *(EOFError, OSError, zipfile.BadZipFile, zlib.error, struct.error),
    *(KeyError, IndexError, UnicodeDecodeError, NotImplementedError, OverflowError, MemoryError),
)


STDIN = "-"
"""The name of standard input."""


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
        place = "standard input" if str(path) == STDIN else path
        raise BadFile(f"{place}: {' '.join(str(error).split())}") from None


def files_of(path: Path) -> list[Path]:
    """The file itself, or all that a pattern such as `parts/*.csv.gz` stands for, sorted."""
    if path.is_file() or not glob.has_magic(str(path)):
        return [path]
    found = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
    if not found:
        raise BadFile(f"{path}: no file has a name like this")
    return [file for file in found if file.is_file()]


def chunks(path: Path, size: int) -> Iterator[bytes]:
    """The bytes of a file, plain or gzipped, `size` at a time or as they come, less a BOM."""
    number = 0
    try:
        with _open(path) as file:
            read = file.read if path.is_file() else getattr(file, "read1", file.read)
            while chunk := read(size):
                yield chunk if number else _without_mark(chunk)
                number += chunk.count(b"\n") or 1
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"damaged or not a .{kind_of(path)} file after line {number} ({error})"
        ) from None


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 text file, plain or gzipped, each with its end; a BOM is dropped."""
    number = 0
    try:
        with _open(path) as file:
            for number, raw in enumerate(file, 1):
                yield decoded(raw if number > 1 else _without_mark(raw), number, path)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        where = f" after line {number}" if number else ""
        raise ValueError(f"damaged or not a .{kind_of(path)} file{where} ({error})") from None


def rows_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line number, line) without line ends and surrounding blanks; empty lines are left out."""
    for number, line in enumerate(lines(path), 1):
        text = line.strip()
        if text:
            yield number, text


def standard_input() -> IO[bytes]:
    """What comes in, unzipped where it is zipped."""
    held = getattr(sys.stdin, "buffer", None)
    raw = held if held is not None else io.BytesIO(sys.stdin.read().encode())
    if not hasattr(raw, "peek"):
        raw = io.BufferedReader(raw)
    zipped = raw.peek(2)[:2] == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(raw, "rb") if zipped else raw)


def _open(path: Path) -> IO[bytes]:
    if str(path) == STDIN:
        return standard_input()
    with path.open("rb") as file:
        magic = file.read(2)
    zipped = magic == b"\x1f\x8b" or path.suffix.lower() == ".gz"
    return cast(IO[bytes], gzip.open(path, "rb")) if zipped else path.open("rb")


def _without_mark(start: bytes) -> bytes:
    """What a file starts with, less its byte order mark."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(
            "line 1: is UTF-16 text; save the file as UTF-8 (iconv -f UTF-16 -t UTF-8 OLD > NEW)"
        )
    return start.removeprefix(codecs.BOM_UTF8)


def decoded(raw: bytes, number: int, path: Path) -> str:
    """Line `number` as text."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(
            f"line {number}: damaged or not a .{kind_of(path)} file in UTF-8 (byte {byte:#04x}); "
            "if it is Latin-1 or another encoding, save it as UTF-8 (iconv -f LATIN1 -t UTF-8 OLD "
            "> NEW)"
        ) from None
