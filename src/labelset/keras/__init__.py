"""Losses and links for Keras 3, on TensorFlow, JAX or torch: `build(name, **hyperparameters)`."""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def _make_ready() -> None:
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


_make_ready()

from labelset import losses  # noqa: E402
from labelset.keras.layers import KINDS, Entries, Link, SmoothMetric  # noqa: E402

__all__ = ["Entries", "Link", "SmoothMetric", "build", "link", "names", "of"]


def build(loss: str, *, name: str | None = None, dtype: Any = None, **hyperparameters: Any) -> Any:
    """The loss of that name as a `keras.losses.Loss`: of labels, and of logits before any sigmoid.

    >>> build("asl", gamma_neg=2).get_config()["loss"]["gamma_neg"]
    2
    """
    return of(losses.build(loss, **hyperparameters), name=name, dtype=dtype)


def of(loss: losses.Loss, *, name: str | None = None, dtype: Any = None) -> Any:
    """A loss of labelset, or a `Separable` of one's own, as a `keras.losses.Loss`.

    >>> of(losses.build("spa", k_neg=2)).reduction
    'sum_over_batch_size'
    """
    for kind in KINDS:
        if isinstance(loss, kind.kind):
            called = name or losses.catalog.name_of(type(loss)).replace("-", "_")
            return kind(loss, name=called, dtype=dtype)
    raise TypeError(
        f"{type(loss).__name__} compares scores with one another and is there for torch only; "
        f"for Keras there are {', '.join(names())}"
    )


def link(loss: str, **hyperparameters: Any) -> Link:
    """The layer that turns logits trained with that loss into probabilities.

    >>> link("spa", k_neg=2).loss.k_neg
    2
    """
    return Link(losses.build(loss, **hyperparameters))


def names() -> list[str]:
    """The losses that `build` knows.

    >>> "hill" in names(), "two-way" in names()
    (True, False)
    """
    kinds = tuple(kind.kind for kind in KINDS)
    return [name for name, cls in sorted(losses.catalog.classes.items()) if issubclass(cls, kinds)]
