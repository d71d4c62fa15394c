"""The compiled solver, where a compiler was at hand when the package was installed."""

from __future__ import annotations

from typing import Any

__all__ = ["solver"]

solver: Any
try:
    from labelset.proofs import _minnorm as solver
except ImportError:  # numpy does the same, slower, and nothing does quadruple precision
    solver = None
