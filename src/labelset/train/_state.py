"""A training under way: model, optimiser, average and history, and one epoch of it."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from labelset import metrics
from labelset.data import SparseRows, Stored
from labelset.data.store import per_row
from labelset.distributed import accumulate
from labelset.heads import Head, store_by_feature
from labelset.labels import Labels
from labelset.losses import Loss, NoLink
from labelset.train._optimiser import Average, Optimiser, share
from labelset.train._over_ranks import Parallel, batch_norm_over, global_rng
from labelset.train.fitted import Diverged, repeated, weighted_loss
from labelset.train.settings import Settings
from labelset.train.task import Task, draw_from, generators_kept, mixed, seeded, shuffled

if TYPE_CHECKING:
    from labelset.train._recorded import Recorder

log = logging.getLogger("labelset")


class Monitor:
    """A metric of scores, of their probabilities, or of what is above 0.5, as it takes them.

    >>> from labelset.losses import build
    >>> Monitor("f1-micro", Labels.from_dense([[1, 0]]), build("bce"))(torch.tensor([[1.0, -1.0]]))
    1.0
    """

    def __init__(self, name: str, labels: Labels, loss: Loss) -> None:
        self.metric, self.loss = metrics.build(name), loss
        self.labels = _hard(labels)

    def __call__(self, scores: Tensor) -> float | None:
        """The metric; None where these labels do not define it."""
        given = scores if self.metric.takes == "scores" else linked(self.loss, scores)
        try:
            return self.metric(
                given > 0.5 if self.metric.takes == "label sets" else given, self.labels
            )
        except ValueError as error:
            if "not defined" in str(error):
                return None
            raise

    def better(self, new: float, old: float | None) -> bool:
        """Whether a value is better than one before it; NaN never is."""
        if old is None:
            return new == new
        return new > old if self.metric.higher_is_better else new < old


def linked(loss: Loss, scores: Tensor) -> Tensor:
    """Probabilities by the loss's own link, else by sigmoid."""
    try:
        return loss.link(scores)
    except NoLink:
        return torch.sigmoid(scores)


def _hard(labels: Labels) -> Labels:
    """Soft labels count as on from 0.5."""
    if labels.values is None:
        return labels
    y = labels.dense()
    return Labels.from_dense(torch.where(y.isnan(), y, (y >= 0.5).float()))


ENTRIES = 1 << 22
"""Scores that are computed together: 16 MB; of inputs on disk, a quarter of it."""


class Model(nn.Module):
    """logits = head(encoder(inputs)), or head(inputs) where nothing before it is trained.

    `wide`: all of it in float64, inputs as well.
    """

    def __init__(self, encoder: nn.Module | None, head: Head, wide: bool = False) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.wide = wide
        if wide:
            self.double()

    def forward(self, inputs: Tensor | SparseRows) -> Tensor:
        if self.wide and isinstance(inputs, Tensor) and inputs.is_floating_point():
            inputs = inputs.double()  # sparse rows take after the weight
        logits: Tensor = self.head(inputs if self.encoder is None else self.encoder(inputs))
        return logits


