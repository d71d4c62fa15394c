"""Losses of labelset as Keras losses."""

from __future__ import annotations

from typing import Any

from keras import ops
from keras.losses import Loss as KerasLoss
from keras.saving import register_keras_serializable

from labelset.keras._formulas import Recorded, ratio_of, sides_of, steps_of
from labelset.keras._replay import replayed
from labelset.losses import Loss, Separable
from labelset.losses._confusion import ConfusionLoss
from labelset.losses._described import describe_loss, read_loss

__all__ = ["KINDS", "Entries", "SmoothMetric"]

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
