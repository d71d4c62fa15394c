"""A linear head and its loss together, one block of labels at a time: the logits never exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from labelset import check
from labelset.kernels import IMPLEMENTATIONS, multiplied
from labelset.labels import Labels
from labelset.linear._blocks import Gradients, SgdStep, columns_of, entries_of
from labelset.losses import Separable, as_loss, kernel_target

__all__ = ["columns_of", "linear_loss", "linear_sgd_step"]


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
    step: SgdStep | None
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
        step: SgdStep | None = None,
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


class LinearLoss(torch.autograd.Function):
    """Gradients are worked out with the value; backward gives away the only reference to them.

    A second backward through the same graph computes them again; `create_graph=True` goes
    through the plain call.
    """

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, job: Job, learning: bool
    ) -> Tensor:
        wanted = tuple(learning and need for need in ctx.needs_input_grad[:3])
        outcome = job.run(features, weight, bias, wanted)
        ctx.job, ctx.wanted, ctx.gradients = job, wanted, outcome[1:]
        if job.step is None:
            ctx.save_for_backward(features, weight, bias)
        elif not weight.is_inference():
            torch.autograd.graph.increment_version(weight)  # a kernel does not say that it wrote
        return outcome.value

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        given = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *_plain(ctx, given, upstream), None, None
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None and ctx.job.step is not None:
            raise RuntimeError("linear_sgd_step has moved the weights: call backward on it once")
        if gradients is None:
            gradients = ctx.job.run(*given, ctx.wanted)[1:]
        return *(g if g is None else multiplied(g, upstream) for g in gradients), None, None


def _plain(ctx: Any, given: tuple[Any, ...], upstream: Tensor) -> list[Tensor | None]:
    """The gradients as functions of what they depend on."""
    if ctx.job.step is not None:
        raise RuntimeError("linear_sgd_step has moved the weights: it has no second derivative")
    value = ctx.job.eager(*given)
    needed = [t for t, want in zip(given, ctx.wanted, strict=True) if want]
    found = iter(torch.autograd.grad(value, needed, upstream, create_graph=True))
    return [next(found) if want else None for want in ctx.wanted]


def linear_loss(
    features: Tensor,
    weight: Tensor,
    labels: Any,
    loss: Any,
    bias: Tensor | None = None,
    impl: str = "auto",
) -> Tensor:
    """`loss(features @ weight.T + bias, labels)` with at most a block of the logits in memory.

    features (rows, d), weight (labels, d), bias (labels,); `loss` is separable, or the name of
    such a loss. The value, and the gradients of features, weight and bias, are those of the
    plain call; they are worked out with the value, so that backward only hands them over. Under
    autocast the products are in its dtype, and a float32 weight gets a float32 gradient. Learnt
    hyperparameters and labels that require grad are refused: they would get none.

    >>> from labelset import Labels
    >>> x, w = torch.ones(2, 3), torch.zeros(4, 3, requires_grad=True)
    >>> value = linear_loss(x, w, Labels.from_lists([[0], [1, 2]], n=4), "bce")
    >>> value.backward()
    >>> value, w.grad[:, 0]
    (tensor(0.6931, grad_fn=<LinearLossBackward>), tensor([0.0000, 0.0000, 0.0000, 0.1250]))
    """
    job = Job.of(features, weight, labels, loss, bias, impl)
    learning = torch.is_grad_enabled()
    value: Tensor = LinearLoss.apply(features, weight, bias, job, learning)  # type: ignore[no-untyped-call]
    return value


def linear_sgd_step(
    features: Tensor,
    weight: Tensor,
    labels: Any,
    loss: Any,
    lr: float,
    bias: Tensor | None = None,
    weight_decay: float = 0.0,
    seed: int = 0,
    impl: str = "auto",
) -> Tensor:
    """`linear_loss`, with a step of SGD on weight and bias made block by block on the way.

    No gradient of the weight ever exists, so that the weight itself is nearly all the memory it
    takes. The value carries the gradient of the features, for the encoder, taken before the step.
    Weights in bfloat16 are rounded up or down at random, so that steps too small for their eight
    bits are made on average; give another `seed` at every step.

    >>> from labelset import Labels
    >>> x, w = torch.ones(2, 3), torch.zeros(4, 3)
    >>> linear_sgd_step(x, w, Labels.from_lists([[0], [1, 2]], n=4), "bce", lr=1.0)
    tensor(0.6931)
    >>> w[:, 0]
    tensor([ 0.0000,  0.0000,  0.0000, -0.1250])
    """
    if weight.dtype not in (torch.float32, torch.float64, torch.bfloat16):
        raise TypeError(f"weight must be float32, float64 or bfloat16, got {weight.dtype}")
    rate = check.number("lr", lr, low=0.0)
    decay = check.number("weight_decay", weight_decay, low=0.0)
    step = SgdStep(rate, 1.0 - rate * decay, check.whole("seed", seed))
    w, b = weight.detach(), None if bias is None else bias.detach()
    job = Job.of(features, w, labels, loss, b, impl, step)
    learning = torch.is_grad_enabled()
    value: Tensor = LinearLoss.apply(features, w, b, job, learning)  # type: ignore[no-untyped-call]
    return value
