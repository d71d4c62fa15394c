"""How long a call takes, one at a time or queued on a GPU, and the least that it can take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

Call = Callable[[], object]
MOST = 200
"""Samples after which more would tell nothing new."""
BATCH = 0.02
"""Seconds of work between two events, so that what events cost does not show."""
BESIDE = "beside"
"""The timing of the other call where two take turns."""
SMALL = 2**22
"""Entries up to which the latency of a call matters as much as its throughput."""


class Spread(NamedTuple):
    """Quantiles of the time of a call, in milliseconds."""

    samples: int
    p20_ms: float
    p50_ms: float
    p80_ms: float

    def note(self) -> str:
        """A warning where the samples differ so much that their median says little."""
        return "noisy: p80 is more than twice p20" if self.p80_ms > 2 * self.p20_ms else ""


def spread(seconds: list[float]) -> Spread:
    """The quantiles of these samples.

    >>> spread([0.001, 0.002, 0.003]).p50_ms
    2.0
    """
    low, middle, high = (1e3 * np.quantile(seconds, (0.2, 0.5, 0.8))).tolist()
    return Spread(len(seconds), low, middle, high)


def kind_of_timing(device: torch.device) -> str:
    """What the main timing on this device is called."""
    return "queued" if device.type == "cuda" else "wall clock"


def first_call(call: Call, device: torch.device) -> float:
    """Seconds of the first call, in which everything is compiled that has to be."""
    wait = _waiting(device)
    wait()
    return _one(call, wait)


def warm_up(call: Call, device: torch.device, limit: float) -> None:
    """A few calls more, fewer where they are slow."""
    wait, end = _waiting(device), time.perf_counter() + limit / 5
    for _ in range(5):
        if time.perf_counter() < end:
            _one(call, wait)


def timings(
    call: Call, device: torch.device, entries: int, limit: float, beside: Call | None = None
) -> dict[str, list[float]]:
    """Kind of timing -> seconds of a call, sampled until `limit` seconds are over.

    Synchronised calls take turns with `beside`, whose seconds are told as well: the host, whose
    pace changes from one moment to the next, then treats both alike.
    """
    wait = _waiting(device)
    if device.type != "cuda":
        return {"wall clock": _sampled(lambda: _one(call, wait), limit)}
    found = {"queued": _queued(call, wait, limit)}
    if entries <= SMALL:
        other: list[float] = []
        if beside is not None:
            beside()

        def turn() -> float:
            if beside is not None:
                other.append(_one(beside, wait))
            return _one(call, wait)

        found["synchronised"] = _sampled(turn, limit)
        if other:
            found[BESIDE] = other
    return found


def _queued(call: Call, wait: Call, limit: float) -> list[float]:
    each = _one(call, wait)
    many = max(1, min(MOST, max(5, int(BATCH / each)), int(limit / each)))
    return _sampled(lambda: _batch(call, many), limit, most=MOST // 4)


def _batch(call: Call, many: int) -> float:
    """Seconds per call of `many` calls queued between two events: their launches overlap."""
    event: Any = torch.cuda.Event  # its methods have no types
    start, end = event(enable_timing=True), event(enable_timing=True)
    start.record()
    for _ in range(many):
        call()
    end.record()
    end.synchronize()
    milliseconds: float = start.elapsed_time(end)
    return milliseconds / 1e3 / many


def _sampled(sample: Callable[[], float], limit: float, most: int = MOST) -> list[float]:
    """At least one sample, and more while there is time."""
    end = time.perf_counter() + limit
    found = [sample()]
    while len(found) < most and time.perf_counter() < end:
        found.append(sample())
    return found


def _one(call: Call, wait: Call) -> float:
    start = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - start


def _waiting(device: torch.device) -> Call:
    return torch.cuda.synchronize if device.type == "cuda" else lambda: None


COPIED = {"cpu": 2**28, "cuda": 2**31}
"""Bytes, far more than any cache holds."""


def floor_bytes(entries: int, bytes_per_score: int) -> int:
    """Scores and one byte of target read, the gradient written.

    >>> floor_bytes(100, 4)
    900
    """
    return entries * (2 * bytes_per_score + 1)


def copy_bandwidth(device: torch.device, seconds: float = 1.0) -> float:
    """Bytes per second, read and written, of one large copy on the device."""
    size = COPIED[device.type]
    if device.type == "cuda":
        size = min(size, torch.cuda.mem_get_info(device)[0] // 4)
    source = torch.zeros(size, dtype=torch.uint8, device=device)  # zeros: its pages are there
    copy = torch.ones_like(source)
    samples = timings(lambda: copy.copy_(source), device, size, seconds)[kind_of_timing(device)]
    return 2 * size / (spread(samples).p50_ms / 1e3)
