"""Labels: which labels are on, off or unknown, per row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelset import check, csr


@dataclass(frozen=True, eq=False, repr=False)
class Labels(csr.CSR):
    """The answer: which labels are on, off or unknown in each row, soft values included.

    Kept as compressed sparse rows. An entry that is not stored is off; a stored entry is on, has
    the soft value in `values`, or is unknown where that value is NaN. Memory is proportional to
    what is stored. Build one with the `from_...` constructors, which check their input.

    >>> y = Labels.from_lists([[0, 2], []], n=3)
    >>> y
    Labels(2 rows, 3 labels, 2 on, 0 unknown)
    >>> y.dense()
    tensor([[1., 0., 1.],
            [0., 0., 0.]])
    """

    indptr: Tensor
    """(rows + 1,) int64: row i stores entries indptr[i] to indptr[i + 1]."""
    indices: Tensor
    """(stored,) int32: the label of each stored entry, ascending within its row."""
    n: int
    """How many labels there are."""
    values: Tensor | None = None
    """(stored,) float32 in (0, 1], NaN where unknown; None when every stored entry is on."""
    weights: Tensor | None = None
    """(rows,) or (rows, n) float64: what each row, or each entry, counts; None: all alike. They go
    wherever rows go; see `labelset.data.weighted`."""

    # ---- constructors -------------------------------------------------------------------------

    @classmethod
    def of(cls, y: Any) -> Labels:
        """A `Labels` as it is, or whatever `from_dense` takes."""
        return y if isinstance(y, Labels) else cls.from_dense(y)

    @classmethod
    def from_dense(cls, y: Any, unknown: int | None = None) -> Labels:
        """From a (rows, labels) tensor or array: bool, 0 / 1, or floats in [0, 1].

        NaN is unknown, and so is the integer given as `unknown`.

        >>> Labels.from_dense([[1, 0, -1]], unknown=-1).dense()
        tensor([[1., 0., nan]])
        """
        if isinstance(y, Labels):
            return y
        t = csr.as_tensor(y)
        if t.ndim != 2:
            raise ValueError(f"labels must be 2-D (rows, labels), got shape {tuple(t.shape)}")
        csr.fits(t.shape[1])
        if unknown is None and not t.is_floating_point():
            return cls(*csr.of_bits(t))
        t = t if t.is_floating_point() else t.long()  # so that `unknown` is compared as it is
        missing = t.isnan()
        if unknown is not None:
            missing = missing | (t == check.whole("unknown", unknown, low=-(2**63)))
        check.unit_interval(torch.where(missing, torch.zeros_like(t), t))
        soft = t.to(torch.float32).masked_fill(missing, torch.nan)
        rows, columns = (soft != 0).nonzero(as_tuple=True)
        stored = csr.plain(soft[rows, columns])
        return cls(csr.pointers(rows, len(t)), columns.to(torch.int32), t.shape[1], stored)

    @classmethod
    def from_lists(
        cls,
        rows: Iterable[Sequence[int]],
        n: int,
        unknown: Iterable[Sequence[int]] | None = None,
    ) -> Labels:
        """From one list of label numbers per row; `unknown` lists those not known to be on or off.

        >>> Labels.from_lists([[1], [0]], n=2, unknown=[[0], []]).dense()
        tensor([[nan, 1.],
                [1., 0.]])
        """
        on = csr.ragged("rows", rows)
        free = None if unknown is None else csr.ragged("unknown", unknown)
        return cls.from_csr(*on, n=n, unknown=free)

    @classmethod
    def from_csr(
        cls,
        indptr: Any,
        indices: Any,
        n: int,
        values: Any = None,
        unknown: tuple[Any, Any] | None = None,
    ) -> Labels:
        """From compressed sparse rows; `unknown` is an (indptr, indices) pair of its own.

        >>> Labels.from_csr([0, 2, 3], [0, 2, 1], n=3).counts()
        tensor([2, 1])
        """
        n = csr.fits(check.whole("n", n))
        rows, columns = csr.entries("indptr", "indices", indptr, indices, n)
        stored = None
        if values is not None:
            stored = csr.as_tensor(values).to(torch.float32)
            if stored.shape != columns.shape:
                raise ValueError(
                    f"values must be one per index, {len(columns)}, got {tuple(stored.shape)}"
                )
            csr.within(stored, rows, columns)
        count = len(csr.as_tensor(indptr)) - 1
        if unknown is not None:
            free_rows, free = csr.entries("unknown[0]", "unknown[1]", *unknown, n)
            if len(csr.as_tensor(unknown[0])) - 1 != count:
                raise ValueError("unknown must have as many rows as the labels that are on")
            ones = torch.ones(len(columns), device=columns.device) if stored is None else stored
            stored = torch.cat([ones, torch.full((len(free),), torch.nan, device=ones.device)])
            rows, columns = torch.cat([rows, free_rows]), torch.cat([columns, free])
        return cls(*csr.assemble(rows, columns, stored, count, n))

    @classmethod
    def from_scipy(cls, matrix: Any, unknown: Any = None) -> Labels:
        """From a scipy sparse matrix of 0 / 1 or values in [0, 1]; `unknown`: a second one."""
        rows = csr.from_sparse("matrix", matrix)
        free = None
        if unknown is not None:
            other = csr.from_sparse("unknown", unknown)
            if other.shape != rows.shape:
                raise ValueError(f"unknown must have shape {rows.shape}, got {other.shape}")
            free = (other.indptr, other.indices)
        return cls.from_csr(rows.indptr, rows.indices, rows.shape[1], rows.data, free)

    @classmethod
    def stack(cls, parts: Sequence[Labels]) -> Labels:
        """The rows of several `Labels`, one below the other.

        >>> len(Labels.stack([Labels.from_lists([[0]], n=2), Labels.from_lists([[], [1]], n=2)]))
        3
        """
        if not parts or not all(isinstance(part, Labels) for part in parts):
            raise ValueError(
                f"stack needs one or more Labels, got {[type(p).__name__ for p in parts]}"
            )
        if len({part.n for part in parts}) > 1:
            raise ValueError(f"stack needs equal n, got {[part.n for part in parts]}")
        lengths = torch.cat([part.indptr.diff() for part in parts])
        soft = any(part.values is not None for part in parts)
        weights = [part.weights for part in parts if part.weights is not None]
        if 0 < len(weights) < len(parts):
            raise ValueError("stack needs weights of all Labels, or of none")
        return cls(
            csr.cumulate(lengths),
            torch.cat([part.indices for part in parts]),
            parts[0].n,
            torch.cat([part.filled() for part in parts]) if soft else None,
            torch.cat(weights) if weights else None,
        )

    # ---- what is in it ------------------------------------------------------------------------

    def __repr__(self) -> str:
        unknown = 0 if self.values is None else int(self.values.isnan().sum())
        on = len(self.indices) - unknown
        return f"Labels({len(self)} rows, {self.n} labels, {on} on, {unknown} unknown)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Labels):
            return NotImplemented
        return (
            self.n == other.n
            and torch.equal(self.indptr, other.indptr)
            and torch.equal(self.indices, other.indices)
            and torch.equal(self.filled().nan_to_num(-1.0), other.filled().nan_to_num(-1.0))
            and (self.weights is None) == (other.weights is None)
            and (self.weights is None or torch.equal(self.weights, other.weights))  # type: ignore[arg-type]
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.n

    def counts(self) -> Tensor:
        """How many labels are on in each row (soft: above 0; unknown ones do not count)."""
        if self.values is None:
            return self.indptr.diff()
        on = (~self.values.isnan()).to(torch.int64)
        return torch.zeros(len(self), dtype=torch.int64, device=self.device).index_add(
            0, self.rows(), on
        )

    def known(self) -> Tensor | None:
        """(rows, n) bool: which entries are known; None when all are."""
        if self.values is None:
            return None
        free = self.values.isnan()
        if check.can_look(free) and not bool(free.any()):
            return None
        mask = torch.ones(self.shape, dtype=torch.bool, device=self.device)
        return mask.index_put((self.rows(), self.indices.long()), ~free)

    def dense(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """(rows, n) tensor, unknown entries NaN. An integer or bool dtype cannot hold unknowns."""
        stored = self.filled()
        if not dtype.is_floating_point and not bool((stored == 1).all()):
            raise TypeError(
                f"{dtype} cannot hold soft or unknown labels; use a floating-point dtype"
            )
        out = torch.zeros(self.shape, dtype=dtype, device=self.device)
        return out.index_put((self.rows(), self.indices.long()), stored.to(dtype))

    # ---- other views --------------------------------------------------------------------------

    def __getitem__(self, rows: Any) -> Labels:
        """The chosen rows: an int, a slice, a list or tensor of ints, or a bool mask."""
        chosen = csr.row_numbers(rows, len(self), self.device)
        indptr, indices, values = self._chosen(chosen)
        weights = None if self.weights is None else self.weights[chosen]
        return Labels(indptr, indices, self.n, values, weights)

    @property
    def entry_weights(self) -> Tensor | None:
        """(rows, n) what the entries count, those of a row alike where rows have weights."""
        w = self.weights
        return w[:, None].expand(self.shape) if w is not None and w.ndim == 1 else w

    @property
    def row_weights(self) -> Tensor | None:
        """(rows,) what the rows count; None where they count alike, or entries have weights."""
        return self.weights if self.weights is not None and self.weights.ndim == 1 else None

    def transpose(self) -> Labels:
        """Labels as rows: entry (j, i) is this one's (i, j)."""
        order = torch.argsort(self.indices, stable=True)
        values = None if self.values is None else self.values[order]
        return Labels(
            csr.pointers(self.indices[order].long(), self.n),
            self.rows()[order].to(torch.int32),
            len(self),
            values,
        )

    @property
    def T(self) -> Labels:
        return self.transpose()

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Labels:
        """On another device."""
        return self._changed(lambda t: t.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Labels:
        """In page-locked memory, so that a DataLoader's copies to a GPU overlap with work."""
        return self._changed(Tensor.pin_memory)

    def _changed(self, change: Callable[[Tensor], Tensor]) -> Labels:
        indptr, indices, values = self._each(change)
        weights = None if self.weights is None else change(self.weights)
        return Labels(indptr, indices, self.n, values, weights)
