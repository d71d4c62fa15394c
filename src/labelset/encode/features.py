"""Features as they are, scaled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from labelset import csr
from labelset.data import Dataset, SparseRows, StoredSparse
from labelset.data.store import blocks
from labelset.encode._base import Encoder, Inputs, check_state, moments, standardised


@dataclass(kw_only=True, eq=False)
class Features(Encoder):
    """Numbers that are given: dense ones are standardised, sparse ones stay sparse.

        dense   (x - mean) / deviation, 0 where missing
        sparse  x / the largest |x| of the column, 0 where missing

    All by training rows; a column that never changes is only centred.

    >>> data = Dataset.from_arrays([[1.0, 5.0], [3.0, 5.0]], [[1], [0]])
    >>> Features().fit(data)(data)
    tensor([[-1.,  0.],
            [ 1.,  0.]])
    """

    name = "features"

    def fit(self, train: Dataset) -> Self:
        x = _given(train)
        self.learnt = {"largest": _largest(x)} if train.sparse else moments(x)
        self.facts = {"width": x.shape[1], "sparse": train.sparse}
        return self

    def restore(self, facts: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        """Be what wrote these; ValueError where they do not fit together."""
        names = ("largest",) if facts.get("sparse") else ("mean", "deviation")
        check_state("features", state, dict.fromkeys(names, (facts.get("width", -1),)))
        return super().restore(facts, state)

    def feature_names(self, width: int, columns: Sequence[str] | None) -> list[str]:
        """Those of the columns, or their numbers."""
        if columns is not None and len(columns) == width:
            return [*columns]
        return [f"feature {number}" for number in range(width)]

    def prepare(self, dataset: Dataset) -> Inputs:
        width, sparse, x = self.fact("width"), self.fact("sparse"), _given(dataset)
        if x.shape[1] != width:
            raise ValueError(f"the model was trained on {width} features, got {x.shape[1]} a row")
        if isinstance(x, SparseRows) and not sparse:
            x = x.dense()
        elif sparse and not isinstance(x, SparseRows):
            rows, columns = (x != 0).nonzero(as_tuple=True)
            starts = csr.pointers(rows, len(x))
            x = SparseRows.from_csr(starts, columns, width, x[rows, columns])
        if isinstance(x, SparseRows):
            return _scaled(x, self.learnt["largest"])
        return standardised(x, self.learnt["mean"], self.learnt["deviation"])


def _given(dataset: Dataset) -> Any:
    if dataset.features is None:
        raise ValueError(
            "the data set has no features; choose an encoder for its texts or images, such as "
            "labelset.encode.build(labelset.encode.default_for(dataset))"
        )
    return dataset.features


def _largest(x: SparseRows | StoredSparse) -> Tensor:
    """The largest |x| of each column; 1 where it is never known."""
    top = torch.zeros(x.width)
    for part in blocks(x):
        values = part.filled().abs().nan_to_num(0.0)
        top.scatter_reduce_(0, part.indices.long(), values, "amax")
    return torch.where(top > 0, top, 1.0)


def _scaled(x: SparseRows, largest: Tensor) -> SparseRows:
    if x.values is None and bool((largest == 1).all()):
        return x
    return replace(x, values=(x.filled() / largest[x.indices.long()]).nan_to_num(0.0))
