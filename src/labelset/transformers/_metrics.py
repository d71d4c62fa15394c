"""compute_metrics: metrics by name for the Trainer, from scores and what they mean."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labelset.meaning import Meaning
from labelset.metrics import Metric
from labelset.transformers._labels import unknown_as_nan

__all__ = ["TrainerMetrics", "compute_metrics"]


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
    meaning = Meaning.of(loss, map, rule)
    return TrainerMetrics(meaning.metrics(names), meaning)


class TrainerMetrics:
    """Scores and labels to named numbers, at once or, with `batch_eval_metrics`, by batches."""

    def __init__(self, named: dict[str, Metric], meaning: Meaning) -> None:
        self.named, self.meaning = named, meaning
        self.streams = {name: metric.stream() for name, metric in named.items()}

    def __call__(self, prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """Count an `EvalPrediction`; the values of all that was counted when that is asked for."""
        v = _scores(prediction.predictions)
        y = unknown_as_nan(prediction.label_ids).to(v.device)
        for name, stream in self.streams.items():
            stream.update(self.meaning.given(self.named[name], v), y)
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
