"""Pseudo-labels: the baseline for missing labels, in two stages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.data import Dataset
from labelset.labels import Labels
from labelset.train._state import linked
from labelset.train.network import Callback, Trained, train
from labelset.train.settings import Settings


@dataclass(frozen=True, eq=False)
class PseudoLabelled:
    """Both stages."""

    first: Trained
    second: Trained
    """The result."""
    added: int
    """Labels of training rows that were off and were turned on."""


def pseudo_label(
    dataset: Dataset,
    settings: Settings | None = None,
    threshold: float = 0.9,
    folder: str | Path | None = None,
    resume: bool = False,
    progress: Callback | None = None,
    encoder: Any = None,
    cache: str | Path | None = None,
    save_seconds: float | None = None,
    parallel: str = "auto",
) -> PseudoLabelled:
    """Train; turn on what is off in training rows and has a probability above `threshold`; train
    again from the start, with the same settings, on these labels.

    Probabilities are those of the loss's link, else sigmoids. Unknown labels stay unknown.
    """
    settings = Settings() if settings is None else settings
    stages = (None, None) if folder is None else (Path(folder) / "first", Path(folder) / "second")
    where: dict[str, Any] = {"encoder": encoder, "cache": cache, "parallel": parallel}
    where["save_seconds"] = save_seconds
    first = train(dataset, settings, stages[0], resume, progress, **where)
    if first.stopped == "interrupted":
        return PseudoLabelled(first, first, 0)
    p = linked(settings.build_loss(), first.scores["train"])
    labels, added = relabelled(dataset, p, threshold)
    again = replace(dataset, labels=labels)
    second = train(again, settings, stages[1], resume, progress, **where)
    return PseudoLabelled(first, second, added)


def relabelled(dataset: Dataset, p: Tensor, threshold: float) -> tuple[Labels, int]:
    """Labels with those training entries on that were off and have p > threshold; how many.

    >>> data = Dataset.from_arrays([[0.0], [0.0]], [[0, 1], [0, 0]], split=[0, 1])
    >>> labels, added = relabelled(data, torch.tensor([[0.95, 0.2]]), 0.9)
    >>> labels.dense().tolist(), added
    ([[1.0, 1.0], [0.0, 0.0]], 1)
    """
    check.number("threshold", threshold, low=0.0, high=1.0)
    dataset.sizes()  # says what to do where there is no split
    assert dataset.split is not None
    rows = (dataset.split == 0).nonzero().flatten()
    at, label = (p > threshold).nonzero(as_tuple=True)
    old = dataset.labels
    stored = old.rows() * old.n + old.indices
    place = rows[at] * old.n + label
    new = place[~torch.isin(place, stored)]
    values = torch.ones(len(stored)) if old.values is None else old.values
    every, order = torch.cat([stored, new]).sort()
    filled = torch.cat([values, torch.ones(len(new))])[order]
    counts = torch.bincount(every // max(old.n, 1), minlength=len(old))
    indptr = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
    return Labels.from_csr(indptr, every % max(old.n, 1), old.n, filled), len(new)
