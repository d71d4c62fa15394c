"""Training on disk: each checkpoint whole or not at all, the one before kept until it is."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from labelset.files import sweep, write_with

EVERY = 2.0
"""Seconds between two checkpoints, unless the caller says or writing takes long."""
SHARE = 20
"""By default training continues for this many times as long as writing takes."""
log = logging.getLogger("labelset")


class BadCheckpoint(ValueError):
    """A checkpoint that is damaged, or of another training."""


class Checkpoint:
    """The files of one training, named by steps done; `about` says which training that is."""

    def __init__(self, folder: str | Path, about: Mapping[str, Any], every: float | None) -> None:
        self.folder, self.about, self.every = Path(folder), dict(about), every
        self.latest: Path | None = None
        """The last good one."""
        self._wait = EVERY if every is None else every
        self._last = time.perf_counter()

    def due(self) -> bool:
        """Whether the last one is long enough ago."""
        return time.perf_counter() - self._last >= self._wait

    def save(self, steps: int, state: Callable[[], Mapping[str, Any]]) -> None:
        """Write the state after this many steps; then all but the one before are removed."""
        began = time.perf_counter()
        held = {"about": self.about, "state": dict(state())}
        path = self.folder / f"checkpoint-{steps:09}.safetensors"
        self.folder.mkdir(parents=True, exist_ok=True)
        write_with(path, lambda file: write_state(file, held))
        for old in self._files():
            if old not in (path, self.latest):
                old.unlink()
        self.latest, self._last = path, time.perf_counter()
        if self.every is None:
            self._wait = max(EVERY, SHARE * (self._last - began))

    def begin(self, resume: bool) -> dict[str, Any] | None:
        """The state to go on from; without `resume` none, and old files are removed."""
        sweep(self.folder)
        if resume:
            return self.load()
        for old in self._files():
            old.unlink()
        return None

    def load(self) -> dict[str, Any] | None:
        """The last good state, or None where nothing was saved; damaged files are left there."""
        damaged: list[str] = []
        for path in self._files():
            try:
                held = read_state(path)
                state: dict[str, Any] = self._own(path, held["about"], held["state"])
            except Unreadable as error:
                damaged.append(f"{path}: {error}")
                continue
            for line in damaged:
                log.warning("%s; going on from the one before, %s", line, path.name)
            self.latest = path
            return state
        if damaged:
            raise BadCheckpoint(
                f"{'; '.join(damaged)}; no checkpoint is left to go on from: delete "
                f"{self.folder} to train from the start, or train in another folder"
            )
        return None

    def _files(self) -> list[Path]:
        """The newest first."""
        return sorted(self.folder.glob("checkpoint*"), reverse=True)

    def _own(self, path: Path, about: Mapping[str, Any], state: Any) -> Any:
        for key, mine in self.about.items():
            if about.get(key) != mine:
                what = _difference(key, about.get(key), mine)
                raise BadCheckpoint(f"{path}: {what}; train without resuming, or in another folder")
        return state


def _difference(key: str, theirs: Any, mine: Any) -> str:
    if isinstance(theirs, Mapping) and isinstance(mine, Mapping):
        for name in mine:
            if theirs.get(name) != mine[name]:
                return f"has {key} {name} = {theirs.get(name)!r}, not {mine[name]!r}"
    return f"is of another training: its {key} is not the same"


KEY, FORMAT, SUM = "labelset.checkpoint", "2", "sha256"
ZEROS = "0" * 64
LARGEST = 100_000_000  # bytes of a header, as safetensors has it
FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
WHOLE = {"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8}
NAMES = FLOATS | WHOLE | {"U8": torch.uint8, "BOOL": torch.bool}
DTYPES = {dtype: name for name, dtype in NAMES.items()}
DAMAGE = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError),
    MemoryError,
)
"""What reading changed bytes may raise."""


class Unreadable(ValueError):
    """A file that is damaged, or was written by another version."""


def write_state(file: IO[bytes], state: Any) -> None:
    """Write nested dicts, lists and tuples of tensors and plain values, tensor by tensor.

    The checksum is that of the whole file with zeros in its own place, so that no byte can change
    unseen; it is filled in at the end.
    """
    tensors: list[Tensor] = []
    shape = json.dumps(_packed(state, tensors), separators=(",", ":"), default=_plain)
    header: dict[str, Any] = {"__metadata__": {SUM: ZEROS, KEY: FORMAT, "held": shape}}
    end = 0
    for at, t in enumerate(tensors):
        start, end = end, end + t.numel() * t.element_size()
        about = {"dtype": DTYPES[t.dtype], "shape": list(t.shape), "data_offsets": [start, end]}
        header[str(at)] = about
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    counted = hashlib.sha256()
    pieces: Iterator[Any] = chain((len(text).to_bytes(8, "little"), text), map(_bytes_of, tensors))
    for piece in pieces:
        counted.update(piece)
        file.write(piece)
    file.seek(8 + text.index(ZEROS.encode()))
    file.write(counted.hexdigest().encode())
    file.seek(0, 2)


def read_state(path: Path) -> Any:
    """What `write_state` was given, on the CPU; nothing in the file is run."""
    try:
        with path.open("rb") as file:
            return _read(file, path.stat().st_size)
    except Unreadable:
        raise
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None
    except DAMAGE:
        raise Unreadable("is damaged or no checkpoint") from None


def _read(file: IO[bytes], size: int) -> Any:
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > min(size - 8, LARGEST):
        raise Unreadable("is cut short or no checkpoint")
    text = file.read(length)
    header = json.loads(text)
    about = header.pop("__metadata__")
    counted = hashlib.sha256(start)
    counted.update(text.replace(about[SUM].encode(), ZEROS.encode(), 1))
    end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    if 8 + length + end > size:
        raise Unreadable(f"is cut short: {size:,} bytes of {8 + length + end:,}")
    tensors = [_tensor(file, header[str(at)], counted) for at in range(len(header))]
    if file.read(1) or counted.hexdigest() != about[SUM]:
        raise Unreadable("is damaged: its checksum is not that of its content")
    if about[KEY] != FORMAT:
        raise Unreadable(f"has format {about[KEY]}, and this labelset reads {FORMAT}")
    return _unpacked(json.loads(about["held"]), tensors)


def _tensor(file: IO[bytes], entry: dict[str, Any], counted: Any) -> Tensor:
    dtype, shape = NAMES[entry["dtype"]], entry["shape"]
    size = math.prod(shape) * dtype.itemsize
    start, end = entry["data_offsets"]
    if end - start != size or min(start, size) < 0:
        raise Unreadable("is damaged: a tensor has another size than its shape")
    held = bytearray(file.read(size))
    counted.update(held)
    return torch.frombuffer(held, dtype=dtype).view(shape) if held else torch.empty(shape).to(dtype)


def _bytes_of(t: Tensor) -> Any:
    return memoryview(t.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)


def _plain(value: Any) -> Any:
    """A number of numpy's as one of Python's."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"a checkpoint holds tensors and plain values, got {type(value).__name__}")


def _packed(held: Any, tensors: list[Tensor]) -> Any:
    """As JSON; a tensor is its number, and the order of its dimensions in memory."""
    if isinstance(held, Tensor):
        strides = held.stride()
        order = sorted(range(held.ndim), key=lambda dim: -strides[dim])
        tensors.append(held.detach().permute(order))
        return {"tensor": len(tensors) - 1, "order": order}
    if isinstance(held, dict):
        return {"dict": [[key, _packed(value, tensors)] for key, value in held.items()]}
    if isinstance(held, (list, tuple)):
        kind = "tuple" if isinstance(held, tuple) else "list"
        return {kind: [_packed(value, tensors) for value in held]}
    return held


def _unpacked(packed: Any, tensors: list[Tensor]) -> Any:
    if not isinstance(packed, dict):
        return packed
    if "tensor" in packed:
        order = packed["order"]
        return tensors[packed["tensor"]].permute([order.index(dim) for dim in range(len(order))])
    if "dict" in packed:
        return {key: _unpacked(value, tensors) for key, value in packed["dict"]}
    ((kind, values),) = packed.items()
    return (tuple if kind == "tuple" else list)(_unpacked(value, tensors) for value in values)
