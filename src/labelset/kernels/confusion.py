"""Smooth metrics by kernels: sums of soft decisions, a ratio, and the gradient back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from labelset.formulas.formula import Formula
from labelset.formulas.passes import lower
from labelset.formulas.tracer import trace
from labelset.kernels.dispatch import Kernel, Result, label_types
from labelset.kernels.native.confusion import Ratio, ratio, soft_ratios
from labelset.kernels.native.program import Program, check_room
from labelset.labels import Labels

Outputs = tuple[Formula, tuple[int, ...]]
COLUMNS = 2  # how many per-label parameters a kernel reads


@dataclass(eq=False)
class SmoothMetric:
    """A smooth metric as formulas, with the per-label parameters that they read."""

    decide: Outputs
    """yes(v), no(v) and their slopes."""
    ratio: Outputs
    """The loss of tp, fp, fn and tn, and its slope by each."""
    opposite: bool
    """Whether the slope of `no` is minus that of `yes`."""
    columns: list[Tensor]
    texts: dict[bool, tuple[str, str, str]] = field(default_factory=dict)

    @property
    def counts_last(self) -> bool:
        """Whether the loss depends on tn, to which nearly every entry adds."""
        formula, outputs = self.ratio
        return formula.known(outputs[4]) != 0

    @cached_property
    def program(self) -> Program:
        return Program(*self.decide)

    @cached_property
    def native_ratio(self) -> Ratio:
        return ratio(*self.ratio)

    def text(self, short: bool) -> tuple[str, str, str]:
        """Triton functions of the decision, its slopes and the ratio; `short`: 16-bit scores."""
        from labelset.kernels.triton.source import source

        if short not in self.texts:
            formula, outputs = self.decide
            inputs = 1 + len(self.columns)
            halves = (lower(formula, half) for half in (outputs[:2], outputs[2:]))
            both = [source(*half, inputs, short) for half in halves]
            self.texts[short] = (both[0], both[1], source(*self.ratio, 4))
        return self.texts[short]


def traced_metric(
    decide: Callable[[Tensor], tuple[Tensor, Tensor]],
    loss: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    width: int,
    device: Any,
) -> SmoothMetric | None:
    """The formulas of a metric; None where they need learnt or too many per-label parameters."""
    f, (yes, no), columns = trace(lambda v: decide(v), 1, width, device)
    if any(t.requires_grad for t in columns) or len(columns) > COLUMNS:
        return None
    v = f.input(0)
    slopes = f.slope(yes, v), f.slope(no, v)
    r, (value,), _ = trace(lambda tp, fp, fn, tn: (loss(tp, fp, fn, tn),), 4)
    ratio = lower(r, (value, *(r.slope(value, r.input(k)) for k in range(4))))
    opposite = f.neg(slopes[0]) == slopes[1]
    metric = SmoothMetric(lower(f, (yes, no, *slopes)), ratio, opposite, columns)
    check_room(metric.program, device)
    return metric


def confusion(
    metric: SmoothMetric,
    impl: str,
    scores: Tensor,
    labels: Tensor | Labels,
    average: str,
    mean: bool,
) -> Kernel:
    """The mean over groups of which something is known, or the sum, for all such matrices."""
    if impl == "native":
        return lambda v, y: _by_native(metric, v, y, average, mean)
    from labelset.kernels.triton.confusion import metric_kernel

    return metric_kernel(metric, scores, label_types(labels), average, mean)


def _by_native(
    metric: SmoothMetric, v: Tensor, labels: Tensor | Labels, average: str, mean: bool
) -> Result:
    given = metric.program, metric.columns, v, labels
    how = average, mean, metric.counts_last, metric.native_ratio
    value, gradient, share = soft_ratios(*given, *how)
    rest = None if share == 1 else torch.tensor(share, dtype=torch.float32)
    return torch.tensor(value, dtype=torch.float32), gradient, rest
