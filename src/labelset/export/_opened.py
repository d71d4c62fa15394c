"""What is to be exported: a run, or the folder of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labelset.artefact import Run

__all__ = ["opened"]


def opened(given: Any) -> Run:
    """A run as it is; from the path of its folder, what `Run.open` gives.

    >>> opened(Run(names=["fork"])).names
    ['fork']
    >>> opened(3)
    Traceback (most recent call last):
    TypeError: run must be a Run or the folder of one, got int
    """
    if isinstance(given, (str, Path)):
        return Run.open(given)
    if not isinstance(given, Run):
        raise TypeError(f"run must be a Run or the folder of one, got {type(given).__name__}")
    return given
