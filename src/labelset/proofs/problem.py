"""What is to be verified: the weights, of a model or from a file, and each label set once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from torch import Tensor, nn

from labelset.labels import Labels
from labelset.proofs._exact import integers

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OutputLayer:
    """Weights and bias in float64, exactly as stored, and rows scaled for the search."""

    weight: Floats
    """(n, d)"""
    bias: Floats | None
    rounding: float
    """Relative rounding of the stored numbers: 2^-24 for float32."""
    rows: Floats
    """(n, d) or, with a bias, (n, d + 1): each row of [weight, bias] times a power of two."""
    empty: NDArray[np.bool_]
    """Rows that are zero throughout."""

    @property
    def n(self) -> int:
        """How many labels."""
        return len(self.weight)

    def scale(self, row: int) -> Fraction:
        """The power of two by which a row was multiplied."""
        _, exponent = np.frexp(np.abs(self.stored()[row]).max())
        return Fraction(2) ** -int(exponent)

    def stored(self) -> Floats:
        """(n, d) or, with a bias, (n, d + 1): [weight, bias] as stored."""
        return self.weight if self.bias is None else np.column_stack([self.weight, self.bias])

    @property
    def open_row(self) -> Floats:
        """The row that, with a bias, keeps the last coordinate positive."""
        row = np.zeros((1, self.rows.shape[1]))
        row[0, -1] = 1.0
        return row

    def opened(self) -> OutputLayer:
        """The homogenised problem with that row as a label that is always on."""
        rows = np.concatenate([self.rows, self.open_row])
        return OutputLayer(rows, None, self.rounding, rows, np.append(self.empty, False))

    @cached_property
    def unit(self) -> Floats:
        """(n, d): the rows over their norms, each off by gamma(d + 3); zero rows stay."""
        norms = np.linalg.norm(self.rows, axis=1, keepdims=True)
        unit: Floats = self.rows / np.where(norms > 0, norms, 1.0)
        return unit

    @cached_property
    def lines(self) -> list[list[tuple[int, int]]]:
        """Rows on one line through the origin, where there are several: (row, side) of each."""
        norms = np.linalg.norm(self.rows, axis=1)
        mix = np.random.default_rng(0).standard_normal(self.rows.shape[1])
        mark = np.abs(self.rows @ mix) / np.where(norms > 0, norms, 1.0)
        order = np.argsort(mark)
        close = np.flatnonzero(np.diff(mark[order]) < 1e-9)  # the few that may be parallel
        groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for i in sorted({*order[close].tolist(), *order[close + 1].tolist()}):
            if not self.empty[i]:
                whole = integers(self.rows[i : i + 1])[0]
                shared = math.gcd(*whole) * (1 if next(x for x in whole if x) > 0 else -1)
                line = tuple(x // shared for x in whole)
                groups.setdefault(line, []).append((i, 1 if shared > 0 else -1))
        return [group for group in groups.values() if len(group) > 1]

    def clash(self, signs: NDArray[np.int8]) -> NDArray[np.int64] | None:
        """Two rows on one line that these signs ask to be on both sides; None if there are none."""
        for group in self.lines:
            sides = {int(signs[row]) * side: row for row, side in group if signs[row]}
            if len(sides) == 2:
                return np.array(sorted(sides.values()))
        return None


def read_model(model: Any, bias: Any = None) -> OutputLayer:
    """From a head, an `nn.Linear`, or a (labels, features) matrix with its bias."""
    if isinstance(model, nn.Linear):
        model, bias = model.weight, model.bias if bias is None else bias
    elif callable(getattr(model, "matrix", None)):
        model, own = model.matrix()
        bias = own if bias is None else bias
    weight = _numbers("weights", model)
    rounding = _rounding(model)
    if weight.ndim != 2 or 0 in weight.shape:
        raise ValueError(f"weights must be 2-D (labels, features), got shape {weight.shape}")
    offset = None if bias is None else _numbers("bias", bias)
    if offset is not None and offset.shape != (len(weight),):
        raise ValueError(f"bias must have one entry per label, {len(weight)}, got {offset.shape}")
    full = weight if offset is None else np.concatenate([weight, offset[:, None]], axis=1)
    _, exponent = np.frexp(np.abs(full).max(axis=1, keepdims=True))
    rows = np.ascontiguousarray(_shifted(full, -exponent))
    lost = _shifted(rows, exponent) != full
    if lost.any():
        row = int(np.flatnonzero(lost.any(axis=1))[0])
        raise ValueError(
            f"row {row} of the weights (with its bias) spans more than float64 can hold at once; "
            "rescale the features"
        )
    return OutputLayer(weight, offset, rounding, rows, np.asarray(~full.any(axis=1)))


def _shifted(rows: Floats, exponent: NDArray[np.int32]) -> Floats:
    """rows * 2^exponent; in two steps where that power of two is out of range."""
    most = np.clip(exponent, -1000, 1000)
    shifted: Floats = rows * np.ldexp(1.0, most)
    return shifted if (most == exponent).all() else shifted * np.ldexp(1.0, exponent - most)


def _rounding(model: Any) -> float:
    """The relative rounding of stored numbers: 2^-24 for float32."""
    if isinstance(model, Tensor):
        return torch.finfo(model.dtype).eps / 2 if model.dtype.is_floating_point else 2.0**-53
    kind = np.asarray(model).dtype
    return max(float(np.finfo(kind).eps) / 2, 2.0**-53) if kind.kind == "f" else 2.0**-53


def _numbers(name: str, value: Any) -> Floats:
    """float64, from which nothing was lost."""
    given = value.detach().cpu() if isinstance(value, Tensor) else value
    if isinstance(given, Tensor):
        given = given.double().numpy() if given.is_floating_point() else given.numpy()
    given = np.asarray(given)
    if given.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers, got {given.dtype} in {type(value).__name__}")
    array = given.astype(np.float64)
    if given.dtype.kind in "iu" and not np.array_equal(array.astype(object), given.astype(object)):
        raise ValueError(f"{name} hold whole numbers too long for float64; rescale them")
    if not np.isfinite(array).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[at]} at {at}")
    return array


def distinct(labels: Labels) -> tuple[Labels, NDArray[np.int64]]:
    """Each label set once, and for every row the number of its set."""
    if labels.values is not None:
        soft = (labels.values != 1) & ~labels.values.isnan()
        if bool(soft.any()):
            raise ValueError(
                "label sets must be on, off or unknown, got a soft value of "
                f"{float(labels.values[soft][0]):g}; threshold it first"
            )
    first, which = _first_of_each(labels)
    if len(first) == len(labels):
        return labels, np.arange(len(labels))
    return labels[first.tolist()], which


def _first_of_each(labels: Labels) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first row of each label set, in order, and for every row the number of its set.

    Rows are told apart by sums of random numbers, and those with one sum are compared.
    """
    pointer, mark = labels.indptr.cpu().numpy(), labels.indices.cpu().numpy()
    if labels.values is not None:
        mark = mark + labels.n * labels.values.isnan().cpu().numpy()
    numbers = np.random.default_rng(0).integers(0, 2**64, 2 * labels.n, dtype=np.uint64)
    sums = np.append(np.uint64(0), np.cumsum(numbers[mark], dtype=np.uint64))  # modulo 2^64
    keys = sums[pointer[1:]] - sums[pointer[:-1]]
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    if not _alike(pointer, mark, first[which]):
        first = which = np.arange(len(keys))  # a coincidence: solve them all
    order = np.argsort(first)
    return first[order], np.argsort(order)[which]


