"""The least that a loss can take: its inputs read once and its gradient written once."""

from __future__ import annotations

import torch

from labelset.bench._timing import kind_of_timing, spread, timings

__all__ = ["copy_bandwidth", "floor_bytes"]

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
