"""Opening what users have on disk: every way in which a file can be bad becomes one line."""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import io
import lzma
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

DAMAGE = (
    *(EOFError, OSError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(KeyError, IndexError, UnicodeDecodeError, NotImplementedError, OverflowError, MemoryError),
)


STDIN = "-"
"""The name of standard input."""
ZIPPED = (".gz", ".bz2", ".xz", ".zst")
"""Endings of compressed text files."""


class BadFile(ValueError):
    """A file that is not what it should be; the message names it and, in a text file, the line."""


def as_number(cell: str) -> float:
    """A number as people write it; Python's own 1_000 is more likely a name."""
    if "_" in cell:
        raise ValueError(f"not a number: {cell!r}")
    return float(cell)


def kind_of(path: Path) -> str:
    """The ending of a file name in small letters, that of a compressed file aside: x.CSV.gz -> csv.

    >>> kind_of(Path("x.CSV.gz")), kind_of(Path("x.jsonl.zst"))
    ('csv', 'jsonl')
    """
    name = path.name.lower()
    for ending in ZIPPED:
        name = name.removesuffix(ending)
    return name.rpartition(".")[2]


def _not_a(path: Path) -> str:
    return (
        "damaged or not such a file"
        if str(path) == STDIN
        else f"damaged or not a .{kind_of(path)} file"
    )


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
        raise BadFile(f"{path}: {_not_a(path)} ({reason})") from None
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
    """The bytes of a file, as they are when unpacked, `size` at a time or as they come, less a
    BOM."""
    number = 0
    with _open(path) as file, _unpacking(path, lambda: number):
        read = file.read if path.is_file() else getattr(file, "read1", file.read)
        while chunk := read(size):
            yield chunk if number else _without_mark(chunk)
            number += chunk.count(b"\n") or 1


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 text file, also a compressed one, each with its end; a BOM is
    dropped."""
    number = 0
    with _open(path) as file, _unpacking(path, lambda: number):
        for number, raw in enumerate(file, 1):
            yield decoded(raw if number > 1 else _without_mark(raw), number, path)


@contextmanager
def _unpacking(path: Path, number: Callable[[], int]) -> Iterator[None]:
    """Says up to which line a damaged compressed file could be read."""
    try:
        yield
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        where = f" after line {number()}" if number() else ""
        raise ValueError(f"{_not_a(path)}{where} ({error})") from None


def rows_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line number, line) without line ends and surrounding blanks; empty lines are left out."""
    for number, line in enumerate(lines(path), 1):
        text = line.strip()
        if text:
            yield number, text


def standard_input() -> IO[bytes]:
    """What comes in, unpacked where it is compressed."""
    held = getattr(sys.stdin, "buffer", None)
    raw = held if held is not None else io.BytesIO(sys.stdin.read().encode())
    if not hasattr(raw, "peek"):
        raw = io.BufferedReader(raw)
    return _unpacked(raw, raw.peek(6), "")


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    if str(path) == STDIN:
        yield standard_input()
        return
    with path.open("rb") as raw, _unpacked(raw, raw.peek(6), path.suffix.lower()) as file:
        yield file


def _unpacked(raw: Any, start: bytes, ending: str) -> IO[bytes]:
    """By how it starts, or by its ending."""
    if start.startswith(b"\x1f\x8b") or ending == ".gz":
        return cast(IO[bytes], gzip.open(raw, "rb"))
    if start.startswith(b"BZh") or ending == ".bz2":
        return cast(IO[bytes], bz2.open(raw, "rb"))
    if start.startswith(b"\xfd7zXZ\0") or ending == ".xz":
        return cast(IO[bytes], lzma.open(raw, "rb"))
    if start.startswith(b"\x28\xb5\x2f\xfd") or ending == ".zst":
        import pyarrow as pa

        return io.BufferedReader(cast(Any, pa.CompressedInputStream(raw, "zstd")))
    return cast(IO[bytes], raw)


def _without_mark(start: bytes) -> bytes:
    """What a file starts with, less its byte order mark; other encodings show in that, or in
    bytes of 0."""
    wide = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
    marked = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, *wide))
    if marked or (len(start) > 4 and start[:64].count(0) > 0.4 * len(start[:64])):
        name = "UTF-32" if start.startswith(wide) or b"\0\0\0" in start[:8] else "UTF-16"
        code = name if marked else name + ("BE" if start[:1] == b"\0" else "LE")
        raise ValueError(
            f"line 1: is {name} text; save the file as UTF-8 (iconv -f {code} -t UTF-8 OLD > NEW)"
        )
    return start.removeprefix(codecs.BOM_UTF8)


def decoded(raw: bytes, number: int, path: Path) -> str:
    """Line `number` as text."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(
            f"line {number}: {_not_a(path)} in UTF-8 (byte {byte:#04x}); if it is Latin-1 or "
            "another encoding, save it as UTF-8 (iconv -f LATIN1 -t UTF-8 OLD > NEW)"
        ) from None
