"""A table with texts and numbers: TF-IDF beside scaled features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from labelset import csr
from labelset.data import Dataset, SparseRows
from labelset.encode._base import Inputs, check_state
from labelset.encode.features import Features
from labelset.encode.tfidf import TFIDF

NUMBERS = "numbers."
"""What the names of the features' tensors begin with."""


@dataclass(kw_only=True, eq=False)
class Table(TFIDF):
    """Texts as `tfidf` gives them and numbers as `features` gives them, side by side.

        x = (texts, s numbers),  s = sqrt(max(1, svd) / mean |numbers|^2)

    The mean is over training rows, so that the numbers together weigh as much as the words do, or
    the characters, each of which have length 1; with `svd` > 0 as much as the texts. The features
    are sparse, and with `svd` dense.

    >>> numbers, texts = [[1.0, 5.0], [3.0, 5.0]], ["red", "blue"]
    >>> data = Dataset.from_arrays(numbers, [[1], [0]], texts=texts)
    >>> Table(characters=0).fit(data)(data).dense()
    tensor([[ 0.,  1., -1.,  0.],
            [ 1.,  0.,  1.,  0.]])
    """

    name = "table"
    reads = ("features", "texts")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._numbers = Features()

    def fit(self, train: Dataset) -> Self:
        super().fit(train)
        self._numbers = Features().fit(train)
        rows = (self._numbers.prepare(block) for block in train.blocks())
        squares = sum(float(_sparse(x).filled().double().square().sum()) for x in rows)
        length = (squares / len(train)) ** 0.5
        scale = max(1, self.svd) ** 0.5 / length if length else 1.0
        self.learnt |= {f"{NUMBERS}{name}": t for name, t in self._numbers.learnt.items()}
        self.learnt["scale"] = torch.tensor([scale])
        self.facts |= {"numbers": self._numbers.facts}
        return self

    def prepare(self, dataset: Dataset) -> Inputs:
        texts, numbers = super().prepare(dataset), _sparse(self._numbers.prepare(dataset))
        numbers = replace(numbers, values=self.learnt["scale"] * numbers.filled())
        if isinstance(texts, SparseRows):
            return _beside(texts, numbers)
        assert isinstance(texts, Tensor)  # after a decomposition
        return torch.cat([texts, numbers.dense()], dim=1)

    def feature_names(self, width: int, columns: Sequence[str] | None) -> list[str]:
        """Those of the texts, then those of the numbers."""
        texts = super().feature_names(width, None)
        return texts + self._numbers.feature_names(width - len(texts), columns)

    def restore(self, facts: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        """Be what wrote these; ValueError where they do not fit together."""
        numbers = {name: t for name, t in state.items() if name.startswith(NUMBERS)}
        own = {name: state[name] for name in ("scale",) if name in state}
        check_state("table", own, {"scale": (1,)})
        super().restore(facts, {k: t for k, t in state.items() if k not in numbers | own})
        self._numbers = Features().restore(
            facts.get("numbers", {}), {k.removeprefix(NUMBERS): t for k, t in numbers.items()}
        )
        self.learnt |= numbers | own
        return self


def _sparse(x: Inputs) -> SparseRows:
    """The same numbers without those that are 0."""
    if isinstance(x, SparseRows):
        return x
    assert isinstance(x, Tensor)
    rows, columns = (x != 0).nonzero(as_tuple=True)
    return SparseRows.from_csr(csr.pointers(rows, len(x)), columns, x.shape[1], x[rows, columns])


def _beside(left: SparseRows, right: SparseRows) -> SparseRows:
    """The columns of both.

    >>> one, other = (SparseRows.from_csr([0, 1, 1], [0], 1, [x]) for x in (0.5, 2.0))
    >>> _beside(one, other).dense()
    tensor([[0.5000, 2.0000],
            [0.0000, 0.0000]])
    """
    starts = left.indptr + right.indptr
    first = torch.repeat_interleave(right.indptr[:-1], left.indptr.diff())
    second = torch.repeat_interleave(left.indptr[1:], right.indptr.diff())
    first, second = (at + torch.arange(len(at)) for at in (first, second))
    indices, values = torch.empty(int(starts[-1]), dtype=torch.int32), torch.empty(int(starts[-1]))
    indices[first], indices[second] = left.indices, right.indices + left.width
    values[first], values[second] = left.filled(), right.filled()
    return SparseRows(starts, indices, left.width + right.width, values)
