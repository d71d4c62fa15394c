"""The training loop."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from labelset import check, encode
from labelset.data import Dataset
from labelset.train._checkpoint import Checkpoint
from labelset.train._progress import Callback, Progress
from labelset.train._settings import Settings
from labelset.train._state import Training
from labelset.train._task import PARTS, Task
from labelset.train._trained import Trained

__all__ = ["train"]

PAUSE = 0.1
"""Seconds between two pieces of news within an epoch."""


def train(
    dataset: Dataset,
    settings: Settings | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    progress: Callback | None = None,
    encoder: Any = None,
    cache: str | Path | None = None,
    save_seconds: float = 2.0,
    parts: Sequence[str] = PARTS,
) -> Trained:
    """Train an encoder (an `Encoder`, its name, a module, or what suits the data) and a head.

    The data set has train rows and, for choosing the best epoch, valid ones. With a `folder` there
    is a checkpoint after each epoch, though not more often than every `save_seconds`; `resume` goes
    on from it, and the result is the same as if nothing had happened. An interrupt (Ctrl-C) ends
    training with the best epoch so far. `cache`: a folder for features that are costly to compute.
    `parts`: those whose scores are wanted.

    >>> import torch
    >>> x = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
    >>> data = Dataset.from_arrays(x, x[:, :3] > 0.5, split=[0] * 120 + [1] * 40 + [2] * 40)
    >>> done = train(data, Settings(loss="asl", epochs=10, lr=0.1))
    >>> done.scores["test"].shape, done.history[done.best_epoch]["valid"] > 0.9
    (torch.Size([40, 3]), True)
    """
    settings = Settings() if settings is None else settings
    parts = [check.one_of("part", part, PARTS) for part in parts]
    file = _checkpoint(dataset, settings, encoder, folder, save_seconds)
    task = Task.of(dataset, settings, encoder, cache)
    run = Training(task, task.resolved(settings))
    state = None if file is None else file.begin(resume)
    if state is not None:
        run.restore(state)
    news = _News(run, progress)
    try:
        while (stopped := run.stop()) is None:
            run.epoch(news.step)
            if file is not None:
                file.save(run.state(), now=run.stop() is not None)
            news.epoch()
    except KeyboardInterrupt:
        stopped = "interrupted"
    return _finished(run, stopped, parts)


def _checkpoint(
    dataset: Dataset, settings: Settings, encoder: Any, folder: str | Path | None, every: float
) -> Checkpoint | None:
    if folder is None:
        return None
    about = {
        "settings": settings.as_json(),
        "data": dataset.fingerprint(),
        "encoder": encode.as_encoder(encoder, dataset).as_json(),
    }
    return Checkpoint(folder, about, every)


def _finished(run: Training, stopped: str, parts: Sequence[str]) -> Trained:
    """The best epoch's weights in place, and what they say of all rows."""
    if run.best is None or run.best_epoch is None:
        run.best, run.best_epoch = run.weights(), max(len(run.history) - 1, 0)
        monitor = None
    else:
        monitor = run.settings.monitor
    run.model.load_state_dict(run.best)
    scores = {part: run.scores(part, run.model.state_dict()) for part in parts}
    run.model.eval().to("cpu")
    for p in run.model.parameters():
        p.data = p.data.contiguous()
    return Trained(
        head=run.model.head,
        encoder=run.task.encoder,
        settings=run.settings,
        history=run.history,
        best_epoch=run.best_epoch,
        monitor=monitor,
        stopped=stopped,
        scores=scores,
    )


class _News:
    """Tells the caller how training goes, if there is one who wants to know."""

    def __init__(self, run: Training, callback: Callback | None) -> None:
        self.run, self.callback = run, callback
        self.began = self.last = time.perf_counter()
        self.before, self.earlier = len(run.history), run.seconds

    def step(self, steps: int, loss: Tensor) -> None:
        """After each step; most of them are no news."""
        now = time.perf_counter()
        if self.callback is not None and now - self.last >= PAUSE and steps < self.run.steps:
            self._tell(len(self.run.history), steps / self.run.steps, float(loss))

    def epoch(self) -> None:
        """After each epoch."""
        if self.callback is not None:
            self._tell(len(self.run.history) - 1, 1.0, self.run.history[-1]["loss"])

    def _tell(self, epoch: int, share: float, loss: float) -> None:
        assert self.callback is not None
        run, self.last = self.run, time.perf_counter()
        spent, epochs = self.last - self.began, run.settings.epochs
        pace = spent / max(epoch + share - self.before, 1e-9)
        left = pace * (epochs - epoch - share)
        if run.settings.seconds is not None:
            left = min(left, max(run.settings.seconds - self.earlier - spent, 0.0))
        self.callback(
            Progress(
                epoch=epoch,
                epochs=epochs,
                done=(epoch + share) / epochs,
                loss=loss,
                monitor=None if run.monitor is None else run.settings.monitor,
                value=run.history[-1]["valid"] if run.history else None,
                best=run.best_value,
                best_epoch=run.best_epoch,
                seconds=self.earlier + spent,
                left=left,
                epoch_over=share == 1.0,
            )
        )
