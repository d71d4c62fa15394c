"""What the parameters of a classifier come to: a loss, a map, a rule, and how to train."""

from __future__ import annotations

import math
from typing import Any

from labelset.calibrate import ProbMap
from labelset.calibrate._start import linked
from labelset.data import Dataset
from labelset.decide import Rule
from labelset.losses import Loss
from labelset.sklearn._named import built_map, built_rule
from labelset.sklearn._targets import Targets
from labelset.sklearn._weighted import RowWeighted, WeightedLabels
from labelset.train import Settings

__all__ = ["map_and_rule", "settings_of"]

STEPS, BATCH, LEAST, MOST = 150, 32, 20, 60
"""Few rows are gone through more often: about so many steps of so many rows, in so many epochs."""


def map_and_rule(model: Any, target: Targets) -> tuple[ProbMap, Rule]:
    """From scores to probabilities and on to label sets, neither of them fitted yet."""
    if target.kind == "multiclass" and model.decide is not None:
        raise ValueError(
            f"decide={model.decide!r} chooses label sets, but y has one of {len(target.classes)} "
            "classes per row, the most likely one; set decide=None"
        )
    loss, name = _loss(model), model.calibrate
    if name is None or (isinstance(name, str) and name == "auto"):
        name = "link" if name is None or linked(loss) else "platt"
    rule = "fixed" if model.decide is None else model.decide
    settings = model.calibrate_params or {}
    named = isinstance(name, str)
    probabilities = built_map(name, {"loss": loss} | settings if named else settings)
    if probabilities.loss is None:  # a map that was given, and cannot know
        probabilities.loss = loss
    return probabilities, built_rule(rule, model.decide_params)


def settings_of(model: Any, data: Dataset, seed: int, **changes: Any) -> Settings:
    """How to train on these rows."""
    loss = _loss(model)
    weighted = isinstance(data.labels, WeightedLabels)
    given: dict[str, Any] = {
        "loss": RowWeighted(of=loss) if weighted else loss,
        "head": model.head,
        "head_settings": model.head_params or {},
        "epochs": _epochs(data, model.batch_size) if model.max_iter is None else model.max_iter,
        "batch": model.batch_size,
        "lr": model.learning_rate,
        "weight_decay": model.weight_decay,
        "patience": model.patience,
        "monitor": model.monitor if model.patience else None,
        "seed": seed,
        "device": model.device,
    }
    return Settings(**(given | changes))


def _loss(model: Any) -> Loss:
    return Settings(loss=model.loss, loss_settings=model.loss_params or {}).build_loss()


def _epochs(data: Dataset, batch: int | None) -> int:
    steps = math.ceil(STEPS * (batch or BATCH) / max(data.sizes()[0], 1))
    return max(LEAST, min(MOST, steps))
