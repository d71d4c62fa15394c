"""npy and npz files: features, labels, unknown entries, splits and names under their keys; scipy's
sparse matrices too. What is too large for memory stays in the file and is read block by block."""

from __future__ import annotations

import json
import math
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from labelset import check
from labelset.data.columns import Piece
from labelset.data.dataset import array_features, array_images, moments, part_numbers
from labelset.data.description import Description
from labelset.data.growing import GrowingLabels, check_pointers, ranges, sparse_labels
from labelset.data.reading import reading
from labelset.data.sparse import SparseRows
from labelset.data.store import (
    ENTRIES,
    Array,
    DiskColumn,
    Filed,
    Handle,
    Spool,
    StoredSparse,
    spooled,
)
from labelset.labels import Labels

CHUNK = 1 << 20
HEAD = 30
"""Bytes of a zip member's own header, before its name."""
OBJECTS = "holds Python objects; save numbers: array.astype('float32')"


def array_in(path: Path, memory: int) -> Array | Filed:
    """The array of an npy file; in place where it has more than `memory` bytes."""
    with path.open("rb") as raw:
        head = _head(raw)
        if head is None or _bytes(head) <= memory:
            raw.seek(0)
            try:
                array = np.load(raw, allow_pickle=False)
            except ValueError as error:
                if "bject arrays" in str(error):
                    raise ValueError(OBJECTS) from None
                raise
            if not isinstance(array, np.ndarray):
                raise ValueError("is not an npy file (one array)")
            return array.astype(array.dtype.newbyteorder("="), copy=False)
        return _filed(path, head, raw.tell())


def member_of(path: Path, archive: zipfile.ZipFile, name: str) -> Filed | None:
    """An array of an npz file: in place where it is not compressed, else unpacked to disk; None
    where numpy alone can read it."""
    info = archive.getinfo(name)
    with archive.open(info) as member:
        head = _head(member)
        if head is None:
            return None
        before = member.tell()
        if info.compress_type == zipfile.ZIP_STORED:
            while member.read(CHUNK):  # to its end, where the checksum is compared
                pass
            return _filed(path, head, _begins(path, info) + before)
        spool = Spool(np.uint8, 0)
        while chunk := member.read(CHUNK):
            spool.append(np.frombuffer(chunk, dtype=np.uint8))
    unpacked = spool.done()
    if not isinstance(unpacked, DiskColumn) or unpacked.size < _bytes(head):
        raise ValueError(f"{name} is shorter than its head says")
    shape, fortran, dtype = head
    return Filed(DiskColumn(unpacked.handle, dtype, math.prod(shape)), shape, fortran)


Head = tuple[tuple[int, ...], bool, np.dtype[Any]]


def _head(file: IO[bytes]) -> Head | None:
    """Shape, order and type; None for objects, scalars and what only numpy knows."""
    try:
        version = npy.read_magic(file)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        head: Head = readers[version](file)
    except (ValueError, KeyError):
        return None
    shape, _, dtype = head
    return None if dtype.hasobject or dtype.fields or not shape else head


def _bytes(head: Head) -> int:
    return math.prod(head[0]) * head[2].itemsize


def _filed(path: Path, head: Head, offset: int) -> Filed:
    shape, fortran, dtype = head
    if path.stat().st_size < offset + _bytes(head):
        raise ValueError(f"is shorter than its head says, which is {shape} of {dtype}")
    handle = Handle(path.open("rb", buffering=0))
    return Filed(DiskColumn(handle, dtype, math.prod(shape), offset), shape, fortran)


def _begins(path: Path, info: zipfile.ZipInfo) -> int:
    """The byte at which a member's content begins."""
    with path.open("rb") as raw:
        raw.seek(info.header_offset + HEAD - 4)
        name, extra = struct.unpack("<HH", raw.read(4))
    return info.header_offset + HEAD + int(name) + int(extra)


@dataclass(frozen=True)
class BlockedArray:
    """An array that comes in blocks of rows."""

    shape: tuple[int, ...]
    dtype: Any
    blocks: Iterable[Array]


