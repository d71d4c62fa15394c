"""The state of a training in one safetensors file: tensors, a line of JSON, and a checksum."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

__all__ = ["Unreadable", "read_state", "write_state"]

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


def write_state(file: IO[bytes], held: Any) -> None:
    """Write nested dicts, lists and tuples of tensors and plain values, tensor by tensor.

    The checksum is that of the whole file with zeros in its own place, so that no byte can change
    unseen; it is filled in at the end.
    """
    tensors: list[Tensor] = []
    shape = json.dumps(_packed(held, tensors), separators=(",", ":"), default=_plain)
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


def _unpacked(held: Any, tensors: list[Tensor]) -> Any:
    if not isinstance(held, dict):
        return held
    if "tensor" in held:
        order = held["order"]
        return tensors[held["tensor"]].permute([order.index(dim) for dim in range(len(order))])
    if "dict" in held:
        return {key: _unpacked(value, tensors) for key, value in held["dict"]}
    ((kind, values),) = held.items()
    return (tuple if kind == "tuple" else list)(_unpacked(value, tensors) for value in values)
