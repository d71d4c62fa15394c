"""Training one candidate with one seed: by the loop's own epochs, on data that are ready."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from labelset.distributed import accumulate
from labelset.heads import Head
from labelset.labels import Labels
from labelset.losses import Loss
from labelset.train import Settings, Task, Training, linked, relabelled
from labelset_studies._candidate import Candidate
from labelset_studies._data import Ready
from labelset_studies._start import start

SURE = 0.9
"""Probability above which a first model's prediction becomes a label, as in `pseudo_label`."""


@dataclass(frozen=True, eq=False)
class Fit:
    """What training leaves: scores by part, the head, and the loss of every epoch."""

    scores: dict[str, Tensor]
    head: Head
    history: list[dict[str, Any]]


class InParts(Training):
    """A batch in micro batches: the whole batch's gradient, or the mean of their own."""

    micro: int = 0
    exact: bool = True

    def step(self, loss: Loss, rows: Tensor, rate: float) -> Tensor:
        some = rows.tensor_split(max(-(-len(rows) // self.micro), 1))
        batches = [self.task.batch(part, self.settings.device) for part in some]
        if self.exact:
            value = accumulate(self.net, batches, loss)
        else:
            value = torch.zeros((), device=self.settings.device)
            for part, (inputs, labels) in zip(some, batches, strict=True):
                own = loss(self.net(inputs), labels) * (len(part) / len(rows))
                own.backward()  # type: ignore[no-untyped-call]
                value += own.detach()
        self.optimiser.step(rate)
        return value


def fit(
    ready: Ready, labels: Labels, candidate: Candidate, seed: int, epochs: int, device: str
) -> Fit:
    """Train to the last epoch on these labels of all rows; scores of validation and test rows."""
    settings = _settings(ready.task, candidate, seed, epochs, device)
    if candidate.pseudo:
        run = _trained(ready.with_labels(labels, device), candidate, settings)
        p = linked(settings.build_loss(), run.scores("train", run.weights()))
        labels = relabelled(replace(ready.dataset, labels=labels), p, SURE)[0]
    run = _trained(ready.with_labels(labels, device), candidate, settings)
    scores = {part: run.scores(part, run.weights()) for part in ("valid", "test")}
    return Fit(scores, run.model.head.cpu(), run.history)


def _settings(task: Task, candidate: Candidate, seed: int, epochs: int, device: str) -> Settings:
    given = {"epochs": epochs, **candidate.training}
    times = float(given.pop("lr_times", 1.0))
    # kernels for a GPU are compiled for each loss and shape, longer than these trainings take
    loss = candidate.build_loss(impl="auto" if device == "cpu" else "eager")
    settings = Settings(
        **given,
        loss=loss,
        head=candidate.head,
        head_settings=candidate.head_settings,
        monitor=None,
        seed=seed,
        device=device,
    )
    settings = task.resolved(settings)
    return replace(settings, lr=(settings.lr or 0.0) * times)


def _trained(task: Task, candidate: Candidate, settings: Settings) -> Training:
    run = Training(task, settings) if candidate.micro is None else InParts(task, settings)
    if isinstance(run, InParts):
        assert candidate.micro is not None
        run.micro, run.exact = candidate.micro, candidate.exact
    start(run.model.head, run.loss, candidate.start)
    while run.stop() is None:
        run.epoch(lambda steps, loss: None)
    return run
