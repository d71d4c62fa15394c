"""Compressed sparse rows: the checks and small steps that `Labels` is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import check


def as_tensor(y: Any) -> Tensor:
    """A real tensor from a tensor, array or nested list."""
    try:
        t = y if isinstance(y, Tensor) else _from_array(np.asarray(y))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"labels must be a tensor, an array or Labels, got {type(y).__name__} ({error}); a "
            "scipy matrix goes through Labels.from_scipy"
        ) from None
    if t.dtype in (torch.uint16, torch.uint32, torch.uint64):
        t = t.long()
    if t.layout != torch.strided:
        raise TypeError(f"labels must be dense, got layout {t.layout}; use Labels.from_csr")
    if t.is_complex():
        raise TypeError(f"labels must be bool, whole or floating-point numbers, got {t.dtype}")
    if t.is_meta:
        raise ValueError("labels are on the meta device and hold no values")
    return t


def _from_array(array: np.ndarray[Any, Any]) -> Tensor:
    """Torch shares memory only with writable arrays and knows few unsigned types."""
    if array.dtype.kind == "u":
        array = array.astype(np.int64)
    return torch.as_tensor(np.require(array, requirements=["C", "W"]))


def fits(n: int) -> int:
    """Label numbers are kept in 32 bits."""
    if n >= 2**31:
        raise ValueError(f"n must be below 2**31, got {n}")
    return n


def within(stored: Tensor, rows: Tensor, columns: Tensor) -> None:
    """Every stored value is NaN or in [0, 1]; the first bad one is named by row and label."""
    bad = ~(((stored >= 0) & (stored <= 1)) | stored.isnan())
    if bool(bad.any()):
        i = int(bad.nonzero()[0])
        raise ValueError(
            f"labels must lie in [0, 1] (NaN: unknown), got {float(stored[i]):g} at row "
            f"{int(rows[i])}, label {int(columns[i])}"
        )


def of_bits(t: Tensor) -> tuple[Tensor, Tensor, int]:
    """Pointers, indices and width of a matrix of whole numbers 0 and 1, or of bools."""
    on = t if t.dtype == torch.bool else t == 1
    rows, columns = on.nonzero(as_tuple=True)
    if on is not t and int(t.count_nonzero()) != len(rows):
        check.unit_interval(t)  # which says where it is not
    return pointers(rows, len(t)), columns.to(torch.int32), t.shape[1]


def pointers(rows: Tensor, count: int) -> Tensor:
    """Where each of `count` rows starts, from the row of each entry."""
    return cumulate(torch.bincount(rows, minlength=count))


def cumulate(lengths: Tensor) -> Tensor:
    """Where each row starts, from the lengths of the rows."""
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])


def row_numbers(rows: Any, count: int, device: torch.device | None = None) -> Tensor:
    """(chosen,) int64: of `count` rows those chosen by an int, slice, list, tensor or mask."""
    if isinstance(rows, (list, np.ndarray)):
        array = np.asarray(rows)
        rows = torch.as_tensor(array if array.size else array.astype(np.int64))
    elif rows is None or rows is ... or isinstance(rows, (bool, tuple, float)):
        raise TypeError(f"rows must be chosen by number, slice, list or mask, got {rows!r}")
    if isinstance(rows, Tensor):
        if rows.dtype.is_floating_point or rows.dtype.is_complex or rows.ndim > 1:
            raise TypeError(
                f"rows must be chosen by whole numbers or a bool mask, got {rows.dtype} of shape "
                f"{tuple(rows.shape)}"
            )
        rows = rows.to(device)
        if rows.dtype in (torch.int64, torch.int32) and rows.ndim and rows.device.type == "cpu":
            return _in_range(rows.long(), count)  # in the time of the chosen rows, not of all
    try:
        return torch.arange(count, device=device)[rows].reshape(-1)
    except (IndexError, TypeError) as error:
        raise IndexError(f"cannot choose rows among {count}: {error}") from None


def _in_range(rows: Tensor, count: int) -> Tensor:
    if not len(rows):
        return rows.clone()
    low, high = (int(t) for t in rows.aminmax())
    if low < -count or high >= count:
        wrong = high if high >= count else low
        raise IndexError(f"cannot choose rows among {count}: there is no row {wrong}")
    return torch.where(rows < 0, rows + count, rows)  # never the caller's own memory


def cut(indptr: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Pointers of the chosen rows, and which stored entries are theirs."""
    begin = indptr[chosen]
    lengths = indptr[chosen + 1] - begin
    new = cumulate(lengths)
    shift = torch.repeat_interleave(begin - new[:-1], lengths)
    return new, torch.arange(len(shift), device=indptr.device) + shift


def plain(stored: Tensor) -> Tensor | None:
    """No values are kept when every stored entry is simply on."""
    return None if bool((stored == 1).all()) else stored


