"""Encoder: rows of a data set to features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from labelset.data import Dataset, SparseRows, StoredRows, StoredSparse
from labelset.data._spool import MEMORY, spooled
from labelset.data._stored import blocks

__all__ = ["Encoder", "Inputs"]

Inputs = Tensor | SparseRows | StoredRows | StoredSparse
"""What training cuts its batches from: `inputs[rows]` are the chosen rows."""

BLOCK = 1024
"""Rows that go through a module together when nothing is trained."""
ENTRIES = 1 << 24
"""Numbers, where so many rows would hold more."""


@dataclass(kw_only=True, eq=False)
class Encoder(ABC):
    """Fields are settings; `fit` learns from training rows; calling it gives features.

    The work is in two steps. `prepare` is done once for all rows. `module`, where there is one, is
    applied to each batch of that, and is trained together with the head.
    """

    name: ClassVar[str]
    """What `build` calls it."""
    costly: ClassVar[bool] = False
    """Whether what `prepare` gives is worth a place on disk."""

    def __post_init__(self) -> None:
        self.learnt: dict[str, Tensor] = {}
        self.facts: dict[str, Any] = {}
        self.module: nn.Module | None = None

    @abstractmethod
    def fit(self, train: Dataset) -> Self:
        """Learn what is to be learnt from training rows; it goes to `learnt` and `facts`."""

    @abstractmethod
    def prepare(self, dataset: Dataset) -> Inputs:
        """(rows, ...): what the module takes, or the features where there is none."""

    def prepared(self, dataset: Dataset) -> Inputs:
        """The same; of rows that lie on disk, block by block, and to disk."""
        if not dataset.on_disk:
            return self.prepare(dataset)
        held: Inputs = spooled((self.prepare(part) for part in dataset.blocks()), 0)
        return held

    def make(self) -> nn.Module | None:
        """The module as `facts` describe it, its numbers being random; None where there is none."""
        return None

    @property
    def fitted(self) -> bool:
        """Whether `fit` was called."""
        return bool(self.facts)

    def __call__(self, dataset: Dataset) -> Inputs:
        """(rows, width) features, by what was learnt."""
        inputs = self.prepared(dataset)
        if self.module is None:
            return inputs
        module, training = self.module, self.module.training
        module.eval()
        with torch.no_grad():
            parts = blocks(inputs, ENTRIES, BLOCK) if len(inputs) else [inputs[:0]]
            features: Inputs = spooled((module(part) for part in parts), MEMORY)
        module.train(training)
        return features

    def fact(self, key: str) -> Any:
        """Something learnt that is no tensor; an error before `fit`."""
        if key not in self.facts:
            raise RuntimeError(f"the encoder {self.name!r} must be fitted first: call fit(dataset)")
        return self.facts[key]

    # ---- in files -------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """The fields, as given."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def as_json(self) -> dict[str, Any]:
        """All but the tensors, for `labelset.encode.from_json`."""
        return {"name": self.name, "settings": self.settings(), "facts": self.facts}

    def state(self) -> dict[str, Tensor]:
        """The tensors: those learnt by `fit`, and those of the module."""
        inner = {} if self.module is None else self.module.state_dict()
        return self.learnt | {f"module.{name}": t.detach() for name, t in inner.items()}

    def restore(self, facts: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        """Be what wrote these facts and tensors."""
        self.facts = dict(facts)
        inner = {name: t for name, t in state.items() if name.startswith("module.")}
        self.learnt = {name: t for name, t in state.items() if name not in inner}
        self.module = self.make()
        if self.module is not None:
            self.module.load_state_dict({k.removeprefix("module."): t for k, t in inner.items()})
        return self
