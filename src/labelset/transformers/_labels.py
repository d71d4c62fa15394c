"""Labels as the Trainer counts them: an entry of -100 is unknown, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import default_data_collator

__all__ = ["IGNORED", "collator", "counted", "scores_in", "unknown_as_nan"]

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
