"""Pretrained networks that are on this machine already, and what they make of rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.data import Dataset
from labelset.data.store import spooled
from labelset.encode._base import Encoder, Inputs, moments, standardised
from labelset.files import optional


def model_folder(model: str, what: str) -> Path:
    """The folder with config.json; `model` names it, one above it, or a package that holds it."""
    if not model:
        raise ValueError(f"{what} needs `model`: a folder with config.json, or a package")
    path = Path(model)
    if not path.is_dir():
        spec = find_spec(model) if model.isidentifier() else None
        places = list(spec.submodule_search_locations or ()) if spec else []
        if not places:
            raise ValueError(f"{model}: neither a folder nor an installed package")
        path = Path(places[0])
    configs = sorted(path.rglob("config.json"), key=lambda file: len(file.parts))
    if not configs:
        raise ValueError(f"{path}: holds no config.json, so no {what.removeprefix('a ')}")
    return configs[0].parent


def network(folder: Path, what: str, *kinds: str) -> list[Any]:
    """Objects of these kinds of transformers, such as AutoModel; nothing is fetched."""
    package = optional("transformers", f"{what.removeprefix('a ')}s", extra="encode")
    try:
        return [
            getattr(package, kind).from_pretrained(str(folder), local_files_only=True)
            for kind in kinds
        ]
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{folder}: cannot be read as {what}: {reason}") from None


@dataclass(kw_only=True, eq=False)
class Pretrained(Encoder):
    """Subclasses say how rows go through the network; mean and deviation come from training."""

    costly = True

    model: str = hyper("", "a folder with config.json, or an installed package that holds one")
    batch: int = hyper(32, "rows at a time")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("batch", self.batch, low=1)

    @abstractmethod
    def _embedded(self, dataset: Dataset) -> Tensor:
        """(rows, width)."""

    def fit(self, train: Dataset) -> Self:
        if train.on_disk:
            embedded = spooled((self._embedded(part) for part in train.blocks()), 0)
        else:
            embedded = self._embedded(train)
        self.learnt = moments(embedded)
        self.facts = {"width": len(self.learnt["mean"])}
        return self

    def prepare(self, dataset: Dataset) -> Inputs:
        self.fact("width")
        x = self._embedded(dataset)
        return standardised(x, self.learnt["mean"], self.learnt["deviation"])
