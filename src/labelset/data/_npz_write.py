"""npz files written block by block: an array need not be in memory to be kept."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from labelset.data._column import Array

__all__ = ["Parts", "write_npz"]


@dataclass(frozen=True)
class Parts:
    """An array that comes in blocks of rows."""

    shape: tuple[int, ...]
    dtype: Any
    blocks: Iterable[Array]


def write_npz(file: IO[bytes], arrays: Mapping[str, Array | Parts], compress: bool = False) -> None:
    """What `numpy.savez` (or `savez_compressed`) would write.

    >>> import io
    >>> file = io.BytesIO()
    >>> write_npz(file, {"x": Parts((3,), np.int64, [np.array([1, 2]), np.array([3])])})
    >>> with np.load(io.BytesIO(file.getvalue())) as held:
    ...     held["x"]
    array([1, 2, 3])
    """
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, held in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                if isinstance(held, Parts):
                    _write(member, held)
                else:
                    npy.write_array(member, np.asanyarray(held), allow_pickle=False)


def _write(member: IO[bytes], held: Parts) -> None:
    dtype, written = np.dtype(held.dtype), 0
    about = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": held.shape}
    npy.write_array_header_2_0(member, about)
    for block in held.blocks:
        member.write(np.ascontiguousarray(block, dtype=dtype).tobytes())
        written += len(block)
    if written != held.shape[0]:
        raise ValueError(f"{written} rows came where {held.shape[0]} were announced")
