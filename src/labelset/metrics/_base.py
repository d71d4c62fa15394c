"""Metric: scores, probabilities or label sets, against `Labels`, to a number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import Any, ClassVar

import torch
from torch import Tensor, distributed

from labelset import check, inputs
from labelset.catalog import hyper
from labelset.display import Shown
from labelset.labels import Labels

CHECKED = {
    "scores": lambda given, labels: _hard_truth(*inputs.paired_scores(given, labels)),
    "probabilities": inputs.paired_probabilities,
    "label sets": inputs.label_sets,
}


def _hard_truth(v: Tensor, y: Labels) -> tuple[Tensor, Labels]:
    return v, inputs.hard(y)


@dataclass(frozen=True)
class Result(Shown):
    """The number, and what it was made of."""

    value: float
    each: Tensor | None = None
    """The value of each class or row, NaN where it is not defined; None where there are none."""
    left_out: int = 0
    """How many classes or rows were left out because the metric is not defined for them."""

    def headline(self) -> str:
        left_out = f"; {self.left_out:,} left out, not being defined" if self.left_out else ""
        return f"{self.value:.4f}{left_out}"

    def records(self) -> list[dict[str, Any]]:
        """The value of each class or row, or the one value."""
        if self.each is None:
            return [{"value": self.value}]
        return [{"number": at, "value": value} for at, value in enumerate(self.each.tolist())]


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

    def __call__(self, given: Any, labels: Any, sample_weight: Any = None) -> float:
        return self.report(given, labels, sample_weight).value

    def report(self, given: Any, labels: Any, sample_weight: Any = None) -> Result:
        """The value with its parts. `sample_weight`: how much each row counts."""
        return self.result(self.state(*self.weighted(given, labels, sample_weight)))

    def checked(self, given: Any, labels: Any) -> tuple[Any, Labels]:
        """Both arguments, checked, as `state` wants them."""
        checked: tuple[Any, Labels] = CHECKED[self.takes](given, labels)
        return checked

    @property
    def weighs(self) -> bool:
        """Whether rows can weigh differently: `state` then takes their weights, too."""
        return len(signature(self.state).parameters) > 2

    def weighted(self, given: Any, labels: Any, sample_weight: Any) -> tuple[Any, ...]:
        """What `state` takes, checked: of weighted rows those above 0, and their weights, which
        labels may bring along."""
        given, y = self.checked(given, labels)
        if sample_weight is None:
            sample_weight = y.row_weights
        if sample_weight is None:
            return given, y
        if not self.weighs:
            raise TypeError(f"{self!r} takes no sample_weight; repeat or leave out rows instead")
        weight = inputs.row_weights(sample_weight, len(y)).to(y.device)
        some = weight.nonzero()[:, 0]
        return given[some], y[some], weight[some]

    def stream(self) -> Stream:
        """An accumulator: update with batches, compute at the end."""
        return Stream(self)

    @abstractmethod
    def state(self, given: Any, labels: Labels, weight: Tensor | None = None) -> State:
        """What these rows contribute: tensors, which add up over batches, and `Kept` rows."""

    @abstractmethod
    def result(self, state: State) -> Result:
        """The number made of it."""

    def settings(self) -> dict[str, Any]:
        """The hyperparameters."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


class RowMean(Metric):
    """The mean of a value per row, over the rows for which it is defined."""

    why_undefined: ClassVar[str] = "no row has a positive label"

    @abstractmethod
    def rows(self, given: Any, labels: Labels) -> Tensor:
        """One value per row, NaN where it is not defined."""

    def report(self, given: Any, labels: Any, sample_weight: Any = None) -> Result:
        given, y, *weight = self.weighted(given, labels, sample_weight)
        each = self.rows(given, y)
        return replace(self.result(row_sums(each, *weight)), each=each)

    def state(self, given: Any, labels: Labels, weight: Tensor | None = None) -> State:
        return row_sums(self.rows(given, labels), weight)

    def result(self, state: State) -> Result:
        return mean_of_rows(state, self.why_undefined)


