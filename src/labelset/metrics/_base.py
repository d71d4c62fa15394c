"""Metric: scores, probabilities or label sets, against `Labels`, to a number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from labelset import _given
from labelset.labels import Labels
from labelset.metrics._stream import State, Stream

__all__ = ["Metric", "Result", "RowMean", "mean_of_defined", "ratio"]

CHECKED = {
    "scores": lambda given, labels: _hard_truth(*_given.paired_scores(given, labels)),
    "probabilities": _given.paired_probabilities,
    "label sets": _given.label_sets,
}


def _hard_truth(v: Tensor, y: Labels) -> tuple[Tensor, Labels]:
    return v, _given.hard(y)


@dataclass(frozen=True)
class Result:
    """The number, and what it was made of."""

    value: float
    each: Tensor | None = None
    """The value of each class or row, NaN where it is not defined; None where there are none."""
    left_out: int = 0
    """How many classes or rows were left out because the metric is not defined for them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Metric(ABC):
    """A number that says how good predictions are.

    Subclasses give `state`, what a batch contributes, and `result`, the number made of it. The
    metric of whole arrays and the one that streams over batches are then the same by construction.

    >>> from labelset.metrics import build
    >>> metric = build("f1-micro")
    >>> metric([[1, 0], [1, 1]], [[1, 0], [0, 1]])
    0.8
    >>> stream = metric.stream()
    >>> for row in (0, 1):
    ...     stream.update([[[1, 0]], [[1, 1]]][row], [[[1, 0]], [[0, 1]]][row])
    >>> stream.compute()
    0.8
    """

    takes: ClassVar[str]
    """`scores`, `probabilities` or `label sets`: what its first argument must be."""
    higher_is_better: ClassVar[bool] = True
    best: ClassVar[float] = 1.0
    """The value of perfect predictions; NaN where it depends on the labels."""
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    """Hyperparameters with which the laws and the docs try the metric."""
    worked: ClassVar[tuple[dict[str, Any], ...]] = ()
    """Cases worked by hand, which a law holds the metric to: what is `given`, the `labels`, the
    `value`, and where they matter `left_out` (0 unless said) and the `settings`."""

    def __call__(self, given: Any, labels: Any) -> float:
        return self.report(given, labels).value

    def report(self, given: Any, labels: Any) -> Result:
        """The value with its parts."""
        return self.result(self.state(*self.checked(given, labels)))

    def checked(self, given: Any, labels: Any) -> tuple[Any, Labels]:
        """Both arguments, checked, as `state` wants them."""
        checked: tuple[Any, Labels] = CHECKED[self.takes](given, labels)
        return checked

    def stream(self) -> Stream:
        """An accumulator: update with batches, compute at the end."""
        return Stream(self)

    @abstractmethod
    def state(self, given: Any, labels: Labels) -> State:
        """What these rows contribute: tensors, which add up over batches, and `Kept` rows."""

    @abstractmethod
    def result(self, state: State) -> Result:
        """The number made of it."""

    def settings(self) -> dict[str, Any]:
        """The hyperparameters."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


class RowMean(Metric):
    """The mean of a value per row, over the rows for which it is defined."""

    why_undefined: ClassVar[str] = "no row has a label that is on"

    @abstractmethod
    def rows(self, given: Any, labels: Labels) -> Tensor:
        """One value per row, NaN where it is not defined."""

    def report(self, given: Any, labels: Any) -> Result:
        given, y = self.checked(given, labels)
        each = self.rows(given, y)
        whole = self.result(_row_sums(each))
        return Result(whole.value, each, whole.left_out)

    def state(self, given: Any, labels: Labels) -> State:
        return _row_sums(self.rows(given, labels))

    def result(self, state: State) -> Result:
        counted = int(state["rows"])
        if not counted:
            raise ValueError(f"not defined: {self.why_undefined}")
        return Result(float(state["sum"] / counted), left_out=int(state["left_out"]))


def _row_sums(each: Tensor) -> State:
    defined = ~each.isnan()
    total = each.double().nan_to_num(0.0).sum()
    return {"sum": total, "rows": defined.sum(), "left_out": (~defined).sum()}


def mean_of_defined(each: Tensor, why: str) -> Result:
    """The mean of what is not NaN; an error where nothing is."""
    defined = ~each.isnan()
    if not bool(defined.any()):
        raise ValueError(f"not defined: {why}")
    value = float(each[defined].double().mean())
    return Result(value, each, int((~defined).sum()))


def ratio(top: Tensor, bottom: Tensor, otherwise: float = torch.nan) -> Tensor:
    """top / bottom in float64, and another value where the bottom is 0."""
    top, bottom = top.double(), bottom.double()
    return torch.where(bottom > 0, top / bottom.clamp(min=1e-300), otherwise)
