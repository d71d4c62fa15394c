"""Which implementation computes a loss: the one named, or the fastest that is there."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from labelset.kernels.native.calls import available
from labelset.labels import Labels
from labelset.torch_private import is_wrapped

IMPLEMENTATIONS = ("auto", "eager", "compiled", "triton", "native")
NOT_BUILT = "the package was built without its C extension"


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
