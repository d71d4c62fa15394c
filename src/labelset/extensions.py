"""The C extensions: which of them were built, and one line of warning where one is missing."""

from __future__ import annotations

import threading
import warnings
from importlib import import_module

EXTENSIONS = {
    "losses": "labelset.kernels._native_loops",
    "metrics": "labelset.metrics._count",
    "proofs": "labelset.proofs._minnorm",
    "solve": "labelset.train._dual",
    "texts": "labelset.encode._ngrams",
}
"""What they compute on a CPU, and their modules."""


class SlowWarning(RuntimeWarning):
    """Something is computed many times slower than it could be here."""


def is_built(what: str) -> bool:
    """Whether the extension for losses, metrics, proofs, solve or texts is there."""
    try:
        import_module(EXTENSIONS[what])
    except ImportError:
        return False
    return True


_UNTOLD = threading.Lock()
"""Taken by the first who tells, of several threads."""


def warn_slow() -> None:
    """Says once per process that an extension is missing, and what to do about it.

    Called where the slow path is taken, so that who never takes it never reads of it.
    """
    if not _UNTOLD.acquire(blocking=False):
        return
    missing = [what for what in EXTENSIONS if not is_built(what)] or [*EXTENSIONS]
    warnings.warn_explicit(
        f"{', '.join(missing)} run on this CPU without labelset's C extensions, losses 9 to 27 "
        "times slower: install a C compiler (gcc or clang), then labelset again with "
        "pip install --force-reinstall --no-deps --no-cache-dir labelset",
        SlowWarning,
        "labelset",
        1,
    )
