"""Opening what users have on disk: every way in which a file can be bad becomes one line."""

from __future__ import annotations

import bz2
import codecs
import errno
import glob
import gzip
import io
import lzma
import sys
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

UNSEEKABLE = (None, errno.EINVAL, errno.EOVERFLOW)
"""Numbers of an OSError that says of the file what others say of the disk."""

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


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """While `path` is read: whatever goes wrong is its fault, and is said in one line.

    Words of this package are passed on; what a codec, tokenizer or container says is not: it stays
    the context of the error.
    """
    try:
        yield
    except (BadFile, ImportError):
        raise
    except Exception as error:
        if _ours(error) and not isinstance(error, UnicodeError):
            if isinstance(error, (ValueError, TypeError)):
                raise BadFile(f"{_called(path)}: {' '.join(str(error).split())}") from None
            if isinstance(error, (AssertionError, AttributeError, NameError)):
                raise  # a mistake of this package
        raise damaged(path, error) from None


def _ours(error: Exception) -> bool:
    """Whether it was raised by a line of this package, not within a library."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).startswith("labelset")


def damaged(path: Path, error: Exception, after: str = "") -> BadFile:
    """What to say of a file that a library gave up; `after`: up to where it could be read."""
    if isinstance(error, FileNotFoundError):
        return BadFile(f"{path}: no such file")
    if isinstance(error, OSError) and error.errno not in UNSEEKABLE:
        return BadFile(f"{_called(path)}: cannot be opened or read ({error.strerror})")
    why, said = "", str(error).lower()
    if isinstance(error, EOFError) or "ended before" in said or "truncated" in said:
        why = "; it ends too early"
    elif "crc" in said or "checksum" in said:
        why = "; its content is not what its checksum says"
    elif isinstance(error, MemoryError):
        why = "; it says that it holds more than fits into memory"
    remedy = "send it again" if str(path) == STDIN else "write or copy it again"
    return BadFile(f"{_called(path)}: {_not_a(path)}{after}{why}; {remedy}")


def _called(path: Path) -> str:
    return "standard input" if str(path) == STDIN else str(path)


def _not_a(path: Path) -> str:
    kind = "such a" if str(path) == STDIN else f"a .{kind_of(path)}"
    return f"damaged or not {kind} file"


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
        after = f" after line {number()}" if number() else ""
        raise damaged(path, error, after) from None


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
