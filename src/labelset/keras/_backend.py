"""Keras, and a back end for it."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

__all__ = ["make_ready"]


def make_ready() -> None:
    """That Keras can be imported; an error says how to get it.

    Where nobody has chosen a back end Keras takes TensorFlow, and fails where that is not
    installed. Then torch is chosen, which labelset has anyway.
    """
    if "keras" in sys.modules:
        return
    if find_spec("keras") is None:
        raise ImportError("losses for Keras need the package keras: pip install 'labelset[keras]'")
    given = "KERAS_BACKEND" in os.environ
    if not given and _written() == "tensorflow" and find_spec("tensorflow") is None:
        os.environ["KERAS_BACKEND"] = "torch"


def _written() -> str:
    """The back end by Keras's own file, which Keras itself writes; else its default."""
    home = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras")
    try:
        return str(json.loads((home / "keras.json").read_text())["backend"])
    except (OSError, ValueError, LookupError, TypeError):
        return "tensorflow"
