"""Metrics over batches and over processes: what a batch contributes is added or kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed

from labelset.labels import Labels

if TYPE_CHECKING:
    from labelset.metrics._base import Metric, Result

__all__ = ["Kept", "State", "Stream"]


class Kept:
    """Rows that a metric needs whole, because its value is not a function of sums."""

    def __init__(self, given: Tensor, labels: Labels) -> None:
        self.parts = [(given, labels)]

    def __add__(self, other: Kept) -> Kept:
        both = Kept.__new__(Kept)
        both.parts = self.parts + other.parts
        return both

    def copied(self) -> Kept:
        """The same in memory of its own, whatever becomes of the batch."""
        given, labels = self.together()
        return Kept(given.clone(), labels)

    def to_cpu(self) -> Kept:
        """The same in main memory."""
        given, labels = self.together()
        return Kept(given.cpu(), labels.to("cpu"))

    def together(self) -> tuple[Tensor, Labels]:
        """All rows in one."""
        if len(self.parts) > 1:
            given = torch.cat([part for part, _ in self.parts])
            self.parts = [(given, Labels.stack([labels for _, labels in self.parts]))]
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

    def update(self, given: Any, labels: Any) -> None:
        """Count a batch."""
        given, y = self.metric.checked(given, labels)
        if self.n not in (None, y.n):
            raise ValueError(f"batches must have equal numbers of labels, got {self.n} and {y.n}")
        state = self.metric.state(given, y)
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
