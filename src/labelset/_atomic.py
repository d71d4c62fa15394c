"""Files that are there whole or not at all, whenever the process is killed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["CannotWrite", "sweep", "write_all", "write_bytes", "write_with"]

Write = Callable[[IO[bytes]], object]
UNFINISHED = ".part"


class CannotWrite(OSError):
    """A file that could not be written, on a full disk for example."""

    def __str__(self) -> str:
        what = f"cannot write {self.filename}: {self.strerror}"
        return f"{what}; what was there before is unchanged"


def write_all(files: Mapping[Path, Write]) -> None:
    """Fill every file beside its place, force all to disk, then put them in place, in this order.

    Where one cannot be filled (a full disk) none is replaced, and nothing half-written is left.
    """
    beside = {path: path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}") for path in files}
    try:
        for path, write in files.items():
            with _about(path, beside[path]), beside[path].open("w+b") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
        for path, filled in beside.items():
            filled.replace(path)
        for folder in {path.parent for path in files}:
            _sync(folder)
    finally:
        for filled in beside.values():
            filled.unlink(missing_ok=True)


def write_with(path: Path, write: Write) -> None:
    """The same for one file."""
    write_all({path: write})


def write_bytes(path: Path, content: bytes) -> None:
    """The same for what is already in memory."""
    write_with(path, lambda file: file.write(content))


def sweep(folder: Path) -> None:
    """Remove what killed processes were writing in a folder; nobody else may be writing there."""
    for left in folder.rglob(f".*{UNFINISHED}"):
        left.unlink(missing_ok=True)


@contextmanager
def _about(path: Path, beside: Path) -> Iterator[None]:
    """An error of the file system says which file could not be written."""
    try:
        yield
    except Exception as error:
        cause = _of_system(error)
        if cause is None or cause.filename not in (None, str(beside)):
            raise
        raise CannotWrite(cause.errno, cause.strerror, str(path)) from None


def _of_system(error: BaseException | None) -> OSError | None:
    """The OSError behind an error: zipfile raises others while it gives up an archive."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error
        error = error.__cause__ or error.__context__
    return None


def _sync(folder: Path) -> None:
    """A renamed file is safe once its folder is on disk, too."""
    if os.name == "nt":  # where folders cannot be opened
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems do not offer it
            raise
    finally:
        os.close(opened)
