"""A checked call of `linear_loss`, and its work: block after block of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from labelset import check
from labelset.kernels._choice import IMPLEMENTATIONS
from labelset.labels import Labels
from labelset.linear._entries import entries_of
from labelset.linear._sums import Gradients, Step
from labelset.losses import Separable
from labelset.losses._base import as_loss
from labelset.losses._target import kernel_target

__all__ = ["Job", "Outcome"]


class Outcome(NamedTuple):
    """The value, and the gradients of features, weight and bias that were wanted."""

    value: Tensor
    features: Tensor | None
    weight: Tensor | None
    bias: Tensor | None


@dataclass(frozen=True)
class Job:
    """Everything but the three tensors that have gradients."""

    labels: Tensor | Labels
    loss: Separable
    impl: str
    step: Step | None
    dtype: torch.dtype
    """What the products are computed in."""

    @classmethod
    def of(
        cls,
        features: Tensor,
        weight: Tensor,
        labels: Any,
        loss: Any,
        bias: Tensor | None,
        impl: str,
        step: Step | None = None,
    ) -> Job:
        """Checks the kind of loss, shapes and devices."""
        found = as_loss("loss", loss, Separable)
        if found.reduction == "none":
            raise ValueError('no values are kept here: use reduction="mean" or "sum"')
        wanting = found._learns() or (isinstance(labels, Tensor) and labels.requires_grad)
        if wanting and torch.is_grad_enabled():
            raise ValueError(
                "hyperparameters and labels get no gradient here: detach them, or use "
                "loss(linear(features, weight, bias), labels)"
            )
        _check_fit(features, weight, bias)
        logits = features.new_empty(()).expand(len(features), len(weight))  # their shape only
        target = kernel_target(logits, labels)
        if isinstance(target, Tensor):
            check.unit_interval(target)
        kind = features.device.type
        dtype = torch.promote_types(features.dtype, weight.dtype)
        if torch.is_autocast_enabled(kind):
            dtype = torch.get_autocast_dtype(kind)
        return cls(target, found, check.one_of("impl", impl, IMPLEMENTATIONS), step, dtype)

    def eager(self, features: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The plain call, for second derivatives."""
        b = None if bias is None else bias.to(self.dtype)
        return self.loss.eager(
            linear(features.to(self.dtype), weight.to(self.dtype), b), self.labels
        )

    def run(
        self, features: Tensor, weight: Tensor, bias: Tensor | None, wanted: tuple[bool, ...]
    ) -> Outcome:
        """The value and the wanted gradients; makes the step of SGD where there is one."""
        x = features.to(self.dtype)
        scale, share = self._scale(len(x) * len(weight))
        entries = entries_of(self.loss, self.impl, self.labels, x, weight)
        sums = Gradients(features, weight, bias, wanted, scale, share, self.step)
        differentiate = any(wanted) or self.step is not None
        for first, last in entries.blocks:
            w = weight[first:last].to(x.dtype)
            b = None if bias is None else bias[first:last].to(x.dtype)
            slope = entries.slopes(x, w, b, first, last)
            if differentiate:
                sums.add(slope, x, w, first, last)
        value = entries.total() * scale
        return Outcome(value if share is None else value * share, *sums.result())

    def _scale(self, entries: int) -> tuple[float, Tensor | None]:
        """What values are multiplied by, and, where some are unknown, what more: a tensor."""
        if self.loss.reduction == "sum":
            return 1.0, None
        y = self.labels.values if isinstance(self.labels, Labels) else self.labels
        unknown = None if y is None or not y.is_floating_point() else y.isnan().sum()
        if unknown is None:
            return 1.0 / max(entries, 1), None
        wide = torch.float64 if self.dtype == torch.float64 else torch.float32
        return 1.0 / max(entries, 1), entries / (entries - unknown).clamp(min=1).to(wide)


def _check_fit(features: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    for name, t in (("features", features), ("weight", weight)):
        if not isinstance(t, Tensor) or not t.is_floating_point() or t.ndim != 2:
            got = f"{t.dtype} of shape {tuple(t.shape)}" if isinstance(t, Tensor) else type(t)
            raise TypeError(f"{name} must be a 2-D floating-point tensor, got {got}")
    if features.shape[1] != weight.shape[1]:
        raise ValueError(
            f"features have {features.shape[1]} columns and weight has {weight.shape[1]}; both "
            "must be the width of the encoder"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias must have shape {tuple(weight.shape[:1])}, got {tuple(bias.shape)}")
    for name, other in (("weight", weight), ("bias", bias)):
        if other is not None and other.device != features.device:
            raise ValueError(f"features are on {features.device}, {name} on {other.device}")
