"""Dataset: inputs, labels, names and parts, in one frozen object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from labelset import _csr, check
from labelset.data._fingerprint import digest
from labelset.data._inputs import any_features, image_tensor
from labelset.data._parts import PARTS, part_numbers
from labelset.data._sparse import SparseRows
from labelset.data._spool import on_disk
from labelset.data._stored import ENTRIES, Stored, StoredRows, StoredSparse, per_row
from labelset.labels import Labels

__all__ = ["Dataset", "unique_names"]

ROWS = 1 << 14
"""Row numbers that are objects together."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Dataset:
    """Rows with labels: features, texts or images, and which part each row belongs to.

    >>> data = Dataset.from_arrays([[0.5, 1.0], [2.0, 3.0]], [[1, 0, 1], [0, 1, 0]], split=[0, 2])
    >>> data
    Dataset(2 rows, 2 features, 3 labels, 1.5 on per row, parts 1 / 0 / 1)
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
    card: dict[str, Any] = field(default_factory=dict)
    """Where it came from (`source`) and what was understood (`notes`)."""

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
            card=card or {},
        )

    def __post_init__(self) -> None:
        for what in ("features", "texts", "images", "split", "ids"):
            held = getattr(self, what)
            if held is not None and len(held) != len(self.labels):
                raise ValueError(f"has {len(held)} rows of {what}, {len(self.labels)} of labels")
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
        return f"Dataset({what}, {mean:.1f} on per row{parts})"

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
        chosen = _csr.row_numbers(index, len(self))
        return replace(
            self,
            labels=self.labels[chosen],
            features=_chosen(self.features, chosen),
            texts=_chosen(self.texts, chosen),
            images=_chosen(self.images, chosen),
            split=None if self.split is None else self.split[chosen],
            ids=_chosen(self.ids, chosen),
        )

    @property
    def sparse(self) -> bool:
        """Whether the features are sparse."""
        return isinstance(self.features, (SparseRows, StoredSparse))

    @property
    def on_disk(self) -> bool:
        """Whether features, texts or images lie in a file, being too much for memory."""
        return on_disk(self.features, self.texts, self.images)

    def in_memory(self) -> Dataset:
        """With everything read that lies on disk: meant for some rows of a large data set."""
        held = {what: getattr(self, what) for what in ("features", "texts", "images", "ids")}
        read = {what: rows[:] for what, rows in held.items() if isinstance(rows, Stored)}
        return replace(self, **read)

    def blocks(self, entries: int = ENTRIES) -> Iterator[Dataset]:
        """All rows in order, so many at a time, in memory, that they hold about `entries` numbers
        or letters."""
        held = (self.features, self.texts, self.images)
        each = sum(per_row(rows) for rows in held if rows is not None)
        size = max(1, entries // max(each, 1))
        for start in range(0, len(self), size):
            yield self.rows(slice(start, start + size)).in_memory()

    def fingerprint(self) -> str:
        """A hash of everything but the card: the same data has the same one, wherever read."""
        what = ("labels", "names", "features", "texts", "images", "split", "ids")
        return digest(**{name: getattr(self, name) for name in what})

    def _split(self) -> Tensor:
        if self.split is None:
            raise ValueError(
                "the data set has no split; make one with labelset.data.ensure_split(dataset)"
            )
        return self.split


def _chosen(held: Any, rows: Tensor) -> Any:
    if held is None:
        return None
    if isinstance(held, Stored):
        return held.chosen(rows)
    if not isinstance(held, Sequence):
        return held[rows]
    starts = range(0, len(rows), ROWS)
    return [held[i] for start in starts for i in rows[start : start + ROWS].tolist()]


def unique_names(names: Sequence[str], what: str = "label name") -> None:
    """No name twice."""
    if len(set(names)) == len(names):
        return
    seen: dict[str, int] = {}
    for at, name in enumerate(names):
        if name in seen:
            raise ValueError(f"{what} {name!r} appears twice, at {seen[name]} and {at}")
        seen[name] = at
