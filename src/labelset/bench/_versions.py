"""What a figure was measured with, for the CSV."""

from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import labelset

__all__ = ["device_name", "versions"]


def versions() -> dict[str, str]:
    """Versions of torch, triton (empty where it is not installed) and labelset.

    >>> sorted(versions())
    ['labelset', 'torch', 'triton']
    """
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = ""
    return {"torch": torch.__version__, "triton": triton, "labelset": labelset.__version__}


def device_name(device: torch.device) -> str:
    """The GPU, or the processor and how many threads torch uses there."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_processor()}, {torch.get_num_threads()} threads"


def _processor() -> str:
    try:
        about = Path("/proc/cpuinfo").read_text()
    except OSError:
        about = ""
    found = re.search(r"^model name\s*:\s*(.+)$", about, flags=re.M)
    return found[1].strip() if found else platform.machine()
