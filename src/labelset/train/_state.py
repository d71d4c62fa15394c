"""A training under way: model, optimiser, average and history, and one epoch of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from labelset.losses import Loss
from labelset.train._average import Average
from labelset.train._model import Model, scores
from labelset.train._monitor import Monitor
from labelset.train._optimiser import Optimiser, store_by_feature
from labelset.train._random import mixed, seeded, shuffled
from labelset.train._schedule import share
from labelset.train._settings import Settings
from labelset.train._task import Task

__all__ = ["Diverged", "Training"]

Tell = Callable[[int, Tensor], object]
"""Gets the steps done in this epoch, and the mean loss so far."""


class Diverged(RuntimeError):
    """The loss or a score became infinite or NaN."""


class Training:
    """Everything that changes while training goes on; `state` is all of it, for `restore`."""

    def __init__(self, task: Task, settings: Settings) -> None:
        self.task, self.settings = task, settings
        with seeded(settings.seed, "head"):
            head = task.build_head(settings)
        if task.encoder.module is None:
            store_by_feature(head, task.width)
        self.model = Model(task.encoder.module, head).to(settings.device)
        self.loss = settings.build_loss().to(settings.device)
        decay = settings.weight_decay or 0.0
        self.optimiser = Optimiser(self.model, settings.optimiser, decay)
        self.average = Average(self.model, settings.ema) if settings.ema else None
        valid = task.rows["valid"]
        watched = settings.monitor if len(valid) else None
        self.monitor = Monitor(watched, task.labels[valid], self.loss) if watched else None
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Tensor] | None = None
        self.best_epoch: int | None = None
        self.best_value: float | None = None
        self.seconds = 0.0

    @property
    def steps(self) -> int:
        """Steps of one epoch."""
        return math.ceil(len(self.task.rows["train"]) / (self.settings.batch or 1))

    def weights(self) -> dict[str, Tensor]:
        """What is judged: the average where there is one, else the weights themselves."""
        return self.model.state_dict() if self.average is None else self.average.weights

    def epoch(self, tell: Tell) -> None:
        """Train one epoch, judge it, and keep it if it is the best."""
        began, number = time.perf_counter(), len(self.history)
        loss, rate = self._trained(number, tell)
        if not math.isfinite(loss):
            self._diverged(f"the loss became {loss:g}", number)
        value = self._judged(number)
        took = time.perf_counter() - began
        self.seconds += took
        about = {"epoch": number, "loss": loss, "valid": value, "seconds": took, "lr": rate}
        self.history.append(about)

    def stop(self) -> str | None:
        """Why training is over; None while it is not."""
        settings, done = self.settings, len(self.history)
        if done >= settings.epochs:
            return "epochs"
        waited = 0 if self.best_epoch is None else done - 1 - self.best_epoch
        if settings.patience and waited >= settings.patience:
            return "patience"
        late = settings.seconds is not None and done and self.seconds >= settings.seconds
        return "seconds" if late else None

    def scores(self, part: str, weights: Mapping[str, Tensor]) -> Tensor:
        """(rows, labels) float32 logits of a part."""
        rows = self.task.rows[part]
        v = scores(self.model, weights, self.task, rows, self.settings.device)
        if not bool(v.isfinite().all()):
            self._diverged(f"scores of the {part} part became infinite", len(self.history) - 1)
        return v

    # ---- one epoch ------------------------------------------------------------------------------

    def _trained(self, number: int, tell: Tell) -> tuple[float, float]:
        """The mean loss of the epoch and its last learning rate."""
        settings, loss, rate = self.settings, self.loss.at(number), 0.0
        rows = self.task.rows["train"]
        total, seen = torch.zeros((), device=settings.device), 0
        batches = shuffled(rows, settings.batch or 1, mixed(settings.seed, f"order {number}"))
        self.model.train()
        with seeded(settings.seed, f"epoch {number}", settings.device):
            for at, chosen in enumerate(batches):
                step, steps = number * len(batches) + at, settings.epochs * len(batches)
                rate = (settings.lr or 0.0) * share(settings.schedule, step, steps)
                total += self._step(loss, chosen, rate) * len(chosen)
                seen += len(chosen)
                tell(at + 1, total / seen)
        return float(total / seen), rate

    def _step(self, loss: Loss, rows: Tensor, rate: float) -> Tensor:
        inputs, labels = self.task.batch(rows, self.settings.device)
        narrow = self.settings.precision == "bfloat16"
        kind = torch.device(self.settings.device).type
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=narrow):
            logits = self.model(inputs)
        value = loss(logits, labels)
        value.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step(rate)
        if self.average is not None:
            self.average.update(self.model)
        return value.detach()

    def _judged(self, number: int) -> float | None:
        """The monitor's value; the weights are kept if no earlier ones were as good."""
        if self.monitor is None:
            return None
        weights = self.weights()
        value = self.monitor(self.scores("valid", weights))
        if value is not None and self.monitor.better(value, self.best_value):
            self.best_value, self.best_epoch = value, number
            self.best = {name: t.detach().clone() for name, t in weights.items()}
        return value

    def _diverged(self, what: str, number: int) -> None:
        settings = self.settings
        name = settings.loss if isinstance(settings.loss, str) else type(settings.loss).__name__
        rate = settings.lr or 0.0
        raise Diverged(
            f"{what} in epoch {number + 1} of {settings.epochs} (loss {name}, learning rate "
            f"{rate:g}); try a lower learning rate, such as lr={rate / 10:g}"
        )

    # ---- between sessions -----------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that the coming epochs depend on."""
        average = self.average
        return {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state(),
            "average": None if average is None else [average.steps, average.weights],
            "best": [self.best, self.best_epoch, self.best_value],
            "history": self.history,
            "seconds": self.seconds,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was."""
        self.model.load_state_dict(state["model"])
        self.optimiser.restore(state["optimiser"])
        if self.average is not None:
            self.average.restore(*state["average"])
        self.best, self.best_epoch, self.best_value = state["best"]
        self.history, self.seconds = list(state["history"]), float(state["seconds"])
