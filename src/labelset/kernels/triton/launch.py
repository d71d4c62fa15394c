"""Kernels launched again without asking Triton anew which of its compiled versions to take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, reduce
from operator import or_
from typing import Any, NamedTuple

import torch
from torch import Tensor

from labelset.torch_private import current_device, raw_stream

ALIGNED = 16  # bytes: what a compiled version may take for granted of the addresses it is given
ASSERTING = {"debug": True, "sanitize_overflow": False}
"""With what Triton compiles a kernel that asserts something, as torch's own kernels do."""
SCALED, PROGRAMS = 4096, 1056  # eight programs for each multiprocessor of a large GPU


def column_constants(columns: Sequence[Tensor]) -> dict[str, int]:
    """What a kernel is compiled for: how many per-label parameters it reads, and how far apart
    their values are (0: one value for all labels)."""
    first, second = (*(int(t.numel() > 1) for t in columns), 0, 0)[:2]
    return {"COLUMNS": len(columns), "STRIDE0": first, "STRIDE1": second}


def padded(columns: Sequence[Tensor], scores: Tensor) -> tuple[Tensor, Tensor]:
    """Two tensors of per-label parameters as kernels take them; the scores, which are not read
    there, in the place of one that is missing."""
    first, second = (*(t.contiguous() for t in columns), scores, scores)[:2]
    return first, second


class Segment(NamedTuple):
    """Some numbers of a float32 tensor: an address, which a view of it would cost more than."""

    whole: Tensor
    start: int
    size: int

    def data_ptr(self) -> int:
        """Its address."""
        return self.whole.data_ptr() + 4 * self.start

    def view(self) -> Tensor:
        """The same as a tensor."""
        return self.whole[self.start : self.start + self.size]


def numbers(device: torch.device, *shape: int) -> Tensor:
    """Memory for this many float32 numbers, whatever torch's default is."""
    return torch.empty(shape, dtype=torch.float32, device=device)


def parts(device: torch.device, *sizes: int, within: Tensor | None = None) -> list[Segment]:
    """So many float32 numbers each, in one piece of memory.

    That is the memory of `within`, if they fit: a tensor to be written when they are done with.
    """
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + -(-size * 4 // ALIGNED) * ALIGNED // 4)
    count = starts[-1]
    if within is not None and within.nbytes >= 4 * count:
        whole = within.view(-1).view(torch.uint8)[: 4 * count].view(torch.float32)
    else:
        whole = numbers(device, count)
    return [Segment(whole, start, size) for start, size in zip(starts, sizes, strict=False)]


def current(device: torch.device) -> AbstractContextManager[Any]:
    """Where Triton launches is where torch is at the moment: at this device, in this context."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


class Launch:
    """A Triton kernel with given constants, and what it was compiled to on each device.

    Triton looks at every argument of every launch, which takes longer than a small kernel runs.
    One `Launch` is for tensors of the same types and for whole numbers that the kernel does not
    specialise on (or that are the same each time), so that the first compiled version is right
    for all. Addresses that are not aligned go the long way.
    """

    def __init__(self, kernel: Any, constants: dict[str, Any], **options: Any) -> None:
        order = kernel.arg_names[-len(constants) :]  # a compiled version takes them by position
        if {*constants} != {*order}:
            raise ValueError(
                f"the constants of {kernel.__name__} are {', '.join(order)}, "
                f"got {', '.join(constants)}"
            )
        self.kernel, self.options = kernel, options
        self.constants = {name: constants[name] for name in order}
        self.values = tuple(self.constants.values())
        self.versions: dict[int | None, Any] = {}

    def __call__(
        self, programs: int, tensors: Sequence[Tensor | Segment], numbers: Sequence[Any]
    ) -> None:
        """Runs it; the kernel's arguments are the tensors, the numbers, then the constants.

        The first of them is a tensor, and says where it runs.
        """
        places = [t.data_ptr() for t in tensors]
        aligned = reduce(or_, places) % ALIGNED == 0
        device: int | None = tensors[0].device.index  # type: ignore[union-attr]
        self._run(programs, device, tensors, places, numbers, aligned)

    def described(self, programs: int, descriptors: Sequence[Any], numbers: Sequence[Any]) -> None:
        """The same for descriptors of tensors, which are aligned or would not exist."""
        device = descriptors[0].base.device.index
        self._run(programs, device, descriptors, descriptors, numbers, aligned=True)

    def _run(
        self,
        programs: int,
        device: int | None,
        given: Sequence[Any],
        places: Sequence[Any],
        numbers: Sequence[Any],
        aligned: bool,
    ) -> None:
        if device is not None and device != torch.cuda.current_device():
            with current(torch.device("cuda", device)):
                return self._run(programs, device, given, places, numbers, aligned)
        version = self.versions.get(device)
        if version is not None and aligned and device is not None:
            stream = raw_stream(device)
            version[(programs, 1, 1)](*places, *numbers, *self.values, stream=stream)
            return None
        full = [t.view() if isinstance(t, Segment) else t for t in given]
        version = self.kernel[(programs,)](*full, *numbers, **self.constants, **self.options)
        if version is not None and aligned:
            self.versions[device] = version  # (None where Triton's interpreter ran it)
        return None


class BoundLaunch:
    """A launch with its programs and numbers: only the tensors are missing."""

    def __init__(self, launch: Launch, programs: int, numbers: tuple[Any, ...]) -> None:
        self.launch, self.programs, self.numbers = launch, programs, numbers
        self.rest = *numbers, *launch.values
        self.runs: dict[int | None, Callable[..., None]] = {}

    def __call__(self, *tensors: Tensor | Segment) -> None:
        """Runs it on these, the first of which is a tensor."""
        places = [t.data_ptr() for t in tensors]
        device: int | None = tensors[0].device.index  # type: ignore[union-attr]
        run = self.runs.get(device)
        if run is None or reduce(or_, places) % ALIGNED or device != current_device():
            return self._go_round(tensors, device)
        return run(*places, *self.rest, stream=raw_stream(device))

    def _go_round(self, tensors: Sequence[Tensor | Segment], device: int | None) -> None:
        """The long way, and from then on, where it was compiled for this device, the short one."""
        self.launch(self.programs, tensors, self.numbers)
        version = self.launch.versions.get(device)
        if version is not None:
            self.runs[device] = version[(self.programs, 1, 1)]


@lru_cache(maxsize=64)
def _launch_scale(types: tuple[torch.dtype, ...], second: bool, wide: bool) -> Launch:
    """For tensors of these types, and sizes that need 64 bits or do not."""
    from labelset.kernels.triton.tile import scale

    return Launch(scale, {"SECOND": second, "BLOCK": SCALED}, num_warps=8)


def multiply_(values: Tensor, factor: Tensor, other: Tensor | None = None) -> Tensor:
    """`values *= factor * other`, in place."""
    size = values.numel()
    if size:
        second = factor if other is None else other
        types = values.dtype, factor.dtype, second.dtype
        launch = _launch_scale(types, other is not None, size >= 2**31)
        launch(min(PROGRAMS, -(-size // SCALED)), (values, factor, second), (size,))
    return values
