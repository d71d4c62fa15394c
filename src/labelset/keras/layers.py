"""Losses of labelset as Keras losses, and their links as a Keras layer."""

from __future__ import annotations

from typing import Any

from keras import backend, ops
from keras.layers import Layer
from keras.losses import Loss as KerasLoss
from keras.saving import register_keras_serializable

from labelset.keras.replay import Recorded, link_of, ratio_of, replayed, sides_of, steps_of
from labelset.losses import FAR, ConfusionLoss, Loss, Separable, describe_loss, read_loss

REDUCTIONS = {"mean": "sum_over_batch_size", "sum": "sum", "none": "none"}


class _Carried(KerasLoss):  # type: ignore[misc]
    """A loss of labelset: itself, its name, or what `get_config` said of it."""

    kind: type[Loss]

    def __init__(self, loss: Any, name: str | None = None, dtype: Any = None) -> None:
        found = read_loss(loss)
        if not isinstance(found, self.kind):
            raise TypeError(f"loss must be a {self.kind.__name__}, got {type(found).__name__}")
        if next(found.parameters(), None) is not None:
            raise TypeError(
                "hyperparameters that torch learns stay behind in Keras; give numbers instead"
            )
        self.loss: Any = found.to("cpu")
        self._formulas: dict[int, Recorded] = {}
        super().__init__(name=name, reduction=self._reduced(), dtype=dtype)

    def _reduced(self) -> str:
        return REDUCTIONS[self.loss.reduction]

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The loss of a batch, of tensors, arrays or lists (to Keras these are structures)."""
        return super().__call__(self._tensor(y_true), self._tensor(y_pred), sample_weight)

    def _tensor(self, x: Any) -> Any:
        return ops.convert_to_tensor(x, dtype=self.dtype)

    def get_config(self) -> dict[str, Any]:
        """All that `from_config` needs; a loss outside labelset's catalogue cannot be saved."""
        return {"loss": describe_loss(self.loss), "name": self.name, "dtype": self.dtype}

    def _formula(self, n: int) -> Recorded:
        if n not in self._formulas:
            made: Any = sides_of if isinstance(self.loss, Separable) else steps_of
            self._formulas[n] = made(self.loss, n)
        return self._formulas[n]

    def _both(self, v: Any) -> list[Any]:
        """The two functions of a score that the loss is made of."""
        recorded = self._formula(int(v.shape[-1]))
        columns = (ops.convert_to_tensor(c, dtype=v.dtype) for c in recorded.columns)
        return replayed(recorded.formula, recorded.outputs, [v, *columns])


@register_keras_serializable(package="labelset")
class Entries(_Carried):
    """y pos(v) + (1 - y) neg(v) of every entry, of logits v and labels y in [0, 1].

    Unknown labels (NaN) count for nothing: the mean is over what is known. `sample_weight` may
    weigh rows or entries.

    >>> import numpy as np
    >>> loss = Entries("focal")
    >>> round(float(loss(np.array([[1.0, np.nan]]), np.array([[0.0, 3.0]]))), 4)
    0.1733
    """

    kind = Separable

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The loss of a batch, each row or entry weighed."""
        if sample_weight is not None:
            sample_weight = self._tensor(sample_weight)
            if len(sample_weight.shape) == 1:
                sample_weight = ops.expand_dims(sample_weight, -1)  # or it would weigh labels
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """(rows, labels) values, those of unknown labels 0."""
        on, off, v = _target(y_true, y_pred)
        pos, neg = self._both(v)
        known = on + off
        values = on * pos + off * neg
        if self.loss.reduction != "mean":
            return values
        # Keras divides by all entries
        count = ops.sum(known)
        return values * (ops.sum(ops.ones_like(known)) / ops.maximum(count, ops.ones_like(count)))


@register_keras_serializable(package="labelset")
class SmoothMetric(_Carried):
    """One minus a metric of the whole batch, from soft counts of true and false decisions.

    Take large batches. Unknown labels (NaN) are not counted; weights of rows have no meaning.

    >>> import numpy as np
    >>> round(float(SmoothMetric("sigmoid-f1")(np.array([[1.0], [0.0]]), np.zeros((2, 1)))), 4)
    0.5
    """

    kind = ConfusionLoss

    def _reduced(self) -> str:
        return "none"  # done here

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The loss of a batch."""
        if sample_weight is not None:
            raise ValueError(
                "a metric of the whole batch takes no sample_weight; mark what must not count as "
                "NaN in the labels"
            )
        return super().__call__(y_true, y_pred)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """One number, or with reduction="none" one per label or row."""
        on, off, v = _target(y_true, y_pred)
        yes, no = self._both(v)
        average = self.loss.average
        if average == "micro":
            yes, no, on, off = (ops.reshape(m, (-1, 1)) for m in (yes, no, on, off))
        axis = 1 if average == "samples" else 0
        counts = [ops.sum(a * b, axis) for a, b in ((yes, on), (yes, off), (no, on), (no, off))]
        ratio = ratio_of(self.loss)
        (values,) = replayed(ratio.formula, ratio.outputs, counts)
        some = ops.cast(ops.any(on + off > 0, axis), v.dtype)
        return self._mean(values, ops.sum(on, axis) if average == "weighted" else some)

    def _mean(self, values: Any, weights: Any) -> Any:
        if self.loss.reduction == "none":
            return ops.where(weights > 0, values, ops.zeros_like(values))
        total, count = ops.sum(values * weights), ops.sum(weights)
        if self.loss.reduction == "sum":
            return total
        return total / ops.where(count > 0, count, ops.ones_like(count))


KINDS = (Entries, SmoothMetric)


def _target(y: Any, v: Any) -> tuple[Any, Any, Any]:
    """How much each label is on and off, 0 both where it is unknown; the score there is 0."""
    if len(v.shape) != 2 or len(y.shape) != 2 or y.shape[1] != v.shape[1]:
        raise ValueError(
            f"logits and labels must both be (rows, labels), got {tuple(v.shape)} and "
            f"{tuple(y.shape)}"
        )
    known = ops.logical_not(ops.isnan(y))
    zero = ops.zeros_like(y)
    on = ops.where(known, y, zero)
    return on, ops.where(known, 1 - on, zero), ops.where(known, v, ops.zeros_like(v))


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