def _alike(pointer: NDArray[np.int64], mark: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    """Whether each row has the same entries as some other row."""
    size = np.diff(pointer)
    if not np.array_equal(size, size[other]):
        return False
    shift = np.repeat(pointer[other] - pointer[:-1], size)
    return bool((mark[np.arange(len(mark)) + shift] == mark).all())


def signs_of(labels: Labels) -> NDArray[np.int8]:
    """(rows, n): 1 on, -1 off, 0 unknown."""
    row = np.repeat(np.arange(len(labels)), labels.indptr.diff().cpu().numpy())
    signs = np.full((len(labels), labels.n), -1, np.int8)
    signs[row, labels.indices.cpu().numpy()] = 1
    if labels.values is not None:
        values = labels.values.cpu().numpy()
        given = np.where(np.isnan(values), 0, np.where(values > 0, 1, -1))
        signs[row, labels.indices.cpu().numpy()] = given
    return signs


WEIGHT, BIAS = ("weight", "W", "w"), ("bias", "b")


def read_matrix(
    path: str | Path, weight: str | None = None, bias: str | None = None
) -> tuple[Any, Any]:
    """(W, b or None); `weight` and `bias` name the entries where the file holds several.

    A safetensors file written by `labelset.heads.save` gives the matrix of that head.
    """
    from labelset.data.reading import reading

    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    readers = {".safetensors": _safetensors, ".npz": _npz, ".npy": _npy}
    if path.suffix not in readers:
        raise ValueError(f"{path}: cannot read {path.suffix or 'this'}; give {', '.join(readers)}")
    with reading(path):
        matrices = readers[path.suffix](path)
    if isinstance(matrices, tuple):
        return matrices[0], matrices[1]
    return _choose(path, matrices, weight, bias)


def _choose(
    path: Path, tensors: dict[str, Any], weight: str | None, bias: str | None
) -> tuple[Any, Any]:
    matrices = [name for name, t in tensors.items() if t.ndim == 2]
    if weight is None:
        usual = [name for name in matrices if name.rpartition(".")[2] in WEIGHT] or matrices
        if len(usual) != 1:
            raise ValueError(
                f"{path}: which of {', '.join(matrices) or 'no matrices'} is it? say with --weight"
            )
        weight = usual[0]
    for name in filter(None, (weight, bias)):
        if name not in tensors:
            raise ValueError(f"{path}: no entry {name!r}; it holds {', '.join(tensors)}")
    if bias is None:
        stem = weight.rpartition(".")[0]
        beside = [f"{stem}.{b}" if stem else b for b in BIAS]
        bias = next((b for b in beside if b in tensors), None)
    return tensors[weight], None if bias is None else tensors[bias]


def _npz(path: Path) -> Any:
    from labelset.data.formats.npz import opened

    return opened(path)


def _npy(path: Path) -> Any:
    from labelset.data.formats.npz import array_in

    return {"weight": array_in(path, memory=1 << 62)}


def _safetensors(path: Path) -> Any:
    with safe_open(path, framework="pt") as file:
        if "labelset.head" in (file.metadata() or {}):
            from labelset import heads

            return tuple(heads.load(path).matrix())
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