def write_npz(
    file: IO[bytes], arrays: Mapping[str, Array | BlockedArray], compress: bool = False
) -> None:
    """What `numpy.savez` (or `savez_compressed`) would write.

    >>> import io
    >>> file = io.BytesIO()
    >>> write_npz(file, {"x": BlockedArray((3,), np.int64, [np.array([1, 2]), np.array([3])])})
    >>> with np.load(io.BytesIO(file.getvalue())) as saved:
    ...     saved["x"]
    array([1, 2, 3])
    """
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                if isinstance(array, BlockedArray):
                    _write(member, array)
                else:
                    npy.write_array(member, np.asanyarray(array), allow_pickle=False)


def _write(member: IO[bytes], array: BlockedArray) -> None:
    dtype, written = np.dtype(array.dtype), 0
    about = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": array.shape}
    npy.write_array_header_2_0(member, about)
    for block in array.blocks:
        member.write(np.ascontiguousarray(block, dtype=dtype).tobytes())
        written += len(block)
    if written != array.shape[0]:
        raise ValueError(f"{written} rows came where {array.shape[0]} were announced")


def sparse_features(
    indptr: Array, indices: Array | Filed, width: int, values: Array | Filed | None, memory: int
) -> SparseRows | StoredSparse:
    """Rows that keep what is not 0, checked and sorted; block by block where they lie on disk."""
    if not isinstance(indices, Filed) and not isinstance(values, Filed):
        return SparseRows.from_csr(indptr, indices, width, values)
    check_pointers(indptr, len(indices))
    if values is not None and len(values) != len(indices):
        raise ValueError(f"has {len(values)} values for {len(indices)} stored entries")
    blocks = (
        SparseRows.from_csr(
            indptr[start : end + 1] - indptr[start],
            _cut(indices, indptr[start], indptr[end]),
            width,
            None if values is None else _cut(values, indptr[start], indptr[end]),
            first=start,
        )
        for start, end in ranges(indptr, ENTRIES)
    )
    matrix: SparseRows | StoredSparse = spooled(blocks, memory)
    return matrix


def _cut(array: Array | Filed, start: int, end: int) -> Array:
    return array.rows(int(start), int(end)) if isinstance(array, Filed) else array[start:end]


def turned(
    arrays: Mapping[str, Any], kind: str, rows: int, width: int, memory: int
) -> Iterator[tuple[int, Array, Array, Array]]:
    """(first row, indptr, indices, values) of blocks of csr, from a csc or coo matrix.

    Its rows lie scattered, so the entries are sorted some at a time, and each block of rows is
    merged from all of these runs.
    """
    starts = _counted(arrays, kind, rows)
    cuts = list(ranges(starts, ENTRIES))
    bounds = np.array([first for first, _ in cuts] + [rows])
    spools = [Spool(kept, memory) for kept in (np.int64, np.int64, np.float32)]
    offsets, done = [], 0
    for entries in _entries(arrays, kind):
        order = np.argsort(entries[0], kind="stable")
        for spool, part in zip(spools, entries, strict=True):
            spool.append(part[order])
        offsets.append(done + np.searchsorted(entries[0][order], bounds))
        done += len(order)
    kept = [_as_filed(spool.done()) for spool in spools]
    for at, (first, end) in enumerate(cuts):
        runs = [(run[at], run[at + 1]) for run in offsets]
        down, along, values = (np.concatenate([_cut(k, *run) for run in runs]) for k in kept)
        order = np.lexsort((along, down))
        yield first, starts[first : end + 1] - starts[first], along[order], values[order]


def _counted(arrays: Mapping[str, Any], kind: str, rows: int) -> Array:
    """(rows + 1,) where each row will begin."""
    counts = np.zeros(rows, dtype=np.int64)
    for down, _, _ in _entries(arrays, kind):
        if len(down) and not 0 <= down.min() <= down.max() < rows:
            raise ValueError(f"says {rows} rows and holds an entry in row {down.max()}")
        counts += np.bincount(down, minlength=rows)
    return np.concatenate([[0], np.cumsum(counts)])


