"""The training loop, what it tells its caller, and what it leaves."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from labelset import check, encode
from labelset.data import Dataset
from labelset.encode import Encoder
from labelset.files import folder_lock
from labelset.heads import Head
from labelset.model import Scorer
from labelset.train._checkpoint import Checkpoint
from labelset.train._over_ranks import Parallel
from labelset.train._state import Training
from labelset.train.fitted import Diverged
from labelset.train.settings import Settings
from labelset.train.task import PARTS, Task


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where training stands. It is told at least after each epoch, at most ten times a second."""

    epoch: int
    """Of which this is news, counted from 0."""
    epochs: int
    done: float
    """Share of all steps that are done."""
    loss: float
    """Mean training loss of this epoch so far."""
    monitor: str | None
    """What `value` and `best` measure."""
    value: float | None
    """The validation metric after the last full epoch."""
    best: float | None
    best_epoch: int | None
    seconds: float
    """Since training began, earlier sessions included."""
    left: float
    """Seconds that the rest will take at this pace."""
    epoch_over: bool


Callback = Callable[[Progress], object]


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """A head, its encoder, how training went, and the scores of all rows."""

    head: Head
    encoder: Encoder
    """Fitted; its module, where it has one, trained."""
    settings: Settings
    """As used: what was left open is filled in."""
    history: list[dict[str, Any]]
    """Of each epoch: epoch, loss, valid (the monitor on validation rows), seconds, lr."""
    best_epoch: int
    """The epoch, counted from 0, whose weights are these."""
    monitor: str | None
    """The metric that chose it; None: it is the last, no validation rows having a say."""
    stopped: str
    """Why training ended: epochs, patience, seconds or interrupted."""
    scores: dict[str, Tensor]
    """train, valid and test -> (rows, labels) float32 logits; a part without rows has none."""

    def logits(self, dataset: Dataset) -> Tensor:
        """(rows, labels) float32 scores of other rows."""
        return Scorer(self.head, self.encoder)(dataset)


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
    save_seconds: float | None = None,
    parts: Sequence[str] = PARTS,
    parallel: str = "auto",
) -> Trained:
    """Train an encoder (an `Encoder`, its name, a module, or what suits the data) and a head.

    The data set has train rows and, for choosing the best epoch, valid ones. With a `folder` there
    is a checkpoint every `save_seconds`, by default every 2 or so rarely that writing takes at most
    a twentieth of the time; `resume` goes on from the last good one, and the result is the same as
    if nothing had happened. One process at a time may use the folder. An interrupt (Ctrl-C) ends
    training with the best epoch so far. `cache`: a folder for features that are costly to compute.
    `parts`: those whose scores are wanted.

    Where a process group is running (torchrun), each of its ranks calls this with the same
    arguments, takes a share of the rows of every batch, and returns the same: what one process
    finds, to rounding (docs/distributed.md). Only the first one writes. `parallel`: "fsdp" cuts the
    weights of a large encoder over the ranks as well; "alone" trains in this process only.

    >>> import torch
    >>> x = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
    >>> data = Dataset.from_arrays(x, x[:, :3] > 0.5, split=[0] * 120 + [1] * 40 + [2] * 40)
    >>> done = train(data, Settings(loss="asl", epochs=10, lr=0.1))
    >>> done.scores["test"].shape, done.history[done.best_epoch]["valid"] > 0.9
    (torch.Size([40, 3]), True)
    """
    settings = Settings() if settings is None else settings
    parts = [check.one_of("part", part, PARTS) for part in parts]
    if save_seconds is not None:
        check.number("save_seconds", save_seconds, low=0.0)
    together = Parallel.by(parallel)
    with (
        folder_lock(Path(folder)) if folder is not None and together.ranks.first else nullcontext()
    ):
        file = _checkpoint(dataset, settings, encoder, folder, save_seconds)
        task = Task.of(dataset, settings, encoder, cache)
        run = Training(task, task.resolved(settings), together)
        state = None if file is None else run.ranks.once(partial(file.begin, resume))
        if state is not None:
            run.restore(state)
        try:
            stopped = _trained(run, file, _News(run, progress))
        except Diverged as error:
            error.checkpoint = None if file is None else file.latest
            raise
        return _finished(run, stopped, parts)


def _trained(run: Training, file: Checkpoint | None, news: _News) -> str:
    """Train to the end, and say why it is the end."""

    def step(steps: int, loss: Tensor) -> None:
        if file is not None and steps < run.steps:
            _save(run, file)
        news.step(steps, loss)

    try:
        while (stopped := run.stop()) is None:
            run.epoch(step)
            if file is not None:
                _save(run, file, now=run.stop() is not None)
            news.epoch()
    except KeyboardInterrupt:
        if run.ranks.size > 1:  # which need not be at the same step
            raise
        stopped = "interrupted"
    return stopped


def _save(run: Training, file: Checkpoint, now: bool = False) -> None:
    """A checkpoint where one is due, by the first rank; weights that are cut, all must give.

    The first of several ranks may not stop for weights that are no numbers while the others go on:
    it saves nothing, and all of them find out by the next loss, or at the end of the epoch.
    """
    if not run.parallel.sharded:
        due = run.ranks.first and (now or file.due())
        if due and (run.ranks.size == 1 or run.finite()):
            file.save(run.steps_done, run.state)
    elif now or run.ranks.once(file.due):
        state = run.state()
        if run.ranks.first:
            file.save(run.steps_done, lambda: state)


def _checkpoint(
    dataset: Dataset,
    settings: Settings,
    encoder: Any,
    folder: str | Path | None,
    every: float | None,
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
    scores = {part: run.scores(part, run.best) for part in parts}
    model = run.finished()
    for p in model.parameters():
        p.data = p.data.contiguous()
    return Trained(
        head=model.head,
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
