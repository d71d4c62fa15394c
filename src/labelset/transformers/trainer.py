"""For the Trainer: losses, metrics and unknown labels over a whole step of micro batches; and
MultiLabelTrainer, exact for every loss under accumulation and over processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, distributed, nn
from transformers import Trainer, TrainerCallback, default_data_collator

from labelset import losses
from labelset.distributed import RowSums, global_batch, known_per_row
from labelset.distributed import counted as counts_in
from labelset.distributed.collectives import ranks, scale_gradient
from labelset.distributed.micro_batches import (
    restore_random,
    scores_of,
    value_and_gradients,
)
from labelset.losses import Loss, Separable, as_loss
from labelset.metrics import Metric
from labelset.model import Predictor

IGNORED = -100
"""What an unknown label is in the batches of a Trainer."""

Collator = Callable[[list[Any]], dict[str, Any]]


def collator(of: Collator | None = None) -> Collator:
    """A data collator that writes unknown labels (NaN) as the Trainer counts them: -100.

    `of` collates; the Trainer's default collator if None. Losses are divided by the number of
    labels that are not -100 in all micro batches and processes of a step, so that NaN would be
    counted as known.

    >>> rows = [{"labels": [1.0, float("nan")]}, {"labels": [0.0, 1.0]}]
    >>> collator()(rows)["labels"]
    tensor([[   1., -100.],
            [   0.,    1.]])
    """
    return _Ignoring(default_data_collator if of is None else of)


class _Ignoring:
    """A class, not a closure, so that workers of a data loader can be sent it."""

    def __init__(self, of: Collator) -> None:
        self.of = of

    def __call__(self, rows: list[Any]) -> dict[str, Any]:
        batch = self.of(rows)
        labels = batch.get("labels")
        if isinstance(labels, Tensor) and labels.is_floating_point():
            batch["labels"] = labels.nan_to_num(IGNORED)
        return batch


def unknown_as_nan(labels: Any) -> Tensor:
    """(rows, labels) with NaN where the label is unknown, as the losses and metrics read it."""
    if labels is None:
        raise ValueError(
            "the batch has no labels: the Trainer takes them from the column `labels`, (rows, "
            "labels) numbers in [0, 1] with -100 where unknown"
        )
    y = torch.as_tensor(labels)
    if y.ndim != 2:
        raise ValueError(
            f"labels must be 2-D (rows, labels), got shape {tuple(y.shape)}; give one number in "
            "[0, 1] per label, not the number of a class"
        )
    y = y if y.is_floating_point() else y.float()
    return torch.where(y == IGNORED, torch.nan, y)


def counted(labels: Tensor) -> Tensor:
    """How many entries the Trainer counts in these labels."""
    return labels.ne(IGNORED).sum()


def scores_in(outputs: Any) -> Tensor:
    """The logits among a model's outputs."""
    if isinstance(outputs, Tensor):
        return outputs
    logits = outputs.get("logits") if hasattr(outputs, "get") else outputs[0]
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"the model must give logits of shape (rows, labels), got {got}")
    return logits


TWO_WAYS = (
    "use labelset.transformers.MultiLabelTrainer, which is exact for every loss, or "
    "gradient_accumulation_steps=1"
)


def compute_loss_func(loss: Any, **hyperparameters: Any) -> TrainerLoss:
    """What `transformers.Trainer(compute_loss_func=...)` takes, from a loss or its name.

    >>> compute_loss_func("asl", gamma_neg=2.0).loss.gamma_neg
    2.0
    """
    if isinstance(loss, str):
        return TrainerLoss(losses.build(loss, **hyperparameters))
    if hyperparameters:
        raise TypeError("hyperparameters go with the name of a loss, not with a loss that is built")
    return TrainerLoss(as_loss("loss", loss))