def ragged(name: str, rows: Iterable[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Where each row starts, and all entries, from a list of whole numbers per row."""
    try:
        lists = [np.asarray(row).tolist() for row in rows]
    except (TypeError, ValueError):
        lists = [None]
    if not all(isinstance(row, list) for row in lists):
        raise TypeError(f"{name} must be one list of label numbers per row, such as [[0, 2], []]")
    flat = [label for row in lists for label in row]
    for label in flat:
        if isinstance(label, bool) or not isinstance(label, (int, np.integer)):
            raise TypeError(f"{name} must list label numbers, got {type(label).__name__} {label!r}")
    lengths = torch.tensor([len(row) for row in lists], dtype=torch.int64)
    return cumulate(lengths), torch.tensor([int(i) for i in flat], dtype=torch.int64)


def entries(
    pointer_name: str,
    index_name: str,
    indptr: Any,
    indices: Any,
    n: int,
    what: str = "label",
    first: int = 0,
) -> tuple[Tensor, Tensor]:
    """Checked (row, label) pairs of a compressed sparse matrix; `what` a column is, and what to
    call the first row in an error."""
    starts, columns = as_tensor(indptr), as_tensor(indices)
    for name, t in ((pointer_name, starts), (index_name, columns)):
        if t.ndim != 1 or (t.numel() and (t.is_floating_point() or t.dtype == torch.bool)):
            raise TypeError(f"{name} must be 1-D whole numbers, got {t.dtype} {tuple(t.shape)}")
    starts, columns = starts.long(), columns.long()
    lengths = starts.diff()
    if len(starts) == 0 or starts[0] != 0 or starts[-1] != len(columns):
        raise ValueError(f"{pointer_name} must run from 0 to {len(columns)}, the stored entries")
    if bool((lengths < 0).any()):
        raise ValueError(f"{pointer_name} must never fall")
    rows = torch.repeat_interleave(torch.arange(len(lengths), device=columns.device), lengths)
    bad = (columns < 0) | (columns >= n)
    if bool(bad.any()):
        i = int(bad.nonzero()[0])
        raise ValueError(
            f"{what} numbers must lie in 0..{n - 1} (n={n}), got {int(columns[i])} "
            f"in row {first + int(rows[i])}"
        )
    return rows, columns


def assemble(
    rows: Tensor,
    columns: Tensor,
    stored: Tensor | None,
    count: int,
    n: int,
    what: str = "label",
    first: int = 0,
) -> tuple[Tensor, Tensor, int, Tensor | None]:
    """Entries in any order -> rows sorted by label, exact zeros dropped, duplicates refused."""
    if stored is not None:
        keep = stored != 0
        rows, columns, stored = rows[keep], columns[keep], stored[keep]
    place = rows * max(n, 1) + columns
    if bool((place.diff() <= 0).any()):  # most matrices come sorted
        place, order = place.sort()
        rows, columns = rows[order], columns[order]
        stored = None if stored is None else stored[order]
        twice = place.diff() == 0
        if bool(twice.any()):
            i = int(twice.nonzero()[0])
            once = "; list each label once, as on or as unknown" if what == "label" else ""
            raise ValueError(
                f"{what} {int(columns[i])} appears twice in row {first + int(rows[i])}{once}"
            )
    values = None if stored is None else plain(stored)
    return pointers(rows, count), columns.to(torch.int32), n, values


def from_sparse(name: str, matrix: Any) -> Any:
    """A scipy sparse matrix in canonical form."""
    if not hasattr(matrix, "tocsr"):
        raise TypeError(
            f"{name} must be a scipy sparse matrix, got {type(matrix).__name__}; "
            "from_dense takes arrays"
        )
    csr = matrix.tocsr().copy()
    csr.sum_duplicates()
    csr.eliminate_zeros()
    return csr


class CSR:
    """What matrices of compressed sparse rows share: which entries are stored, and their values."""

    indptr: Tensor
    indices: Tensor
    values: Tensor | None

    def __len__(self) -> int:
        return self.indptr.shape[0] - 1

    @property
    def device(self) -> torch.device:
        return self.indices.device

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        parts = (self.indptr, self.indices, self.values)
        return sum(t.numel() * t.element_size() for t in parts if t is not None)

    def filled(self) -> Tensor:
        """(stored,) float32: the value of each stored entry."""
        if self.values is not None:
            return self.values
        return torch.ones(self.indices.shape[0], device=self.device)

    def rows(self) -> Tensor:
        """The row of each stored entry."""
        index = torch.arange(len(self), device=self.device)
        return torch.repeat_interleave(index, self.indptr.diff(), output_size=self.indices.shape[0])

    def _chosen(self, rows: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """Pointers, indices and values of rows: an int, a slice, a list or tensor of ints, or a
        bool mask."""
        indptr, take = cut(self.indptr, row_numbers(rows, len(self), self.device))
        return indptr, self.indices[take], None if self.values is None else self.values[take]

    def _each(self, change: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor | None]:
        """Pointers, indices and values, changed."""
        values = None if self.values is None else change(self.values)
        return change(self.indptr), change(self.indices), values
