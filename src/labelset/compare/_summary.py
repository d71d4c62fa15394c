"""Candidates side by side: means over seeds, and paired intervals against the baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset._atomic import write_with
from labelset.artefact import Run
from labelset.compare._judge import views
from labelset.compare._resample import draws, resampled
from labelset.metrics import build

__all__ = ["Judged", "Row", "Standing", "judge", "over_seeds", "rows_of", "standings"]

TIMES = 200  # resamples behind an interval
CELLS = 2**31  # numbers that resampling may touch per view; fewer resamples beyond it


@dataclass(frozen=True)
class Row:
    """One line of results.csv."""

    loss: str
    head: str
    seed: int
    split: str
    stage: str
    metric: str
    value: float


@dataclass(frozen=True)
class Standing:
    """A candidate by one metric at one stage."""

    stage: str
    metric: str
    mean: float
    sd: float
    """Standard deviation over seeds; NaN with one seed."""
    delta: float
    """Difference to the baseline, paired over seeds and rows."""
    low: float
    """95% interval of that difference, rows and seeds drawn again."""
    high: float
    verdict: str
    """`better` and `worse` only where the interval excludes 0; else `no difference`."""

    def as_json(self) -> dict[str, Any]:
        """Plain data, None for what is not finite."""
        held = asdict(self).items()
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in held}


Key = tuple[str, str, str]
"""Split, stage and metric."""


@dataclass(frozen=True)
class Judged:
    """The figures of one trained model, and those of each resample of the rows."""

    values: dict[Key, float]
    drawn: dict[Key, Tensor]

    def save(self, path: Path) -> None:
        """Write an .npz file."""
        arrays = {f"drawn {'|'.join(key)}": t.numpy() for key, t in self.drawn.items()}
        arrays["keys"] = np.array(["|".join(key) for key in self.values])
        arrays["values"] = np.array(list(self.values.values()))
        write_with(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> Judged:
        """What `save` wrote."""
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            named = file["keys"].tolist()
            keys: list[Any] = [tuple(name.split("|")) for name in named]
            drawn = [torch.from_numpy(file[f"drawn {name}"]) for name in named]
            values = file["values"].tolist()
        return cls(dict(zip(keys, values, strict=True)), dict(zip(keys, drawn, strict=True)))


def judge(run: Run, seed: int = 0) -> Judged:
    """All figures of a model; equal seeds draw equal rows, so that models can be paired."""
    values: dict[Key, float] = {}
    drawn: dict[Key, Tensor] = {}
    for split in ("valid", "test"):
        labels = run.parts[split].labels
        cells = max(len(labels) * labels.n, 1)
        weights = draws(len(labels), max(min(TIMES, CELLS // cells), 50), seed)
        for view in views(run, split):
            key = (split, view.stage, view.metric)
            values[key] = view.value(labels)
            drawn[key] = resampled(build(view.metric), view.given, labels, weights)
    return Judged(values, drawn)


def rows_of(loss: str, head: str, seed: int, judged: Judged) -> list[Row]:
    """The lines of one trained model."""
    return [Row(loss, head, seed, *key, value) for key, value in judged.values.items()]


Resamples = Mapping[Key, tuple[Tensor, Tensor]]
"""Values of the seeds (S,), and of each resample (S, times)."""


def over_seeds(each: Sequence[Judged]) -> Resamples:
    """The figures of one candidate's seeds, together."""
    return {
        key: (
            torch.tensor([one.values[key] for one in each], dtype=torch.float64),
            torch.stack([one.drawn[key] for one in each]),
        )
        for key in each[0].values
    }


def standings(
    own: Resamples, base: Resamples, is_base: bool, split: str = "test", seed: int = 0
) -> list[Standing]:
    """A candidate against the baseline on the rows of a split, metric by metric."""
    return [
        _standing(*key[1:], own[key], base[key], is_base, seed) for key in own if key[0] == split
    ]


def _standing(
    stage: str,
    metric: str,
    own: tuple[Tensor, Tensor],
    base: tuple[Tensor, Tensor],
    is_base: bool,
    seed: int,
) -> Standing:
    values, mean = own[0], float(own[0].mean())
    sd = float(values.std()) if len(values) > 1 else math.nan
    if is_base:
        return Standing(stage, metric, mean, sd, 0.0, 0.0, 0.0, "baseline")
    pairs = min(len(values), len(base[0]))  # seeds that both have
    delta = float((values[:pairs] - base[0][:pairs]).mean())
    gaps = own[1][:pairs] - base[1][:pairs]
    again = draws(pairs, gaps.shape[1], seed + 1).T / pairs
    drawn = (gaps * again).sum(0)
    drawn = drawn[drawn.isfinite()]
    if not len(drawn):  # the metric is not defined, or infinite, on every resample
        return Standing(stage, metric, mean, sd, delta, math.nan, math.nan, "no difference")
    low, high = torch.quantile(drawn, torch.tensor([0.025, 0.975]).double()).tolist()
    return Standing(stage, metric, mean, sd, delta, low, high, _verdict(metric, low, high))


def _verdict(metric: str, low: float, high: float) -> str:
    if not (low > 0 or high < 0):
        return "no difference"
    return "better" if (low > 0) == build(metric).higher_is_better else "worse"