class TrainerLoss:
    """A loss as the Trainer calls it, micro batch by micro batch: its parts of one step add up.

        loss of entries:  sum over the micro batch / known entries of the whole step
        loss of rows:     sum over the micro batch / rows of the whole step
        loss of columns:  of all processes together (`global_batch`); refused under accumulation

    The Trainer states the number of entries of a step (`num_items_in_batch`: labels that are not
    -100, over micro batches and processes). It does not state how many rows count; where a row
    does not (nothing known, or nothing on), a loss of rows is refused under accumulation.
    """

    def __init__(self, loss: Loss) -> None:
        if loss.reduction == "none":
            raise ValueError('the Trainer needs one number: use reduction="mean" or "sum"')
        self.loss, self.epoch = loss, None
        self.changes = loss.at(0) != loss
        self.replayed: list[tuple[Tensor, Tensor]] = []
        """Slopes of the micro batches to come and their share of the value, where these are known
        beforehand (`MultiLabelTrainer`)."""
        self.at(None)

    epoch: int | None

    def at(self, epoch: int | None) -> None:
        """From now on the loss is that of this epoch, counted from 0."""
        self.epoch = epoch
        self.now = self.loss if epoch is None else self.loss.at(epoch)
        self.parts = global_batch(self.now)._parts

    @property
    def callback(self) -> TrainerCallback:
        """Tells the loss the epoch: `Trainer(callbacks=[func.callback])`."""
        return _Epochs(self)

    @property
    def of_entries(self) -> bool:
        """Whether it is a sum over entries, all divided by the same number (or by none)."""
        return all(isinstance(p, RowSums) and _by_entry(p) for _, p in self.parts)

    def __call__(
        self, outputs: Any, labels: Any, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """The loss of a micro batch: its part of the step where `num_items_in_batch` is given."""
        v, y = scores_in(outputs), unknown_as_nan(labels)
        if torch.is_grad_enabled():
            if self.replayed:
                return _fed_back(v, *self.replayed.pop(0))
            self._refuse_unknown_epoch()
        if num_items_in_batch is None:
            return self.now(v, y)
        items = _number(num_items_in_batch)
        if self.of_entries:
            return self._sum_over_rows(v, y, _known(labels, y, items))
        if _counted_everywhere(labels) == items:
            # the Trainer multiplies by the number of processes, whose gradients are then averaged
            world = ranks(None)
            return scale_gradient(global_batch(self.now)(v, y) / world, world)
        self._refuse_accumulation(v, y)
        return self._sum_over_rows(v, y, items)

    def _sum_over_rows(self, v: Tensor, y: Tensor, items: int) -> Tensor:
        total = v.new_zeros((), dtype=torch.float32 if v.element_size() < 4 else v.dtype)
        for factor, part in self.parts:
            assert isinstance(part, RowSums)
            over = items if _by_entry(part) else items / v.shape[1]
            total = total + factor * part.summed(v, y) / (max(over, 1) if part.mean else 1)
        return total

    def _refuse_accumulation(self, v: Tensor, y: Tensor) -> None:
        name = type(self.now).__name__
        if not all(isinstance(part, RowSums) for _, part in self.parts):
            raise ValueError(
                f"{name} is a loss of the whole batch, and a batch that is accumulated (or, with "
                "average_tokens_across_devices=False, not counted over processes) is not seen "
                f"whole: {TWO_WAYS}"
            )
        full = int(known_per_row(y).sum()) == y.numel()
        for _, part in self.parts:
            assert isinstance(part, RowSums)
            if not full or (
                not _by_entry(part) and int(counts_in(part.summed, v.dtype, y)) < len(y)
            ):
                raise ValueError(
                    f"{name} is a mean over the rows that count (of which something is known, or "
                    "on), not all rows of this micro batch do, and the Trainer does not say how "
                    f"many do in the accumulated batch: {TWO_WAYS}"
                )

    def _refuse_unknown_epoch(self) -> None:
        if self.changes and self.epoch is None:
            raise ValueError(
                f"{type(self.loss).__name__} changes with the epoch, and nobody tells it: give "
                "the Trainer callbacks=[func.callback], func being this compute_loss_func"
            )


class _Epochs(TrainerCallback):  # type: ignore[misc, unused-ignore]
    def __init__(self, loss: TrainerLoss) -> None:
        self.loss = loss

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.loss.at(int((state.epoch or 0.0) + 1e-6))


def _by_entry(part: RowSums) -> bool:
    return isinstance(part.summed, Separable) or not part.mean


def _number(items: Tensor | int) -> int:
    if isinstance(items, Tensor) and items.ndim:
        raise ValueError(
            "one process with several GPUs (DataParallel) scales losses by their number; start "
            "one process per GPU with torchrun, or make one GPU visible"
        )
    return int(items)


def _counted_everywhere(labels: Any) -> int:
    """What the Trainer counts in the batches that all processes have now."""
    here = counted(torch.as_tensor(labels))
    if ranks(None) > 1:
        distributed.all_reduce(here)
    return int(here)


def _known(labels: Any, y: Tensor, items: int) -> int:
    """The known entries of the step; NaN, which the Trainer counts, only where it sees all."""
    said, known = int(counted(torch.as_tensor(labels))), int(known_per_row(y).sum())
    if said == known:
        return items
    if ranks(None) == 1 and said == items:
        return known
    raise ValueError(
        "the Trainer counts labels that are NaN as known, so that the mean over several micro "
        "batches or processes would be wrong; write unknown labels as -100, which "
        "Trainer(data_collator=labelset.transformers.collator()) does"
    )


def _fed_back(v: Tensor, slope: Tensor, share: Tensor) -> Tensor:
    """A number with the value `share` and the gradient `slope`."""
    product = (v * slope.to(v.dtype)).sum()
    return product - product.detach() + share


def compute_metrics(
    *names: str | Metric, loss: Any = None, map: Any = None, rule: Any = None
) -> TrainerMetrics:
    """What `transformers.Trainer(compute_metrics=...)` takes.

    Probabilities are the link of the loss, or those of a fitted `map`; label sets are decided by
    `rule` (probability 0.5 if None). A metric that needs probabilities where the loss has none is
    refused here, not after an epoch.

    >>> from transformers import EvalPrediction
    >>> import numpy as np
    >>> given = EvalPrediction(np.array([[2.0, -1.0]]), np.array([[1.0, 0.0]]))
    >>> compute_metrics("map@class", "f1-micro", loss="bce")(given)
    {'map@class': 1.0, 'f1-micro': 1.0}
    """
    predictor = Predictor.of(loss, map, rule)
    return TrainerMetrics(predictor.metrics(names), predictor)


class TrainerMetrics:
    """Scores and labels to named numbers, at once or, with `batch_eval_metrics`, by batches."""

    def __init__(self, named: dict[str, Metric], predictor: Predictor) -> None:
        self.named, self.predictor = named, predictor
        self.streams = {name: metric.stream() for name, metric in named.items()}

    def __call__(self, prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """Count an `EvalPrediction`; the values of all that was counted when that is asked for."""
        v = _scores(prediction.predictions)
        y = unknown_as_nan(prediction.label_ids).to(v.device)
        for name, stream in self.streams.items():
            stream.update(self.predictor.metric_input(self.named[name], v), y)
        if not compute_result:
            return {}
        try:
            return {name: _value(name, stream) for name, stream in self.streams.items()}
        finally:
            for stream in self.streams.values():
                stream.reset()


def _scores(predictions: Any) -> Tensor:
    """The logits; models that also return other things put them first."""
    first = predictions[0] if isinstance(predictions, (tuple, list)) else predictions
    v = torch.as_tensor(first)
    return v.float() if v.element_size() < 4 else v


def _value(name: str, stream: Any) -> float:
    try:
        return float(stream.compute())
    except ValueError as error:
        raise ValueError(f"{name} over the evaluation data is {error}") from None


# ---- the Trainer itself --------------------------------------------------------------------------


class MultiLabelTrainer(Trainer):  # type: ignore[misc, unused-ignore]
    """`transformers.Trainer` with a loss and metrics of this library.

    A loss of entries (bce, asl, spa, ...) is summed over micro batches and processes and divided
    by the number of labels known in all of them. Any other loss needs the scores of the whole
    step: with `gradient_accumulation_steps` above 1 they are computed first, without a graph; the
    loss's gradient with respect to them is then fed back micro batch by micro batch, randomness
    replayed (see `labelset.accumulate`). The forward pass is paid twice. Unknown labels may be NaN
    or -100; losses that change with the epoch receive it.
    """

    def __init__(self, *args: Any, loss: Any, metrics: Iterable[Any] = (), **settings: Any) -> None:
        func = loss if isinstance(loss, TrainerLoss) else compute_loss_func(loss)
        named = tuple(metrics)
        if named and settings.get("compute_metrics") is not None:
            raise TypeError("give either `metrics`, by name, or `compute_metrics`, not both")
        if named:
            settings["compute_metrics"] = compute_metrics(*named, loss=func.loss)
        super().__init__(*args, **{**settings, "compute_loss_func": func})
        _refuse(self.args)
        self.func = func
        self.data_collator = collator(self.data_collator)
        self.add_callback(func.callback)
        self._ahead: list[Any] = []
        self._random: list[Any] = []

    def get_batch_samples(self, *args: Any, **settings: Any) -> Any:
        """The micro batches of a step, which are kept in mind where the loss needs them all."""
        batches, items = super().get_batch_samples(*args, **settings)
        several = len(batches) > 1 and not self.func.of_entries
        self._ahead = list(batches) if several else []
        self._random, self.func.replayed = [], []
        return batches, items

    def training_step(self, model: nn.Module, inputs: Any, *args: Any, **settings: Any) -> Tensor:
        """Forward and backward of a micro batch; before the first one, the scores of all."""
        if self._ahead:
            self._look_ahead(model)
        if self._random:
            restore_random(self._random.pop(0))
        found: Tensor = super().training_step(model, inputs, *args, **settings)
        return found

    def _look_ahead(self, model: nn.Module) -> None:
        """The gradient of the loss of the whole step with respect to the scores."""
        pairs = [self._pair(batch) for batch in self._ahead]
        self._ahead = []
        model.train()
        with self.compute_loss_context_manager():
            scores, self._random = scores_of(_Scores(model), pairs)
        labels = torch.cat([y for _, y in pairs])
        value, slopes = value_and_gradients(global_batch(self.func.now), scores, labels)
        # the Trainer adds up the micro batches and multiplies by the number of processes
        share = value / len(slopes) / ranks(None)
        self.func.replayed = [(slope, share) for slope in slopes]

    def _pair(self, batch: Any) -> tuple[dict[str, Any], Tensor]:
        inputs = dict(self._prepare_inputs(batch))
        return inputs, unknown_as_nan(inputs.pop("labels", None))


def _refuse(args: Any) -> None:
    if args.n_gpu > 1:
        raise ValueError(
            "one process with several GPUs (DataParallel) is not taken; start one process per "
            "GPU with torchrun, or make one GPU visible"
        )
    if args.world_size > 1 and not args.average_tokens_across_devices:
        raise ValueError(
            "average_tokens_across_devices must be True: labels are counted over processes"
        )


class _Scores(nn.Module):
    """The model, giving its logits alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: Any) -> Tensor:
        return scores_in(self.model(**inputs))
