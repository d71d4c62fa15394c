"""What torch does not promise to keep: every name of its internals that labelset uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode

is_wrapped: Callable[[Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor
"""Whether functorch (`vmap`, `grad`) has wrapped a tensor, whose values nobody can read then."""
raw_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # type: ignore[assignment]
"""The address of a device's current stream, without the object that torch makes of it."""
current_device: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", None)  # type: ignore[assignment]
"""The same of the current device; a torch without CUDA has neither, and nobody asks it."""


def assert_on_device(good: Tensor, message: str) -> None:
    """Fails later, from the device, where `good` is False; nothing waits for it."""
    torch._assert_async(good, message)


class DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operation that torch carries out, without loading torch's compiler for it."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)  # type: ignore[no-untyped-call]

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No compiler is at work here; to tell it so, torch would load all of it, for a second."""
        return False


def adamw(
    weights: list[Tensor],
    slopes: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
    step: int,
    lr: float,
    weight_decay: float,
) -> None:
    """One step of AdamW in place, with torch's defaults; `step` counts from 1.

    `torch.optim.AdamW` does the same, but loads torch's compiler, for seconds.
    """
    counts = [torch.tensor(float(step), device=weights[0].device)] * len(weights)
    torch._fused_adamw_(  # type: ignore[attr-defined, unused-ignore]
        *(weights, slopes, means, squares, [], counts),
        lr=lr,
        beta1=0.9,
        beta2=0.999,
        weight_decay=weight_decay,
        eps=1e-8,
        amsgrad=False,
        maximize=False,
    )


def load_compiler() -> None:
    """Optimisers load it: once in this process, not in each one that is forked from it."""


def forget_compiled() -> None:
    """All that torch.compile has compiled so far."""
    import torch._dynamo

    torch._dynamo.reset()


def compiler_error() -> type[Exception]:
    """What torch.compile raises where it cannot compile."""
    import torch._dynamo

    error: type[Exception] = torch._dynamo.exc.TorchDynamoException
    return error


def group_store() -> Any:
    """Where the ranks of the process group found each other; it can count."""
    from torch.distributed.distributed_c10d import _get_default_store

    return _get_default_store()