def check_undefined(value: float | None) -> None:
    """A number in [0, 1], or None."""
    if value is not None:
        check.number("undefined", value, low=0.0, high=1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class WithUndefined(RowMean):
    """A row's value may not be defined though something is known of the row."""

    undefined: float | None = hyper(
        None, "the value of a row for which it is not defined; None leaves it out"
    )

    def __post_init__(self) -> None:
        check_undefined(self.undefined)

    @abstractmethod
    def defined(self, given: Any, labels: Labels) -> Tensor:
        """One value per row, NaN where it is not defined."""

    def rows(self, given: Any, labels: Labels) -> Tensor:
        each = self.defined(given, labels)
        return with_undefined(each, known_counts(labels, by_class=False), self.undefined)


def row_sums(each: Tensor, weight: Tensor | None = None) -> State:
    """What the mean over rows is made of, from a value per row, NaN where it is not defined."""
    defined = ~each.isnan()
    total, rows = each.double().nan_to_num(0.0), defined
    if weight is not None:
        total, rows = total * weight, defined * weight
    return {"sum": total.sum(), "rows": rows.sum(), "left_out": (~defined).sum()}


def mean_of_rows(state: State, why: str) -> Result:
    """The mean that `row_sums` add up to; an error where no row has a value."""
    if not float(state["rows"]):
        raise ValueError(f"not defined: {why}")
    return Result(float(state["sum"] / state["rows"]), left_out=int(state["left_out"]))


def with_undefined(each: Tensor, known: Tensor, value: float | None) -> Tensor:
    """That value where a line has none of its own and something is known of it."""
    return each if value is None else torch.where(each.isnan() & (known > 0), value, each)


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


def confusion_counts(
    predicted: Labels, labels: Labels, by_class: bool, weight: Tensor | None = None
) -> Tensor:
    """(3, classes or rows): true positives, false positives, false negatives; unknown left out.

    With a weight per row the sums of these.
    """
    ours, theirs = entry_keys(predicted), entry_keys(labels)
    free = None if labels.values is None else labels.values.isnan()
    on = theirs if free is None else theirs[~free]
    counted = ours if free is None else ours[~is_among(ours, theirs[free])]
    hit = is_among(counted, on)
    return torch.stack(
        [
            _count(counted[hit], labels, by_class, weight),
            _count(counted[~hit], labels, by_class, weight),
            _count(on[~is_among(on, counted)], labels, by_class, weight),
        ]
    )


def known_counts(labels: Labels, by_class: bool, weight: Tensor | None = None) -> Tensor:
    """(classes or rows,): how many entries are known; with a weight per row the sums of these."""
    if weight is None:
        lines, width = labels.shape[::-1] if by_class else labels.shape
        full = torch.full((lines,), width, device=labels.device)
    else:
        full = weight.sum().expand(labels.n) if by_class else labels.n * weight
    if labels.values is None:
        return full
    return full - _count(entry_keys(labels)[labels.values.isnan()], labels, by_class, weight)


def entry_keys(labels: Labels) -> Tensor:
    """Each stored entry as one rising number."""
    return labels.rows() * labels.n + labels.indices


def is_among(keys: Tensor, others: Tensor) -> Tensor:
    """Which of some rising numbers are among others, rising too."""
    if not len(others):
        return torch.zeros(len(keys), dtype=torch.bool, device=keys.device)
    at = torch.searchsorted(others, keys).clamp(max=len(others) - 1)
    return others[at] == keys


def _count(keys: Tensor, labels: Labels, by_class: bool, weight: Tensor | None) -> Tensor:
    lines = labels.n if by_class else len(labels)
    if not labels.n:
        return torch.zeros(lines, dtype=torch.int64, device=keys.device)
    row = keys // labels.n
    each = None if weight is None else weight[row]
    return torch.bincount(keys % labels.n if by_class else row, weights=each, minlength=lines)


class Kept:
    """Rows that a metric needs whole, because its value is not a function of sums."""

    def __init__(self, given: Tensor, labels: Labels, weight: Tensor | None = None) -> None:
        self.parts = [(given, labels, weight)]

    def __add__(self, other: Kept) -> Kept:
        both = Kept.__new__(Kept)
        both.parts = self.parts + other.parts
        return both

    def copied(self) -> Kept:
        """The same in memory of its own, whatever becomes of the batch."""
        given, labels, weight = self.together()
        return Kept(given.clone(), labels, weight)

    def to_cpu(self) -> Kept:
        """The same in main memory."""
        given, labels, weight = self.together()
        return Kept(given.cpu(), labels.to("cpu"), None if weight is None else weight.cpu())

    def together(self) -> tuple[Tensor, Labels, Tensor | None]:
        """All rows in one, with their weights unless no row has one."""
        if len(self.parts) > 1:
            given, labels, weight = zip(*self.parts, strict=True)
            whole = None
            if any(w is not None for w in weight):
                each = zip(given, weight, strict=True)
                whole = torch.cat(
                    [v.new_ones(len(v)).double() if w is None else w for v, w in each]
                )
            self.parts = [(torch.cat(given), Labels.stack(labels), whole)]
        return self.parts[0]


State = dict[str, Any]
"""Tensors, which add up, and `Kept`, which is put together."""


class Stream:
    """An accumulator for one metric: update with batches, compute when done.

    >>> from labelset.metrics import build
    >>> stream = build("hamming").stream()
    >>> stream.update([[1, 0]], [[1, 1]])
    >>> stream.update([[0, 0]], [[0, 0]])
    >>> stream.compute()
    0.25
    """

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.total: State | None = None
        self.n: int | None = None

    def update(self, given: Any, labels: Any, sample_weight: Any = None) -> None:
        """Count a batch."""
        given, y, *weight = self.metric.weighted(given, labels, sample_weight)
        if self.n not in (None, y.n):
            raise ValueError(f"batches must have equal numbers of labels, got {self.n} and {y.n}")
        state = self.metric.state(given, y, *weight)
        self.n = y.n
        kept = {key: v.copied() if isinstance(v, Kept) else v for key, v in state.items()}
        self._add(kept)

    def compute(self) -> float:
        """The value over all that was counted."""
        return self.report().value

    def report(self) -> Result:
        """The same, with its parts."""
        if self.total is None:
            raise ValueError("nothing was counted yet: call update(...) first")
        return self.metric.result(self.total)

    def reset(self) -> None:
        """Forget everything."""
        self.total, self.n = None, None

    def merge(self, other: Stream) -> None:
        """Count what another stream of an equal metric has counted."""
        if not _equal(self.metric, other.metric):
            raise ValueError("only streams of the same metric with the same settings can be merged")
        if None not in (self.n, other.n) and self.n != other.n:
            raise ValueError(f"streams must have equal numbers of labels: {self.n}, {other.n}")
        if other.total is not None:
            self.n = other.n
            self._add(other.total)

    def gather(self) -> Stream:
        """A stream of what all processes have counted, where torch.distributed is running."""
        everyone = Stream(self.metric)
        if not (distributed.is_available() and distributed.is_initialized()):
            everyone.merge(self)
            return everyone
        parts: list[Any] = [None] * distributed.get_world_size()
        distributed.all_gather_object(parts, (_on_cpu(self.total), self.n))
        for total, n in parts:
            if total is not None:
                everyone.n = n
                everyone._add(total)
        return everyone

    def _add(self, state: State) -> None:
        old = self.total
        self.total = state if old is None else {key: old[key] + state[key] for key in old}


def _on_cpu(state: State | None) -> State | None:
    """Processes may sit on different devices; what they count meets in main memory."""
    if state is None:
        return None
    return {key: v.to_cpu() if isinstance(v, Kept) else v.cpu() for key, v in state.items()}


def _equal(one: Metric, other: Metric) -> bool:
    if type(one) is not type(other):
        return False
    pairs = zip(one.settings().values(), other.settings().values(), strict=True)
    return all(torch.equal(a, b) if isinstance(a, Tensor) else a == b for a, b in pairs)
