"""Which implementation computes a loss, the one named or the fastest that is there; and how its
gradient, which is computed with the value, is handed over when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.kernels.native.calls import available
from labelset.labels import Labels
from labelset.torch_private import is_wrapped

IMPLEMENTATIONS = ("auto", "eager", "compiled", "triton", "native")
NOT_BUILT = "the package was built without its C extension"
SMALL = 2**18  # entries for which a pass costs less than a look

Result = tuple[Tensor, Tensor, Tensor | None]
"""Value; its gradient by the scores; what that is still to be multiplied by (None: nothing)."""
Kernel = Callable[[Tensor, Any], Result]
"""Of scores and labels, all of one kind."""


def choose(impl: str, scores: Tensor, labels: Any = None) -> str:
    """The implementation for these scores: `eager`, `compiled`, `triton` or `native`.

    `auto` never fails: it is `eager` while torch traces, differentiates or compiles the call
    itself, for tensors of other kinds than torch's own (such as DTensor), in float64, where labels
    require grad, and wherever nothing faster is there.
    """
    if impl in ("eager", "compiled"):
        return impl
    why = missing(impl, scores) or _reserved(labels)
    if impl == "auto":
        if why == NOT_BUILT:
            from labelset.extensions import warn_slow

            warn_slow()
        return "eager" if why else ("native" if scores.device.type == "cpu" else "triton")
    if why:
        raise RuntimeError(f'impl="{impl}" cannot be used here: {why}; use impl="auto"')
    return impl


def in_use(device: torch.device | str) -> str:
    """What computes losses on a device, in words."""
    impl = choose("auto", torch.empty(1, 1, device=device))
    return {"native": "C loops", "triton": "Triton kernels"}.get(impl, "plain formulas in torch")


def missing(impl: str, scores: Tensor) -> str | None:
    """Why no kernel can be used on these scores; None where one can."""
    if traced(scores):
        return "torch is tracing this call"
    if scores.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"the kernels compute in float32, the logits are {scores.dtype}"
    on_cpu = scores.device.type == "cpu"
    if impl == "native" or (impl == "auto" and on_cpu):
        if not on_cpu:
            return f"it is for the CPU, the logits are on {scores.device}"
        if scores.dtype == torch.float16:
            return "on a CPU the kernels read float32 and bfloat16, the logits are float16"
        return None if available() else NOT_BUILT
    return _no_triton(scores)


def traced(t: Tensor) -> bool:
    """Whether a tensor has no memory that a kernel could read: torch traces it, or it is of a kind
    that tells torch what its operations do."""
    return (
        torch.compiler.is_compiling()
        or is_wrapped(t)
        or type(t).__torch_dispatch__ is not Tensor.__torch_dispatch__
    )


def _reserved(labels: Any) -> str | None:
    """Why no kernel may read these labels; None where one may."""
    if not isinstance(labels, Tensor):
        return None
    if traced(labels):
        return "torch is tracing this call"
    return "no kernel gives labels a gradient, and these want one" if labels.requires_grad else None


def _no_triton(scores: Tensor) -> str | None:
    if not has_triton():
        return "the package triton is not installed"
    if scores.device.type == "cuda" or interpreting():
        return None
    return f"Triton's kernels are for a GPU, the logits are on {scores.device}"


@cache
def has_triton() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


@cache
def interpreting() -> bool:
    """Whether Triton's kernels run in its interpreter, on the CPU, as they do in tests."""
    import triton

    return bool(triton.knobs.runtime.interpret)


# ---- what a kernel is compiled for ---------------------------------------------------------------

NARROW = 2**31 - 2**16  # stored entries, and what a kernel may count on beyond the last

LabelTypes = torch.dtype | tuple[torch.dtype, torch.dtype, torch.dtype | None]
"""The dtype of dense labels; those of stored ones, of their places and of values, if any."""


