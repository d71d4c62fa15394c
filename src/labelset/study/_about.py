"""What a study was done with: the version, the machine, and the time it took."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

import torch

import labelset
from labelset._atomic import write_bytes
from labelset.study._cell import Budget

__all__ = ["write_about"]


def write_about(
    path: Path, budget: Budget, jobs: int, device: str, seconds: float, did: int, left: int
) -> None:
    """Write it; trainings and times of several sittings add up. `left`: those still to be done."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    cuda = device != "cpu" and torch.cuda.is_available()
    about = {
        "budget": budget.version,
        "seconds": round(before.get("seconds", 0.0) + (seconds if did else 0.0), 1),
        "cells": before.get("cells", 0) + did,
        "left": left,
        "jobs": jobs,
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "labelset": labelset.__version__,
    }
    write_bytes(path, json.dumps(about, indent=1).encode())