@torch.no_grad()
def scores(
    model: Model,
    weights: Mapping[str, Tensor],
    task: Task,
    rows: Tensor,
    device: str,
    parallel: Parallel,
) -> Tensor:
    """(rows, labels) float32 logits on the CPU, by the given weights.

    Each rank computes those of its share of the rows, and gets all.
    """
    model.eval()
    stored = isinstance(task.inputs, Stored)
    widest = max(task.labels.n, 4 * per_row(task.inputs) if stored else 1, task.numbers)
    size, ranks = max(16, min(4096, ENTRIES // widest)), parallel.ranks
    out = torch.empty(len(rows), task.labels.n)
    with parallel.applied(model, weights) as forward:
        for start in range(0, len(rows), size * ranks.size):
            some = rows[start : start + size * ranks.size]
            inputs: Tensor | SparseRows = task.inputs[ranks.padded_share(some)]
            there = inputs if device == "cpu" else inputs.to(device)
            out[start : start + len(some)] = ranks.joined(forward(there), len(some))
    return out


WORTH = 64
"""Steps of a training from which on it is worth recording them, on a GPU."""
WIDTHS = 16
"""Tokens by which the widths of recorded batches differ."""
Tell = Callable[[int, Tensor], object]
"""Gets the steps done in this epoch, and the mean loss so far."""


class Training:
    """Everything that changes while training goes on; `state` is all of it, for `restore`."""

    def __init__(self, task: Task, settings: Settings, parallel: Parallel | None = None) -> None:
        self.task, self.settings = task, settings
        self.parallel = Parallel() if parallel is None else parallel
        self.ranks = self.parallel.ranks
        with seeded(settings.seed, "head"):
            head = task.build_head(settings)
        if task.encoder.module is None:
            store_by_feature(head, task.width)
        self.model = Model(task.encoder.module, head, wide=settings.precision == "float64")
        self.net = self.parallel.spread(self.model, settings.device, task.inputs[:2])
        own = task.rows["train"]
        self.rows, labels = own, task.labels[own]
        if (times := repeated(labels)) is not None:
            self.rows = own[times]
        loss = settings.build_loss()
        self.loss = (loss if times is not None else weighted_loss(loss, labels)).to(settings.device)
        decay = settings.weight_decay or 0.0
        rates = {f"encoder.{name}": rate for name, rate in task.encoder.rates().items()}
        self.optimiser = Optimiser(self.model, settings.optimiser, decay, rates)
        self.average = Average(self.model, settings.ema) if settings.ema else None
        self.recorder: Recorder | None = None
        alone = self.ranks.size == 1 and task.encoder.module is not None
        if alone and settings.device.startswith("cuda") and settings.epochs * self.steps >= WORTH:
            from labelset.train._recorded import Recorder

            self.recorder = Recorder(self.model, self.optimiser, self._gradient, settings.device)
        valid = task.rows["valid"]
        watched = settings.monitor if len(valid) else None
        self.monitor = Monitor(watched, task.labels[valid], self.loss) if watched else None
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Tensor] | None = None
        self.best_epoch: int | None = None
        self.best_value: float | None = None
        self.seconds = 0.0
        self.pieces = 1
        """In how many a batch is computed, as memory allows."""
        self._within: dict[str, Any] | None = None  # where in an epoch: steps, total, seen, seconds

    @property
    def steps(self) -> int:
        """Steps of one epoch."""
        return math.ceil(len(self.rows) / (self.settings.batch or 1))

    @property
    def steps_done(self) -> int:
        """Steps of all epochs so far."""
        within = 0 if self._within is None else int(self._within["steps"])
        return len(self.history) * self.steps + within

    def weights(self) -> dict[str, Tensor]:
        """What is judged: the average where there is one, else the weights themselves."""
        return self.model.state_dict() if self.average is None else self.average.weights

    def epoch(self, tell: Tell) -> None:
        """Train one epoch, or what is left of it, judge it, and keep it if it is the best."""
        began, number = time.perf_counter(), len(self.history)
        if self._within is not None:
            began -= self._within["seconds"]
        loss, rate = self._trained(number, began, tell)
        if not math.isfinite(loss):
            self._diverged(f"the loss became {loss:g}", number)
        value = self._judged(number)
        if not self.finite():  # here, where all ranks look
            self._lost(math.nan)
        self._within, took = None, self.ranks.once(lambda: time.perf_counter() - began)
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
        v = scores(self.model, weights, self.task, rows, self.settings.device, self.parallel)
        if not bool(v.isfinite().all()):
            number = len(self.history) - (self._within is None)
            self._diverged(f"scores of the {part} part became infinite", number)
        return v

    def finished(self) -> Model:
        """The model with the best weights, whole, on the CPU and in float32."""
        assert self.best is not None
        model = self.parallel.finished(self.model, self.best).eval().to("cpu")
        assert isinstance(model, Model)
        if model.wide:
            model.float()
            model.wide = False
        self.task.encoder.module = model.encoder
        return model

    # ---- one epoch ------------------------------------------------------------------------------

    def _trained(self, number: int, began: float, tell: Tell) -> tuple[float, float]:
        """The mean loss of the epoch and its last learning rate."""
        settings, loss, rate = self.settings, self.parallel.loss(self.loss.at(number)), 0.0
        rows = self.rows
        within = self._within or {"steps": 0, "total": torch.zeros(()), "seen": 0}
        total, seen = within["total"].to(settings.device), within["seen"]
        order = mixed(settings.seed, f"order {number}")
        batches = shuffled(rows, settings.batch or 1, order, self.task.lengths)
        self.model.train()
        with generators_kept(settings.device), batch_norm_over(self.ranks, self.model):
            for at in range(within["steps"], len(batches)):
                step, steps = number * len(batches) + at, settings.epochs * len(batches)
                rate = (settings.lr or 0.0) * share(settings.schedule, step, steps)
                draw_from(settings.seed, f"step {step}", settings.device)
                total = total + self.step(loss, batches[at], rate) * len(batches[at])
                seen += len(batches[at])
                spent = time.perf_counter() - began
                self._within = {"steps": at + 1, "total": total, "seen": seen, "seconds": spent}
                tell(at + 1, total / seen)
        return float(total / seen), rate

    def _drawing(self, rows: int) -> AbstractContextManager[object]:
        """Heads draw no random numbers; a network before them may."""
        return nullcontext() if self.model.encoder is None else global_rng(self.ranks, rows)

    def step(self, loss: Loss, rows: Tensor, rate: float) -> Tensor:
        while True:
            try:
                value = self._moved(loss, rows, rate)
                break
            except torch.OutOfMemoryError:
                if self.ranks.size > 1 or 2 * self.pieces > len(rows):
                    raise
                self.pieces *= 2
                self.optimiser.forget()
                if self.recorder is not None:
                    self.recorder.forget()
                draw_from(self.settings.seed, f"step {self.steps_done}", self.settings.device)
                log.warning(
                    "memory is short: batches are computed in %d pieces, with the same gradient",
                    self.pieces,
                )
        if self.average is not None:
            self.average.update(self.model)
        return value

    def _moved(self, loss: Loss, rows: Tensor, rate: float) -> Tensor:
        """One step down the gradient of a batch, whose loss is returned."""
        device, share = self.settings.device, self.ranks.share(rows)
        if self.recorder is not None and self.recorder.works:
            start = partial(draw_from, self.settings.seed, f"step {self.steps_done}", device)
            value = self.recorder.step(loss, *self.task.batch(share, "cpu", WIDTHS), rate, start)
            if value is not None:
                return value
        inputs, labels = self.task.batch(share, device)
        value = self._gradient(loss, inputs, labels, len(rows))
        self.optimiser.step(rate)
        return value

    def _gradient(self, loss: Loss, inputs: Any, labels: Labels | Tensor, rows: int) -> Tensor:
        """Give the parameters the gradient of a batch of so many rows, and return its loss."""
        narrow = self.settings.precision == "bfloat16"
        kind, drawing = torch.device(self.settings.device).type, self._drawing(rows)
        narrowed = torch.autocast(kind, dtype=torch.bfloat16, enabled=narrow)
        if self.pieces > 1:
            at = torch.arange(len(labels)).tensor_split(min(self.pieces, len(labels)))
            pieces = [(inputs[i], labels[i]) for i in at]
            with drawing, narrowed:
                value = accumulate(self.net, pieces, loss)
        else:
            with drawing, narrowed:
                logits = self.net(inputs)
            value = loss(logits, labels)
        if kind == "cpu" and not math.isfinite(value.item()):  # elsewhere looking would wait for it
            self._lost(value.item())
        if self.pieces == 1:
            with drawing:  # where activations are not kept, what was drawn is drawn again
                value.backward()  # type: ignore[no-untyped-call]
        return value.detach()

    def _judged(self, number: int) -> float | None:
        """The monitor's value; the weights are kept if no earlier ones were as good."""
        if self.monitor is None:
            return None
        weights = self.weights()
        monitor, v = self.monitor, self.scores("valid", weights)
        value = self.ranks.once(lambda: monitor(v))
        if value is not None and self.monitor.better(value, self.best_value):
            self.best_value, self.best_epoch = value, number
            self.best = {name: t.detach().clone() for name, t in weights.items()}
        return value

    # ---- what has gone wrong --------------------------------------------------------------------

    def finite(self) -> bool:
        """Whether all weights are numbers."""
        held = [*self.model.state_dict().values(), *self.weights().values()]
        return all(bool(t.isfinite().all()) for t in held if t.is_floating_point())

    def _lost(self, value: float) -> None:
        """Stop before a step down a loss that is no number; the weights tell where that began."""
        if self.finite():
            what, steps = f"the loss became {value:g}", self.steps_done + 1
        else:
            what, steps = "the weights became infinite or NaN by their gradient", self.steps_done
        epoch, step = divmod(max(steps, 1) - 1, self.steps)
        self._diverged(what, epoch, step)

    def _diverged(self, what: str, number: int, step: int | None = None) -> None:
        settings = self.settings
        name = settings.loss if isinstance(settings.loss, str) else type(settings.loss).__name__
        rate = settings.lr or 0.0
        at = "" if step is None else f", at step {step + 1} of {self.steps}"
        if self._within is not None and math.isfinite(self._within["total"]):
            at += f", after a mean loss of {self._within['total'] / self._within['seen']:.4g}"
        raise Diverged(
            f"{what} in epoch {number + 1} of {settings.epochs} (loss {name}, learning rate "
            f"{rate:g}){at}; try a lower learning rate, such as lr={rate / 10:g}, and look for "
            "huge values among the inputs"
        )

    # ---- between sessions -----------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that the coming steps depend on; rates and random numbers follow from their count."""
        if not self.finite():
            self._lost(math.nan)
        average = self.average
        held = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state(),
            "average": None if average is None else [average.steps, average.weights],
            "best": [self.best, self.best_epoch, self.best_value],
            "history": self.history,
            "seconds": self.seconds,
            "within": self._within,
        }
        whole: dict[str, Any] = self.parallel.whole(held)
        return whole

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was."""
        like, cut = self.model.state_dict(), self.parallel.cut
        self.model.load_state_dict(cut(state["model"], like))
        inner = self.optimiser.inner
        self.optimiser.restore(self.parallel.cut_optimisers(state["optimiser"], inner))
        if self.average is not None:
            steps, weights = state["average"]
            self.average.restore(steps, cut(weights, like))
        best, self.best_epoch, self.best_value = state["best"]
        self.best = None if best is None else dict(cut(best, like))
        self.history, self.seconds = list(state["history"]), float(state["seconds"])
        self._within = state["within"]
