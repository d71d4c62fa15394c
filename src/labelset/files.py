"""Files, and what a machine has: whole writes, one process per folder, checksums, packages."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows, where nothing is locked
    fcntl = None  # type: ignore[assignment]

Write = Callable[[IO[bytes]], object]
UNFINISHED = ".part"
LOCK = ".lock"
PATIENCE = 3.0
"""Seconds until a folder counts as busy: workers of a killed process end within one."""


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
            with _about(path, filled):
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


def share(folder: Path, pattern: str) -> None:
    """Let files of these names below a folder that are alike be one file on disk, under all their
    names, where the file system can.

    None of them may ever be written into: what is written anew is a file of its own (`write_all`).
    """
    known: dict[tuple[int, str], Path] = {}
    sizes = {path: path.stat().st_size for path in sorted(folder.rglob(pattern))}
    count = Counter(sizes.values())
    for path, size in sizes.items():
        first = known.setdefault((size, file_sum(path)), path) if count[size] > 1 else path
        if first.samefile(path):
            continue
        beside = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
        with suppress(OSError):
            os.link(first, beside)
            beside.replace(path)
        beside.unlink(missing_ok=True)


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
        shown = not error.__suppress_context__  # `from None`: somebody knew better what went wrong
        error = error.__cause__ or (error.__context__ if shown else None)
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


class Busy(RuntimeError):
    """Another process is at work in the folder."""


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Keep every other process out of a folder, or raise `Busy`, which names the one inside.

    The system gives the lock back when its holder ends, however that comes about, so that a file
    left by a killed process locks nobody out.
    """
    if fcntl is None:
        yield
        return
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: is a file; give a folder")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    lock = _acquired(path)
    try:
        with suppress(OSError):  # only what `Busy` tells others, and the disk may be full
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(lock)


def unlock_below(folder: Path) -> None:
    """Remove the files that workers which were ended have left; they lock nobody out any more."""
    for left in folder.rglob(f"*/{LOCK}"):
        left.unlink(missing_ok=True)


def _acquired(path: Path) -> int:
    """The open file, locked; it is the one at `path`, not one that its last holder removed."""
    until = time.monotonic() + PATIENCE
    while True:
        opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(opened, path):
                return opened
        except BlockingIOError:
            if time.monotonic() > until:
                who = os.pread(opened, 20, 0).decode("ascii", "replace") or "unknown"
                os.close(opened)
                raise Busy(
                    f"{path.parent}: another process is at work here (its id is {who}); wait for "
                    "it to end, or choose another folder"
                ) from None
            time.sleep(0.05)
        except OSError:
            return opened  # a file system without locks
        os.close(opened)


def _is_at(opened: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(opened)
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def file_sum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def summed(name: str, write: Write, sums: dict[str, str]) -> Write:
    """The same writer; `sums[name]` becomes the checksum of what it wrote."""

    def both(file: IO[bytes]) -> None:
        write(file)
        file.seek(0)
        sums[name] = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]

    return both


def optional(module: str, what: str, extra: str = "data") -> Any:
    """The module, or an error that says what needs it and how to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise _lacking(module, what, extra) from None


def folder_of(package: str, what: str, extra: str = "data") -> Path:
    """Where a package lies; it is not imported."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise _lacking(package, what, extra)
    return Path(spec.submodule_search_locations[0])


def _lacking(module: str, what: str, extra: str) -> ImportError:
    package = module.partition(".")[0]
    return ImportError(f"{what} need the package {package}: pip install 'labelset[{extra}]'")


def versions() -> dict[str, str]:
    """What figures depend on; a package that is not installed has an empty version.

    >>> sorted(versions())
    ['labelset', 'machine', 'numpy', 'python', 'torch', 'triton']
    """
    import numpy
    import torch

    import labelset

    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = ""
    return {
        "labelset": labelset.__version__,
        "torch": torch.__version__,
        "triton": triton,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
