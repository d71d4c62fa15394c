"""MultiLabelTrainer: the Trainer, exact for every loss under accumulation and over processes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer

from labelset.distributed import global_batch
from labelset.distributed.collectives import ranks
from labelset.distributed.micro_batches import (
    restore_random,
    scores_of,
    value_and_gradients,
)
from labelset.transformers.loss import (
    TrainerLoss,
    collator,
    compute_loss_func,
    compute_metrics,
    scores_in,
    unknown_as_nan,
)


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
