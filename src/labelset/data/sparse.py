"""Sparse features: compressed sparse rows that stay sparse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from labelset import check, csr


@dataclass(frozen=True, eq=False, repr=False)
class SparseRows(csr.CSR):
    """A (rows, width) matrix of which only what is not 0 is kept.

    >>> x = SparseRows.from_csr([0, 2, 3], [0, 2, 1], width=3, values=[1.0, 5.0, 2.0])
    >>> x
    SparseRows(2 rows, 3 columns, 3 stored)
    >>> x[[1]].dense()
    tensor([[0., 2., 0.]])
    >>> x @ torch.ones(3, 1)
    tensor([[6.], [2.]])
    """

    indptr: Tensor
    """(rows + 1,) int64: row i stores entries indptr[i] to indptr[i + 1]."""
    indices: Tensor
    """(stored,) int32: the column of each stored entry, ascending within its row."""
    width: int
    """How many columns there are."""
    values: Tensor | None = None
    """(stored,) float32, NaN where missing; None when every stored entry is 1."""

    @classmethod
    def from_csr(
        cls, indptr: Any, indices: Any, width: int, values: Any = None, *, first: int = 0
    ) -> SparseRows:
        """From compressed sparse rows in any order; numbers are finite, or NaN for missing.

        `first`: what to call the first row in an error.
        """
        width = csr.fits(check.whole("width", width))
        place = "feature", first
        rows, columns = csr.entries("indptr", "indices", indptr, indices, width, *place)
        stored = None
        if values is not None:
            stored = csr.as_tensor(values).to(torch.float32)
            if stored.shape != columns.shape:
                raise ValueError(f"has {stored.numel()} values for {len(columns)} stored entries")
            if bool(stored.isinf().any()):
                i = int(stored.isinf().nonzero()[0])
                raise ValueError(
                    f"features must be finite in float32 (NaN: missing), got {float(stored[i]):g} "
                    f"at row {first + int(rows[i])}, feature {int(columns[i])}"
                )
        count = len(csr.as_tensor(indptr)) - 1
        return cls(*csr.assemble(rows, columns, stored, count, width, *place))

    @classmethod
    def from_scipy(cls, matrix: Any) -> SparseRows:
        """From a scipy sparse matrix."""
        rows = csr.from_sparse("features", matrix)
        return cls.from_csr(rows.indptr, rows.indices, rows.shape[1], rows.data)

    def to_scipy(self) -> Any:
        """A scipy matrix with the same arrays."""
        from scipy.sparse import csr_matrix

        arrays = self.filled().cpu().numpy(), self.indices.cpu().numpy(), self.indptr.cpu().numpy()
        return csr_matrix(arrays, shape=self.shape)

    @classmethod
    def stack(cls, parts: Sequence[SparseRows]) -> SparseRows:
        """The rows of several, one below the other."""
        ones = any(part.values is not None for part in parts)
        return cls(
            csr.cumulate(torch.cat([part.indptr.diff() for part in parts])),
            torch.cat([part.indices for part in parts]),
            parts[0].width,
            torch.cat([part.filled() for part in parts]) if ones else None,
        )

    def __repr__(self) -> str:
        return f"SparseRows({len(self)} rows, {self.width} columns, {len(self.indices)} stored)"

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.width

    def __getitem__(self, rows: Any) -> SparseRows:
        """The chosen rows: an int, a slice, a list or tensor of ints, or a bool mask."""
        indptr, indices, values = self._chosen(rows)
        return SparseRows(indptr, indices, self.width, values)

    def __matmul__(self, weight: Tensor) -> Tensor:
        """(rows, width) @ (width, k) -> (rows, k), with a gradient for `weight`."""
        if weight.ndim != 2 or weight.shape[0] != self.width:
            raise ValueError(
                f"cannot multiply {self!r} by a matrix of shape {tuple(weight.shape)}; "
                f"it needs {self.width} rows"
            )
        if not len(self.indices):  # the product of nothing still belongs to the graph
            return weight.new_zeros(len(self), weight.shape[1]) + 0 * weight[:0].sum()
        each = self.filled().to(weight.dtype)
        return functional.embedding_bag(
            self.indices.long(), weight, self.indptr[:-1], mode="sum", per_sample_weights=each
        )

    def dense(self) -> Tensor:
        """(rows, width) float32."""
        out = torch.zeros(self.shape, device=self.device)
        return out.index_put((self.rows(), self.indices.long()), self.filled())

    def to(self, device: torch.device | str, non_blocking: bool = False) -> SparseRows:
        """On another device."""
        indptr, indices, values = self._each(lambda t: t.to(device, non_blocking=non_blocking))
        return SparseRows(indptr, indices, self.width, values)
