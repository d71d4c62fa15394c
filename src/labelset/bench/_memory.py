"""Memory that a call takes, and a bound on it, so that too large a case fails by itself."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

__all__ = ["bounded", "is_out_of_memory", "peak"]


def peak(call: Callable[[], object], device: torch.device) -> int | None:
    """Bytes that a call adds at its worst to what is allocated; None where torch does not count."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated(device) - before


@contextmanager
def bounded(device: torch.device) -> Iterator[None]:
    """On Linux: what is beyond the free memory is refused, instead of ending the process.

    A GPU refuses by itself, and its driver maps more than there is.
    """
    free, used = (
        _kilobytes("/proc/meminfo", "MemAvailable"),
        _kilobytes("/proc/self/status", "VmData"),
    )
    if device.type != "cpu" or sys.platform != "linux" or free is None or used is None:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    room = 1024 * (used + free)
    limits = [room, *(x for x in (soft, hard) if x != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _kilobytes(path: str, name: str) -> int | None:
    try:
        found = re.search(rf"^{name}:\s*(\d+) kB", Path(path).read_text(), flags=re.M)
    except OSError:
        return None
    return int(found[1]) if found else None


def is_out_of_memory(error: Exception) -> bool:
    """Whether the device, or the machine, had too little of it.

    >>> is_out_of_memory(MemoryError())
    True
    """
    kinds = (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, kinds) or "can't allocate memory" in str(error)
