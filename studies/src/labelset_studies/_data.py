"""Data sets by name: files of a folder, or those that are built in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from labelset.data import Dataset, SparseRows, drop_train_labels, ensure_split, load
from labelset.labels import Labels
from labelset.train import Settings, Task
from labelset_studies._texts import with_features

BUILT_IN = ("yeast", "digits")
"""What is studied where no folder is given."""


def available(names: list[str], folder: Path | None) -> tuple[list[str], list[str]]:
    """Those of the names that are there, and those that are not; built-in ones without a folder."""
    if folder is None:
        return list(BUILT_IN), []
    if not folder.is_dir():
        raise ValueError(f"--data must be a folder of data sets, got {folder}")
    there = [name for name in names if _file(folder, name) is not None]
    return there, [name for name in names if name not in there]


def open_named(name: str, folder: Path | None, kept: Path | None = None) -> Dataset:
    """A data set with features and train, valid and test rows.

    `NAME.npz`, or `NAME.jsonl.gz` with the features of `NAME.minilm.npz`; where those are not there
    TF-IDF of its texts, which is kept in the folder `kept`.
    """
    dataset = _with_parts(name, folder)
    if dataset.features is None and dataset.texts is not None:
        return with_features(name, dataset, kept)
    if dataset.features is None:
        raise ValueError(f"{name}: the study needs features, texts or pictures; it has none")
    return replace(dataset, texts=None)


def rows_tested(name: str, folder: Path | None) -> int:
    """How many test rows a data set has."""
    return _with_parts(name, folder).sizes()[2]


def only_texts(name: str, folder: Path | None) -> bool:
    """Whether features of its texts must be computed."""
    path = None if folder is None else _file(folder, name)
    if folder is None or path is None or path.suffix != ".gz":
        return False
    return not (folder / f"{name}.minilm.npz").is_file()


def with_missing(dataset: Dataset, ratio: float, seed: int) -> Dataset:
    """The papers' protocol on the training rows; other rows keep all labels."""
    return drop_train_labels(dataset, ratio, seed=seed) if ratio else dataset


def _file(folder: Path, name: str) -> Path | None:
    paths = (folder / f"{name}.npz", folder / f"{name}.jsonl.gz")
    return next((path for path in paths if path.is_file()), None)


def _read(name: str, folder: Path) -> Dataset:
    path, beside = _file(folder, name), folder / f"{name}.minilm.npz"
    if path is None:
        raise ValueError(f"{folder}: holds no data set {name!r}")
    if path.suffix == ".gz" and beside.is_file():
        return load(str(path), features=str(beside))
    return load(str(path))


def _with_parts(name: str, folder: Path | None) -> Dataset:
    dataset = load(name) if folder is None else _read(name, folder)
    if dataset.features is None and dataset.images is not None:
        images = dataset.images[:]
        dataset = replace(dataset, features=images.reshape(len(images), -1), images=None)
    return ensure_split(dataset, seed=0)


@dataclass(frozen=True)
class Resident(Task):
    """A task whose features and labels lie on a device: nothing but row numbers travels."""

    target: Tensor | None = None

    def batch(self, rows: Tensor, device: str, step: int = 1) -> tuple[Any, Any]:
        """Inputs and dense labels of the chosen rows."""
        assert self.target is not None
        at = rows.to(device, non_blocking=True)
        return self.inputs[at], self.target[at]


@dataclass(eq=False)
class Ready:
    """A data set with its inputs scaled once, by training rows, for all candidates and seeds."""

    dataset: Dataset
    task: Task
    moved: Tensor | None = None
    """The inputs on a device, once one has asked for them."""

    @classmethod
    def of(cls, dataset: Dataset) -> Ready:
        """Scale the inputs."""
        return cls(dataset, Task.of(dataset, Settings(monitor=None), None, None))

    @property
    def size(self) -> int:
        """Products in a pass over the training rows."""
        return len(self.task.rows["train"]) * self.task.width * self.task.labels.n

    def with_labels(self, labels: Labels, device: str) -> Task:
        """The task with these labels; where the device is another one, all of it over there."""
        if device == "cpu":
            return replace(self.task, labels=labels)
        if self.moved is None:
            inputs: Any = self.task.inputs
            dense = inputs.dense() if isinstance(inputs, SparseRows) else inputs[:]
            self.moved = dense.to(device)
        task = self.task
        return Resident(
            encoder=task.encoder,
            inputs=self.moved,
            labels=labels,
            rows=task.rows,
            width=task.width,
            target=labels.dense().to(device),
        )