def signature(scores: Any, labels: Any) -> tuple[Any, ...] | None:
    """Equal for calls that pass the same checks and go by the same kernel.

    None where a call has to be looked at each time: torch is tracing it, no tensors are given, or
    the labels require grad.
    """
    if not isinstance(scores, Tensor) or not isinstance(labels, (Tensor, Labels)):
        return None
    layout = None
    if isinstance(labels, Tensor):
        if labels.requires_grad or traced(labels):
            return None
        layout = labels.layout
    if traced(scores):
        return None
    given = type(scores), scores.shape, scores.dtype, scores.device
    return *given, type(labels), labels.shape, label_types(labels), labels.device, layout


def label_types(labels: Tensor | Labels) -> LabelTypes:
    """What a kernel that reads these labels is compiled for."""
    if isinstance(labels, Labels):
        values = None if labels.values is None else labels.values.dtype
        return labels.indices.dtype, place_type(labels), values
    return labels.dtype


def place_type(labels: Labels) -> torch.dtype:
    """What a kernel counts stored entries in: the smaller type, wherever that will do."""
    return torch.int32 if labels.indices.numel() < NARROW else torch.int64


def label_kind(types: LabelTypes) -> tuple[str, bool]:
    """How a kernel reads such labels, and whether they may be soft or unknown."""
    if isinstance(types, tuple):
        return "stored", types[-1] is not None
    if types == torch.bool:
        return "bits", False
    return ("soft", True) if types.is_floating_point else ("hard", False)


# ---- its gradient -------------------------------------------------------------------------------


def differentiable(
    scores: Tensor, labels: Any, kernel: Kernel, eager: Callable[[Tensor, Any], Tensor]
) -> Tensor:
    """The value of `kernel`, with its gradient; `eager`: the same loss, for second derivatives."""
    value: Tensor = _Fused.apply(scores, (labels, kernel, eager))  # type: ignore[no-untyped-call]
    return value


class _Fused(torch.autograd.Function):
    """Keeps the gradient, unlike the values from which autograd would work it out.

    Backward gives away the only reference to it, so that nothing is copied. A second backward
    through the same graph computes it again; `create_graph=True` goes through the eager formula.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, job: tuple[Any, Kernel, Any]) -> Tensor:
        labels, kernel, _ = job
        value, ctx.gradient, ctx.factor = kernel(scores, labels)
        ctx.job = job
        ctx.save_for_backward(scores)
        return value

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        if torch.is_grad_enabled():
            (scores,), (labels, _, eager) = ctx.saved_tensors, ctx.job
            value = eager(scores, labels)
            (slope,) = torch.autograd.grad(value, scores, upstream, create_graph=True)
            return slope, None
        gradient, ctx.gradient = ctx.gradient, None
        if gradient is None:
            (scores,), (labels, kernel, _) = ctx.saved_tensors, ctx.job
            gradient = kernel(scores, labels)[1]
        return multiplied(gradient, upstream, ctx.factor), None


def multiplied(gradient: Tensor, upstream: Tensor, factor: Tensor | None = None) -> Tensor:
    """The gradient times one or two numbers, in place; no pass is made where that is one.

    On a GPU it is the kernel that looks at the numbers: the host does not wait for them.
    """
    if gradient.is_cuda and gradient.numel() > SMALL and has_triton():
        from labelset.kernels.triton.launch import multiply_

        return multiply_(gradient, upstream, factor)
    times = upstream if factor is None else upstream * factor
    if gradient.is_cpu and bool(times == 1):
        return gradient
    return gradient.mul_(times)


def compiled(eager: Callable[[Tensor, Any], Tensor]) -> Kernel:
    """The loss of that formula, for scores and labels of every kind."""

    def both(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = torch.func.grad_and_value(eager)(scores, labels)
        return found

    both = torch.compile(both)

    def kernel(scores: Tensor, labels: Tensor | Labels) -> Result:
        if isinstance(labels, Labels):
            labels = labels.dense(scores.dtype)
        else:
            check.unit_interval(labels)
        gradient, value = both(scores.detach(), labels)
        return value, gradient, None

    return kernel
