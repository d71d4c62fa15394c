"""A module of one's own as an encoder."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from labelset.catalog import hyper
from labelset.data import Dataset
from labelset.encode._base import Encoder, Inputs
from labelset.encode.features import Features


@dataclass(kw_only=True, eq=False)
class Module(Encoder):
    """A module that takes pictures (float32, 0 to 1 where they were bytes) or scaled features.

    It is copied first, so that the one given stays as it is; no file can hold it.

    >>> data = Dataset.from_arrays([[1.0], [3.0]], [[1], [0]])
    >>> Module(given=nn.Linear(1, 5)).fit(data)(data).shape
    torch.Size([2, 5])
    """

    name = "module"

    given: nn.Module = hyper(doc="from (batch, ...) to (batch, features)")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._features = Features()

    @property
    def learns(self) -> bool:
        return True

    def fit(self, train: Dataset) -> Self:
        if train.images is None and train.features is None:
            raise ValueError("a module of one's own takes images or features; there are none")
        if train.images is None:
            self._features.fit(train)
        self.module = _Unit(copy.deepcopy(self.given))
        self.facts = {"of": type(self.given).__qualname__}
        return self

    def prepared(self, dataset: Dataset) -> Inputs:
        """Pictures stay where they are."""
        return super().prepared(dataset) if dataset.images is None else self.prepare(dataset)

    def prepare(self, dataset: Dataset) -> Inputs:
        self.fact("of")
        return self._features.prepare(dataset) if dataset.images is None else dataset.images

    def as_numbers(self, inputs: Tensor) -> Tensor:
        """Pictures of bytes become 0 to 1, as in the module."""
        return inputs.float() / 255 if inputs.dtype == torch.uint8 else inputs

    def feature_names(self, width: int, columns: Sequence[str] | None) -> list[str]:
        """Of the numbers that go into the module."""
        return self._features.feature_names(width, columns)

    def settings(self) -> dict[str, Any]:
        sizes = {name: list(t.shape) for name, t in self.given.state_dict().items()}
        return {"given": [type(self.given).__qualname__, sizes]}


class _Unit(nn.Module):
    """Bytes to [0, 1], as precise as the module's weights are; then the module."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, batch: Any) -> Any:
        if not isinstance(batch, Tensor) or batch.dtype != torch.uint8:
            return self.inner(batch)
        wide = any(p.dtype == torch.float64 for p in self.inner.parameters())
        return self.inner((batch.double() if wide else batch.float()) / 255)
