"""Dataset: inputs, labels, names and parts in one frozen object; how arrays become it; its hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from labelset import check, csr
from labelset.data.description import Schema
from labelset.data.sparse import SparseRows
from labelset.data.store import (
    ENTRIES,
    Array,
    Filed,
    Stored,
    StoredRows,
    StoredSparse,
    StoredTexts,
    blocks,
    has_long,
    long_kept,
    on_disk,
    per_row,
    spooled,
)
from labelset.display import Shown, table
from labelset.labels import Labels

if TYPE_CHECKING:
    from labelset.charts import Panel

PARTS = ("train", "valid", "test")
WORDS = {
    **dict.fromkeys(("0", "train", "training"), 0),
    **dict.fromkeys(("1", "valid", "validation", "val", "dev"), 1),
    **dict.fromkeys(("2", "test", "testing"), 2),
}
FIRST, NAMED = 5, 25
"""Rows that a notebook shows, and labels whose names a chart has room for."""
ROWS = 1 << 14
"""Rows of an array that are taken out of it together."""


def part_numbers(
    values: Sequence[Any] | Array | Tensor,
    lines: Sequence[int] | None = None,
    first: int = 0,
) -> Tensor:
    """(rows,) int8: 0 train, 1 valid, 2 test, from numbers or words; `lines`: where they stand,
    or `first`: the number of the first row.

    >>> part_numbers(["train", "dev", "TEST", 0])
    tensor([0, 1, 2, 0], dtype=torch.int8)
    """
    rows = np.asarray(values).reshape(-1) if isinstance(values, (np.ndarray, Tensor)) else values
    out = np.empty(len(rows), dtype=np.int8)
    for start in range(0, len(rows), ROWS):  # never all rows as objects
        block = rows[start : start + ROWS]
        for at, value in enumerate(
            block.tolist() if isinstance(block, np.ndarray) else block, start
        ):
            number = _number(value)
            if number is None:
                where = f"row {first + at}" if lines is None else f"line {lines[at]}"
                wanted = "train, valid or test (or 0, 1, 2)"
                raise ValueError(f"{where}: split must be {wanted}, got {value!r}")
            out[at] = number
    return torch.from_numpy(out)


def _number(value: Any) -> int | None:
    word = value.decode(errors="replace") if isinstance(value, bytes) else value
    if isinstance(word, float) and word.is_integer():
        word = int(word)
    return None if isinstance(word, bool) else WORDS.get(str(word).strip().lower())


def numbered(groups: Any) -> Array:
    """(rows,) the group of each row as a number from 0, whatever groups are called.

    >>> numbered(["b", "a", "b"])
    array([1, 0, 1])
    """
    found: Array = np.unique(np.asarray(groups).ravel(), return_inverse=True)[1]
    return found


def moments(times: Any) -> Tensor:
    """(rows,) float64 of numbers or of numpy's dates, which become days since 1970.

    >>> moments(np.array(["1970-01-03", "2024-01-01"], dtype="datetime64[D]"))
    tensor([2.0000e+00, 1.9723e+04], dtype=torch.float64)
    """
    array = times.numpy() if isinstance(times, Tensor) else np.asarray(times)
    if array.dtype.kind == "M":
        array = (array - np.datetime64(0, "s")) / np.timedelta64(1, "D")
    if array.dtype.kind not in "biuf" or array.ndim != 1:
        raise ValueError(
            f"times must be numbers or dates, one per row, got {array.dtype} of shape "
            f"{array.shape}; turn words into dates first, such as with pandas.to_datetime"
        )
    if np.isnan(array.astype(np.float64)).any():
        row = int(np.isnan(array.astype(np.float64)).argmax())
        raise ValueError(f"times must be known for every row, row {row} has none")
    return torch.from_numpy(array.astype(np.float64))


def any_features(given: Any) -> Tensor | SparseRows:
    """Sparse rows as they are, from a scipy matrix, or a dense tensor."""
    if isinstance(given, SparseRows):
        return given
    return SparseRows.from_scipy(given) if hasattr(given, "tocsr") else dense_features(given)


def array_features(array: Array | Filed, scale: Any = None) -> Tensor | StoredRows:
    """(rows, d) float32 of an array, wherever it is; times `scale`."""
    if isinstance(array, np.ndarray):
        return dense_features(_scaled(array, scale))
    if array.ndim != 2:
        raise ValueError(f"features must be 2-D (rows, features), got shape {array.shape}")
    checked = (dense_features(_scaled(block, scale), start) for start, block in array.blocks())
    if array.fortran or scale is not None:  # rows must lie together to be read one by one
        held: Tensor | StoredRows = spooled(checked, 0)
        return held
    dtypes = {block.dtype for block in checked}
    dtype = torch.float64 if torch.float64 in dtypes else torch.float32
    return StoredRows(column=array.column, inner=array.shape[1:], dtype=dtype, given=True)


def array_images(array: Array | Filed, scale: Any = None) -> Tensor | StoredRows:
    """(rows, channels, height, width) of an array, wherever it is; times `scale`."""
    if isinstance(array, np.ndarray):
        return image_tensor(_scaled(array, scale))
    blocks = (image_tensor(_scaled(block, scale)) for _, block in array.blocks())
    held: Tensor | StoredRows = spooled(blocks, 0)
    return held


def _scaled(array: Array, scale: Any) -> Array:
    return array if scale is None else array.astype(np.float32) * np.float32(scale)


def dense_features(array: Any, first: int = 0) -> Tensor:
    """(rows, d) float32 from any numbers; infinite ones are refused, NaN is missing.

    Where float32 would round numbers of a million and more, such as times in seconds since 1970,
    it is float64, with smaller numbers as float32 has them. `first`: what to call the first row in
    an error.

    >>> dense_features([[1.7e9 + 3]]), dense_features([[0.1]]).dtype
    (tensor([[1.7000e+09]], dtype=torch.float64), torch.float32)
    """
    t = _tensor(array, "features")
    if t.ndim != 2:
        raise ValueError(f"features must be 2-D (rows, features), got shape {tuple(t.shape)}")
    x = t.to(torch.float32)
    if bool(x.isinf().any()):
        row, column = (int(i) for i in x.isinf().nonzero()[0])
        raise ValueError(
            f"features must be finite in float32 (NaN: missing), got {float(t[row, column]):g} at "
            f"row {first + row}, feature {column}"
        )
    return long_kept(t) if has_long(t) else x


def image_tensor(array: Any) -> Tensor:
    """(rows, channels, height, width), uint8 or float32.

    (rows, height, width) gets one channel; (rows, height, width, 1, 3 or 4) is turned round
    unless its second size, being 1 or 3, looks like channels as well.
    """
    t = _tensor(array, "images")
    if t.ndim == 3:
        t = t[:, None]
    if t.ndim != 4:
        raise ValueError(f"images must be (rows, channels, height, width), got {tuple(t.shape)}")
    if t.shape[1] not in (1, 3) and t.shape[3] in (1, 3, 4):
        t = t.permute(0, 3, 1, 2).contiguous()
    if t.dtype == torch.uint8:
        return t
    if not bool(torch.isfinite(t).all()):
        raise ValueError("images must be finite, got NaN or infinite numbers")
    return t.to(torch.float32)


def _tensor(array: Any, what: str) -> Tensor:
    if isinstance(array, Tensor):
        t = array.detach()
    else:
        plain = np.asarray(array)
        if plain.dtype.kind not in "biuf":
            raise ValueError(f"{what} must be numbers, got {plain.dtype}")
        plain = plain.astype(plain.dtype.newbyteorder("="), copy=False)
        if plain.dtype.itemsize > 8:  # long doubles
            plain = plain.astype(np.float64)
        t = torch.from_numpy(np.require(plain, requirements=["C", "W"]))
    if t.is_complex() or t.layout != torch.strided:
        raise ValueError(f"{what} must be dense real numbers, got {t.dtype} in {t.layout}")
    return t


BLOCK = 1 << 20
"""Numbers hashed at a time, so that no second copy of the data is made."""


def digest(**parts: Any) -> str:
    """sha256 over named tensors, sparse rows, labels, lists of words, numbers and None."""
    hasher = hashlib.sha256()
    for name, part in parts.items():
        hasher.update(f"{name}\0{_kind(part)}\0".encode())
        _feed(hasher, part)
    return hasher.hexdigest()


def _kind(part: Any) -> str:
    """What it is, wherever it lies."""
    kinds: dict[type, type] = {StoredRows: Tensor, StoredSparse: SparseRows, StoredTexts: list}
    return kinds.get(type(part), type(part)).__name__


def _feed(hasher: Any, part: Any) -> None:
    if isinstance(part, (Tensor, StoredRows)):
        rows = part.reshape(-1) if isinstance(part, Tensor) else part
        _feed_numbers(hasher, part.dtype, tuple(part.shape), blocks(rows, BLOCK))
    elif isinstance(part, StoredSparse):  # as if it were in memory
        lengths, ones = part.lengths(), part.values is None
        size = (int(lengths.sum()),)
        hasher.update(f"{part.shape}".encode())
        _feed(hasher, csr.cumulate(lengths))
        _feed_numbers(hasher, torch.int32, size, (b.indices for b in blocks(part, BLOCK)))
        if ones:
            _feed(hasher, None)
        else:
            _feed_numbers(hasher, torch.float32, size, (b.filled() for b in blocks(part, BLOCK)))
    elif isinstance(part, (SparseRows, Labels)):
        hasher.update(f"{part.shape}".encode())
        for tensor in (part.indptr, part.indices, part.values):
            _feed(hasher, tensor)
    elif isinstance(part, (list, tuple, StoredTexts)):
        each = (len(_coded(word)) for word in part)
        sizes: Array = (
            part.lengths() if isinstance(part, StoredTexts) else np.fromiter(each, np.int64)
        )
        hasher.update(sizes.astype("<i8").tobytes())
        for word in part:
            hasher.update(_coded(word))
    else:
        hasher.update(repr(part).encode())


def _feed_numbers(hasher: Any, dtype: Any, shape: tuple[int, ...], parts: Iterable[Tensor]) -> None:
    hasher.update(f"{dtype} {shape}".encode())
    for part in parts:
        block = part.detach().cpu()
        if block.is_floating_point():  # one NaN and one zero, whatever bits they came with
            block = torch.where(block.isnan(), torch.nan, block + 0.0)
        array = block.contiguous().numpy()
        hasher.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())


def _coded(word: str) -> bytes:
    return word.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Dataset(Shown):
    """Rows with labels: features, texts or images, and which part each row belongs to.

    >>> data = Dataset.from_arrays([[0.5, 1.0], [2.0, 3.0]], [[1, 0, 1], [0, 1, 0]], split=[0, 2])
    >>> data
    Dataset(2 rows, 2 features, 3 labels, 1.5 labels per row, parts 1 / 0 / 1)
    >>> data.part("test").labels.dense()
    tensor([[0., 1., 0.]])
    """

    labels: Labels
    """What is to be predicted."""
    names: list[str]
    """One name per label, no two the same."""
    features: Tensor | SparseRows | StoredRows | StoredSparse | None = None
    """(rows, d) float32, NaN where a measurement is missing; sparse stays sparse.

    Float64 where float32 would round numbers of a million and more.
    """
    texts: Sequence[str] | None = None
    """One text per row."""
    images: Tensor | StoredRows | None = None
    """(rows, channels, height, width), uint8 in 0..255 or float32."""
    split: Tensor | None = None
    """(rows,) int8: 0 train, 1 valid, 2 test."""
    ids: Sequence[str] | None = None
    """What the source calls each row: a list, or, being too much for memory, a `StoredTexts`."""
    groups: Tensor | None = None
    """(rows,) int64: rows with the same number stay in one part, and in one fold."""
    times: Tensor | None = None
    """(rows,) float64: when a row came to be; a split has the newest rows in its last part."""
    card: dict[str, Any] = field(default_factory=dict)
    """Where it came from (`source`) and what was understood (`notes`)."""
    schema: Schema | None = None
    """How its rows were read from a file, so that others can be read alike."""

    @classmethod
    def from_arrays(
        cls,
        features: Any = None,
        labels: Any = None,
        *,
        names: Sequence[str] | None = None,
        texts: Sequence[str] | None = None,
        images: Any = None,
        split: Any = None,
        ids: Sequence[Any] | None = None,
        groups: Any = None,
        times: Any = None,
        card: dict[str, Any] | None = None,
    ) -> Dataset:
        """From what is in memory: arrays, tensors, scipy sparse matrices, lists of texts."""
        if labels is None:
            raise TypeError("a data set needs labels")
        sparse = hasattr(labels, "tocsr")
        y = Labels.from_scipy(labels) if sparse else Labels.from_dense(labels)
        return cls(
            labels=y,
            names=[str(i) for i in range(y.n)] if names is None else [str(s) for s in names],
            features=None if features is None else any_features(features),
            texts=None if texts is None else [str(text) for text in texts],
            images=None if images is None else image_tensor(images),
            split=None if split is None else part_numbers(split),
            ids=None if ids is None else [str(name) for name in ids],
            groups=None if groups is None else torch.from_numpy(numbered(groups)),
            times=None if times is None else moments(times),
            card=card or {},
        )

    def __post_init__(self) -> None:
        for what in ("features", "texts", "images", "split", "ids", "groups", "times"):
            rows = getattr(self, what)
            if rows is not None and len(rows) != len(self.labels):
                raise ValueError(f"has {len(rows)} rows of {what}, {len(self.labels)} of labels")
        if len(self.names) != self.n:
            raise ValueError(f"has {len(self.names)} names for {self.n} labels")
        unique_names(self.names)
        if self.images is not None and self.images.ndim != 4:
            shape = tuple(self.images.shape)
            raise ValueError(f"images must be (rows, channels, height, width), got {shape}")
        if self.split is not None and bool(((self.split < 0) | (self.split > 2)).any()):
            raise ValueError("split must be 0 (train), 1 (valid) or 2 (test) in every row")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n(self) -> int:
        """How many labels there are."""
        return self.labels.n

    def headline(self) -> str:
        return repr(self)

    def records(self) -> list[dict[str, Any]]:
        """A line for each row: its id, part and text, where it has them, and its labels."""
        lines = []
        for at in range(len(self)):
            start, end = self.labels.indptr[at : at + 2].tolist()
            values = None if self.labels.values is None else self.labels.values[start:end]
            on = self.labels.indices[start:end]
            on = on if values is None else on[values > 0.5]
            line: dict[str, Any] = {} if self.ids is None else {"id": self.ids[at]}
            if self.split is not None:
                line["part"] = PARTS[int(self.split[at])]
            if self.texts is not None:
                line["text"] = self.texts[at]
            lines.append(line | {"labels": [self.names[label] for label in on.tolist()]})
        return lines

    def panels(self) -> list[Panel]:
        """The long tail: positives of each label, the commonest first."""
        from labelset.charts import Bars, Panel, round_ticks, shares

        values = self.labels.values
        on = self.labels.indices if values is None else self.labels.indices[values > 0.5]
        counts = torch.bincount(on, minlength=self.n).sort(descending=True)
        if self.n <= NAMED:
            pairs = zip(counts.values.tolist(), counts.indices.tolist(), strict=True)
            rows = [(self.names[label], float(count)) for count, label in pairs]
            return [shares(rows, "Positives of each label", "rows")] if rows else []
        ticks = round_ticks(0.0, float(counts.values[0]) or 1.0)
        return [
            Panel(
                title="Positives of each label",
                x_label="labels, the commonest first",
                y_label="rows",
                marks=[Bars([(j, j + 1, n) for j, n in enumerate(counts.values.tolist())])],
                x=(0.0, float(self.n)),
                y=(0.0, ticks[-1][0]),
                x_ticks=round_ticks(0.0, float(self.n), inside=True),
                y_ticks=ticks,
            )
        ]

    def _repr_html_(self) -> str:
        first = self.rows(torch.arange(min(len(self), FIRST)))
        more = f"<p>the first {FIRST} rows</p>" if len(self) > FIRST else ""
        return "\n".join([f"<p>{escape(repr(self))}</p>", table(first.records()), more, self.svg()])

    def __repr__(self) -> str:
        inputs = []
        if self.features is not None:
            sparse = " sparse" if self.sparse else ""
            inputs.append(f"{self.features.shape[1]}{sparse} features")
        if self.texts is not None:
            inputs.append("texts")
        if self.images is not None:
            inputs.append("images " + " x ".join(map(str, self.images.shape[1:])))
        mean = int(self.labels.counts().sum()) / max(len(self), 1)
        parts = "" if self.split is None else f", parts {' / '.join(map(str, self.sizes()))}"
        what = ", ".join([f"{len(self)} rows", *inputs, f"{self.n} labels"])
        return f"Dataset({what}, {mean:.1f} labels per row{parts})"

    def sizes(self) -> tuple[int, int, int]:
        """Rows of train, valid and test."""
        split = self._split()
        return (int((split == 0).sum()), int((split == 1).sum()), int((split == 2).sum()))

    def part(self, name: str) -> Dataset:
        """The rows of "train", "valid" or "test"."""
        number = PARTS.index(check.one_of("part", name, PARTS))
        return self.rows(self._split() == number)

    def rows(self, index: Any) -> Dataset:
        """The chosen rows: an int, a slice, a list or tensor of ints, or a bool mask.

        What lies on disk stays there.
        """
        chosen = csr.row_numbers(index, len(self))
        return replace(
            self,
            labels=self.labels[chosen],
            features=_chosen(self.features, chosen),
            texts=_chosen(self.texts, chosen),
            images=_chosen(self.images, chosen),
            split=None if self.split is None else self.split[chosen],
            ids=_chosen(self.ids, chosen),
            groups=None if self.groups is None else self.groups[chosen],
            times=None if self.times is None else self.times[chosen],
        )

    @property
    def sparse(self) -> bool:
        """Whether the features are sparse."""
        return isinstance(self.features, (SparseRows, StoredSparse))

    @property
    def on_disk(self) -> bool:
        """Whether features, texts or images lie in a file, being too much for memory."""
        return on_disk(self.features, self.texts, self.images)

    @property
    def numbers(self) -> int:
        """How many numbers or letters all rows hold."""
        inputs = (self.features, self.texts, self.images)
        return len(self) * sum(per_row(rows) for rows in inputs if rows is not None)

    def in_memory(self) -> Dataset:
        """With everything read that lies on disk: meant for some rows of a large data set."""
        inputs = {what: getattr(self, what) for what in ("features", "texts", "images", "ids")}
        read = {what: rows[:] for what, rows in inputs.items() if isinstance(rows, Stored)}
        return replace(self, **read)

    def blocks(self, entries: int = ENTRIES) -> Iterator[Dataset]:
        """All rows in order, so many at a time, in memory, that they hold about `entries` numbers
        or letters."""
        size = max(1, entries * len(self) // max(self.numbers, 1))
        for start in range(0, len(self), size):
            yield self.rows(slice(start, start + size)).in_memory()

    def fingerprint(self) -> str:
        """A hash of everything but the card: the same data has the same one, wherever read."""
        what = ["labels", "names", "features", "texts", "images", "split", "ids"]
        what += [name for name in ("groups", "times") if getattr(self, name) is not None]
        parts = {name: getattr(self, name) for name in what}
        weights = {} if self.labels.weights is None else {"weights": self.labels.weights}
        return digest(**parts, **weights)

    def _split(self) -> Tensor:
        if self.split is None:
            raise ValueError(
                "the data set has no split; make one with labelset.data.ensure_split(dataset)"
            )
        return self.split


def _chosen(values: Any, rows: Tensor) -> Any:
    if values is None:
        return None
    if isinstance(values, Stored):
        return values.chosen(rows)
    if not isinstance(values, Sequence):
        return values[rows]
    starts = range(0, len(rows), ROWS)
    return [values[i] for start in starts for i in rows[start : start + ROWS].tolist()]


def unique_names(names: Sequence[str], what: str = "label name") -> None:
    """No name twice."""
    if len(set(names)) == len(names):
        return
    seen: dict[str, int] = {}
    for at, name in enumerate(names):
        if name in seen:
            raise ValueError(f"{what} {name!r} appears twice, at {seen[name]} and {at}")
        seen[name] = at