def _as_filed(array: Array | DiskColumn) -> Array | Filed:
    return Filed(array, (array.size,), False) if isinstance(array, DiskColumn) else array


def _entries(arrays: Mapping[str, Any], kind: str) -> Iterator[tuple[Array, Array, Array]]:
    """(row, column, value) of the stored entries, some at a time."""
    count = len(arrays["data"])
    for start in range(0, max(count, 1), ENTRIES):
        end = min(start + ENTRIES, count)
        values = _cut(arrays["data"], start, end)
        if kind == "coo":
            yield _cut(arrays["row"], start, end), _cut(arrays["col"], start, end), values
        else:
            along = np.searchsorted(arrays["indptr"], np.arange(start, end), side="right") - 1
            yield _cut(arrays["indices"], start, end), along, values


def read_npy(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """(rows, d) features; (rows, h, w) or (rows, c, h, w) images; labels or a split if asked."""
    return [_npy_piece(path, ask, role) for path in paths]


def _npy_piece(path: Path, ask: Description, role: str) -> Piece:
    with reading(path):
        return as_piece(path, array_in(path, ask.memory << 20), ask, role)


def as_piece(path: Path, array: Array | Filed, ask: Description, role: str) -> Piece:
    """The array read as what it is asked for; NaN and `unknown` are unknown labels."""
    rows = len(array) if array.ndim else 0
    if role == "split":
        whole = array.whole() if isinstance(array, Filed) else array
        return Piece(path=path, rows=rows, split=part_numbers(whole))
    if role == "labels":
        return Piece(path=path, rows=rows, labels=array_labels(array, ask.unknown))
    features, images, facts = _inputs_of(array, ask)
    return Piece(path=path, rows=rows, features=features, images=images, facts=facts)


def _inputs_of(
    array: Array | Filed, ask: Description, scale: Any = None
) -> tuple[Any, Any, dict[str, Any]]:
    """(features, images), one of them, and what new rows must be read with; `scale`: what the file
    says that numbers are times."""
    facts: dict[str, Any] = {}
    if scale is not None:
        facts = {"scale": np.asarray(scale).tolist(), "stored": array.dtype.name}
    elif ask.schema is not None and ask.schema.stored == array.dtype.name:
        scale = ask.schema.scale
    if array.ndim > 2:
        return None, array_images(array, scale), facts
    return array_features(array, scale), None, facts


def array_labels(array: Array | Filed, unknown: int | None) -> Labels:
    """From a dense matrix, wherever it is."""
    if isinstance(array, np.ndarray):
        return Labels.from_dense(array, unknown=unknown)
    labels = GrowingLabels()
    for start, block in array.blocks():
        try:
            some = Labels.from_dense(block, unknown=unknown)
        except ValueError as error:
            raise ValueError(f"{error} (counted from row {start})" if start else error) from None
        labels.append(some)
    return labels.done(some.n)


LARGE = (
    *("X", "E", "X_indices", "X_data", "texts", "ids"),
    *("arr_0", "indices", "data", "row", "col"),
)
"""Keys whose arrays need not fit into memory; so do dense labels."""
ROWS = 1 << 14
"""Words that are taken out of an array together."""


class Arrays(dict[str, Any]):
    """What an npz file holds: arrays, or, where they are too large, where they lie."""

    def small(self, key: str) -> Array:
        """An array that must be in memory."""
        array = self[key]
        return array.whole() if isinstance(array, Filed) else cast(Array, array)


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """`X` dense (uint8 times `X_scale`) or `X_indptr`, `X_indices`, `X_shape`, `X_data`; `E` int8
    times `scale`; `Y` or `Y_...` labels, `U_...` unknown; `split`, `label_names`, `ids`, `card`.
    Groups, times and weights are under the keys that the description says."""
    return [_npz_piece(path, ask, role) for path in paths]


def _npz_piece(path: Path, ask: Description, role: str) -> Piece:
    with reading(path):
        unread = tuple({"X", "E"} - {ask.label_key[:1]}) if role == "labels" else ()
        large = (*LARGE, ask.label_key)
        arrays = opened(path, memory=ask.memory << 20, large=large, unread=unread)
        if "format" in arrays and "shape" in arrays:
            return _scipy(path, arrays, ask, role)
        if len(arrays) == 1 and "arr_0" in arrays:  # numpy.savez without a name
            return as_piece(path, arrays["arr_0"], ask, role)
        labels = None if role == "features" or ask.schema else labels_in(arrays, ask)
        features, images, facts = (None, None, {}) if role == "labels" else _inputs(arrays, ask)
        texts = _lines(arrays, "texts", ask.memory << 20)
        sizes = [len(x) for x in (features, images, labels) if x is not None]
        sizes = sizes or [len(x) for x in (texts,) if x is not None]
        rows = sizes[0] if sizes else len(arrays.get("split", ()))
        if len(set(sizes)) > 1:
            raise ValueError(f"holds {' and '.join(map(str, sizes))} rows of inputs and labels")
        return Piece(
            path=path,
            rows=rows,
            features=features,
            columns=words(arrays, "feature_names"),
            facts=facts,
            images=images,
            labels=labels,
            names=words(arrays, "label_names"),
            texts=texts,
            split=part_numbers(arrays["split"]) if "split" in arrays else None,
            groups=_role(arrays, ask.group_column, rows, _words),
            times=_role(arrays, ask.time_column, rows, moments),
            weights=_role(arrays, ask.weight_column, rows, _as_numbers),
            ids=_lines(arrays, "ids", ask.memory << 20),
            about=_card(arrays),
        )


def opened(
    path: Path,
    starts: tuple[str, ...] = ("",),
    memory: int = 1 << 62,
    large: Sequence[str] = (),
    unread: tuple[str, ...] = (),
) -> Arrays:
    """The arrays of an npz file whose keys start so, and not as in `unread`; pickles are refused.
    Those called as in `large` stay on disk where they have more than `memory` bytes."""
    if not zipfile.is_zipfile(path):  # numpy would take it for a pickle
        raise zipfile.BadZipFile("no zip archive of arrays")
    arrays = Arrays()
    with path.open("rb") as raw:
        file = np.load(raw, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("is not an npz file (a zip archive of arrays)")
        with file:
            sizes = {info.filename: info.file_size for info in cast(Any, file.zip).infolist()}
            for key in file.files:
                if not key.startswith(starts) or key.startswith(unread):
                    continue
                name, found = f"{key}.npy", None
                if key in large and sizes.get(name, 0) > memory:
                    found = member_of(path, cast(Any, file.zip), name)
                arrays[key] = _native(_member(file, key)) if found is None else found
    return arrays


def _member(file: np.lib.npyio.NpzFile, key: str) -> Array:
    try:
        return cast(Array, file[key])
    except ValueError as error:
        if "bject arrays" in str(error):
            raise ValueError(f"{key} {OBJECTS}") from None
        raise


def _native(array: Array) -> Array:
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def labels_in(arrays: Arrays, ask: Description) -> Labels | None:
    """Dense under the key, or compressed sparse rows, with the unknown entries beside them."""
    key = ask.label_key
    if key in arrays:
        return array_labels(arrays[key], ask.unknown)
    if f"{key}_indptr" not in arrays:
        if key != "Y":
            raise ValueError(f"holds neither {key} nor {key}_indptr; it holds {', '.join(arrays)}")
        return None
    shape = arrays.get(f"{key}_shape", arrays.get("Y_shape"))
    width = ask.labels if shape is None else int(shape[1])
    if not isinstance(width, int):
        raise ValueError(f"does not say how many labels there are; add {key}_shape or give labels")
    unknown = (arrays["U_indptr"], arrays["U_indices"]) if "U_indptr" in arrays else None
    values = arrays.get(f"{key}_data")
    labels = sparse_labels(
        arrays[f"{key}_indptr"], arrays[f"{key}_indices"], width, values, unknown
    )
    if shape is not None and int(shape[0]) != len(labels):
        raise ValueError(f"{key}_shape says {int(shape[0])} rows, {key}_indptr {len(labels)}")
    return labels


def _inputs(arrays: Arrays, ask: Description) -> tuple[Any, Any, dict[str, Any]]:
    """(features, images), at most one of them, and what new rows must be read with."""
    if "X_indptr" in arrays:
        if "X_indices" not in arrays:
            raise ValueError("holds X_indptr without X_indices")
        columns, values = arrays["X_indices"], arrays.get("X_data")
        at = (arrays["X_indptr"], columns, _width(arrays), values)
        return sparse_features(*at, ask.memory << 20), None, {}
    key, scale = ("X", "X_scale") if "X" in arrays else ("E", "scale")
    return (
        (None, None, {}) if key not in arrays else _inputs_of(arrays[key], ask, arrays.get(scale))
    )


def _width(arrays: Arrays) -> int:
    if "X_shape" in arrays:
        return int(arrays["X_shape"][1])
    raise ValueError("does not say how many features there are; add X_shape")


def _scipy(path: Path, arrays: Arrays, ask: Description, role: str) -> Piece:
    """What scipy.sparse.save_npz writes: csr, csc or coo."""
    kind = bytes(arrays["format"].item()).decode() if arrays["format"].dtype.kind == "S" else "?"
    rows, width = (int(size) for size in arrays["shape"])
    if kind not in ("csr", "csc", "coo"):
        raise ValueError(f"holds a scipy matrix in {kind} form; save it with .tocsr()")
    memory = ask.memory << 20
    if kind == "csr":
        if len(arrays["indptr"]) - 1 != rows:
            raise ValueError(f"says {rows} rows and holds {len(arrays['indptr']) - 1}")
        parts = (arrays["indptr"], arrays["indices"], width, arrays["data"])
        if role != "labels":
            return Piece(path=path, rows=rows, features=sparse_features(*parts, memory))
        y = sparse_labels(arrays["indptr"], arrays.small("indices"), width, arrays.small("data"))
        return Piece(path=path, rows=rows, labels=y)
    blocks = turned(arrays, kind, rows, width, memory)
    if role == "labels":
        found = GrowingLabels()
        for _, starts, at, values in blocks:
            found.append(Labels.from_csr(starts, at, width, values))
        return Piece(path=path, rows=rows, labels=found.done(width))
    made = (SparseRows.from_csr(s, at, width, v, first=first) for first, s, at, v in blocks)
    return Piece(path=path, rows=rows, features=spooled(made, memory))


def _lines(arrays: Arrays, key: str, memory: int) -> Any:
    """A word, or more, of each row."""
    array = arrays.get(key)
    if array is None or not array.ndim or not len(array):
        return words(arrays, key)
    if isinstance(array, Filed):
        some: Iterable[Array] = (block for _, block in array.blocks())
    else:
        some = (array[at : at + ROWS] for at in range(0, len(array), ROWS))
    return spooled(map(_words, some), memory)


def words(arrays: Arrays, key: str) -> list[str] | None:
    """An array of words as a list."""
    return _words(arrays.small(key)) if key in arrays else None


def _words(array: Array) -> list[str]:
    return [w.decode() if isinstance(w, bytes) else str(w) for w in array.tolist()]


def _role(arrays: Arrays, key: str | None, rows: int, read: Callable[[Array], Any]) -> Any:
    """What the array of a key says of each row; None where no key is asked for."""
    if key is None:
        return None
    if key not in arrays:
        raise ValueError(f"holds no array {key!r}: {check.nearest(key, arrays)}")
    array = arrays.small(key)
    if len(array.shape) < 1 or len(array) != rows:
        raise ValueError(f"{key!r} must have an entry for each of {rows} rows, got {array.shape}")
    return read(array)


def _as_numbers(array: Array) -> Tensor:
    return torch.from_numpy(array.astype(np.float64))


def _card(arrays: Arrays) -> dict[str, Any]:
    if "card" not in arrays:
        return {}
    try:
        card = json.loads(str(arrays["card"]))
    except json.JSONDecodeError:
        return {"note": str(arrays["card"])}
    return cast(dict[str, Any], card) if isinstance(card, dict) else {"note": card}
