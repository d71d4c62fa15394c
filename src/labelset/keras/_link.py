"""Links as a Keras layer: from logits to the probabilities that they mean."""

from __future__ import annotations

from typing import Any

from keras import backend, ops
from keras.layers import Layer
from keras.saving import register_keras_serializable

from labelset.keras._formulas import Recorded, link_of
from labelset.keras._replay import replayed
from labelset.losses._base import FAR
from labelset.losses._described import describe_loss, read_loss

__all__ = ["Link"]


@register_keras_serializable(package="labelset")
class Link(Layer):  # type: ignore[misc]
    """sigmoid(u), u being the log-odds that a score means at the optimum of its loss.

    It has no weights; put it behind a trained model, or call it with logits.

    >>> import numpy as np
    >>> [round(float(p), 4) for p in Link("spa")(np.zeros((1, 2), "float32"))[0]]
    [0.0538, 0.0538]
    """

    def __init__(self, loss: Any, **settings: Any) -> None:
        super().__init__(**settings)
        found = read_loss(loss)
        if found is None:
            raise TypeError("loss must be a loss or the name of one, got None")
        self.loss, self._formulas = found.to("cpu"), dict[int, Recorded]()
        link_of(self.loss, self.loss.per_label() or 1)  # an error, now, where there is none

    def call(self, logits: Any) -> Any:
        """(..., labels) probabilities."""
        n = int(logits.shape[-1])
        if n not in self._formulas:
            self._formulas[n] = link_of(self.loss, n)
        formula, outputs, columns, reach = self._formulas[n]
        reach = _far(logits.dtype) if reach is None else reach
        logits = ops.clip(logits, -reach, reach)
        held = (ops.convert_to_tensor(c, dtype=logits.dtype) for c in columns)
        (odds,) = replayed(formula, outputs, [logits, *held])
        return ops.sigmoid(odds)

    def compute_output_shape(self, shape: Any) -> Any:
        """That of the logits."""
        return shape

    def get_config(self) -> dict[str, Any]:
        """All that `from_config` needs."""
        return {**super().get_config(), "loss": describe_loss(self.loss)}


def _far(dtype: Any) -> float:
    """The score that an infinite one is taken for: there inf - inf would be NaN."""
    return 1e4 if backend.standardize_dtype(dtype) == "float16" else FAR
