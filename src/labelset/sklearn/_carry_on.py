"""Training that goes on from a head that has learnt something already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from labelset.data import Dataset
from labelset.encode import Encoder
from labelset.heads import Head
from labelset.train import Settings
from labelset.train._state import Training
from labelset.train._task import Task

__all__ = ["Learnt", "carry_on"]


@dataclass(frozen=True, eq=False)
class Learnt:
    """What training leaves."""

    head: Head
    encoder: Encoder
    settings: Settings
    history: list[dict[str, Any]]
    valid: Tensor
    """Scores of held-out rows."""
    optimiser: list[dict[str, Any]] | None = None
    """Its moments, so that the next rows go on from them."""


def carry_on(
    data: Dataset, settings: Settings, before: Learnt | None, history: Sequence[dict[str, Any]] = ()
) -> Learnt:
    """Epochs up to `settings.epochs`, those in `history` having been done, from the head `before`.

    What the data decided then (the scales of features, the shape of the head) stays.
    """
    if before is not None:
        _refuse_other_head(settings.head, before.head.name)
        shape = {k: v for k, v in before.head.settings.items() if k not in ("features", "labels")}
        settings = replace(settings, head_settings=shape)
    task = Task.of(data, settings, None if before is None else before.encoder, None)
    run = Training(task, task.resolved(settings))
    run.history = list(history)
    if before is not None:
        run.model.head.load_state_dict(before.head.state_dict())
        if history and before.optimiser is not None:
            run.optimiser.restore(before.optimiser)
    while run.stop() is None:
        run.epoch(lambda steps, loss: None)
    run.model.load_state_dict(run.best or run.weights())
    valid = run.scores("valid", run.model.state_dict())
    run.model.eval().to("cpu")
    left = (run.model.head, task.encoder, run.settings, run.history, valid)
    return Learnt(*left, optimiser=run.optimiser.state())


def _refuse_other_head(asked: str, there: str) -> None:
    if asked != there:
        raise ValueError(
            f"there is a head {there!r} to go on from, and head={asked!r} is asked for; set "
            "warm_start=False or clone the model to start anew"
        )
