"""Which implementation computes a loss: the one named, or the fastest that is there."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from labelset.kernels import _native

__all__ = ["IMPLEMENTATIONS", "choose", "traced"]

IMPLEMENTATIONS = ("auto", "eager", "compiled", "triton", "native")


def choose(impl: str, scores: Tensor, labels: Any = None) -> str:
    """The implementation for these scores: `eager`, `compiled`, `triton` or `native`.

    `auto` never fails: it is `eager` while torch traces, differentiates or compiles the call
    itself, for tensors of other kinds than torch's own (such as DTensor), in float64, where labels
    want a gradient, and wherever nothing faster is there.
    """
    if impl in ("eager", "compiled"):
        return impl
    why = missing(impl, scores) or _reserved(labels)
    if impl == "auto":
        return "eager" if why else ("native" if scores.device.type == "cpu" else "triton")
    if why:
        raise RuntimeError(f'impl="{impl}" cannot be used here: {why}; use impl="auto"')
    return impl


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
        return None if _native.available() else "the package was built without its C extension"
    return _no_triton(scores)


def traced(t: Tensor) -> bool:
    """Whether a tensor has no memory that a kernel could read: torch traces it, or it is of a kind
    that tells torch what its operations do."""
    return (
        torch.compiler.is_compiling()
        or torch._C._functorch.is_functorch_wrapped_tensor(t)
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
    return find_spec("triton") is not None


@cache
def interpreting() -> bool:
    """Whether Triton's kernels run in its interpreter, on the CPU, as they do in tests."""
    import triton

    return bool(triton.knobs.runtime.interpret)
