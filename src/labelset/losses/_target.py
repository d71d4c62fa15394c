"""Dense labels as the losses read them: values, and which of them are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelset import _csr, check
from labelset.labels import Labels

__all__ = ["Target", "dense_target", "kernel_target"]


@dataclass(frozen=True, eq=False)  # (torch 2.6 cannot trace a property of a named tuple)
class Target:
    """(rows, labels) in the dtype of the scores; an unknown entry is 0 in both `on` and `off`."""

    on: Tensor
    """How much each label is on: y."""
    known: Tensor | None
    """Bool, or None when every entry is known."""
    hard: bool = False
    """Whether every known entry is surely 0 or 1."""

    @property
    def off(self) -> Tensor:
        """How much each label is off: 1 - y, and 0 where unknown."""
        return (1.0 if self.known is None else self.known.to(self.on.dtype)) - self.on


def dense_target(v: Tensor, labels: Any) -> tuple[Tensor, Target]:
    """Scores with 0 where the label is unknown (whatever they were there), and the labels."""
    y = labels.dense(v.dtype) if isinstance(labels, Labels) else _csr.as_tensor(labels)
    if not isinstance(labels, (Labels, Tensor)):
        y = y.to(v.device)
    check.same_place(v, y)
    if not isinstance(labels, Labels):
        check.unit_interval(y)
    if not y.is_floating_point() or (isinstance(labels, Labels) and labels.values is None):
        return v, Target(y.to(v.dtype), None, hard=True)
    known = ~y.isnan()
    zero = torch.zeros((), dtype=v.dtype, device=v.device)
    on = torch.where(known, y.to(v.dtype), zero)
    hard = check.can_look(on) and bool(((on == 0) | (on == 1)).all())
    if check.can_look(known) and bool(known.all()):
        return v, Target(on, None, hard)
    return torch.where(known, v, zero), Target(on, known, hard)


def kernel_target(v: Tensor, labels: Any) -> Tensor | Labels:
    """Labels as a kernel reads them, which also checks their values: as they are, beside `v`."""
    y = labels if isinstance(labels, Labels) else _csr.as_tensor(labels)
    if not isinstance(labels, (Labels, Tensor)):
        y = y.to(v.device)
    check.same_place(v, y)
    return y
