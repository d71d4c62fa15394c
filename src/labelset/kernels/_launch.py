"""Kernels launched again without asking Triton anew which of its compiled versions to take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

__all__ = ["Launch"]

ALIGNED = 16  # bytes: what a compiled version may take for granted of the addresses it is given


class Launch:
    """A Triton kernel with given constants, and what it was compiled to on each device.

    Triton looks at every argument of every launch, which takes longer than a small kernel runs.
    One `Launch` is for tensors of the same types and for whole numbers that the kernel does not
    specialise on (or that are the same each time), so that the first compiled version is right
    for all. Addresses that are not aligned go the long way.
    """

    def __init__(self, kernel: Any, constants: dict[str, Any], **options: Any) -> None:
        self.kernel, self.constants, self.options = kernel, constants, options
        self.values = tuple(constants.values())
        self.versions: dict[int | None, Any] = {}

    def __call__(self, programs: int, tensors: Sequence[Tensor], numbers: Sequence[Any]) -> None:
        """Runs it; the kernel's arguments are the tensors, the numbers, then the constants."""
        device = tensors[0].device.index
        version = self.versions.get(device)
        places = [t.data_ptr() for t in tensors]
        aligned = not any(place % ALIGNED for place in places)
        if version is not None and aligned:
            version[(programs, 1, 1)](*places, *numbers, *self.values)
            return
        version = self.kernel[(programs,)](*tensors, *numbers, **self.constants, **self.options)
        if version is not None and aligned:
            self.versions[device] = version  # (None where Triton's interpreter ran it)
