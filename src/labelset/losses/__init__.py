"""Losses: `build(name, **hyperparameters)`, `names()`, and the bases for a loss of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labelset.catalog import Catalog
from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.losses._axes import AxisLoss, logsumexp
    from labelset.losses._base import (
        FAR,
        Loss,
        NoLink,
        Target,
        as_loss,
        dense_target,
        describe_loss,
        kernel_target,
        read_loss,
        reduce_terms,
    )
    from labelset.losses._combined import DelegatingLoss, Sum
    from labelset.losses._confusion import ConfusionLoss
    from labelset.losses._separable import Separable, softplus
else:
    __getattr__, __dir__ = door(__name__)


__all__ = [
    "FAR",
    "AxisLoss",
    "ConfusionLoss",
    "DelegatingLoss",
    "Loss",
    "NoLink",
    "Separable",
    "Sum",
    "Target",
    "as_loss",
    "build",
    "catalog",
    "dense_target",
    "describe_loss",
    "kernel_target",
    "logsumexp",
    "names",
    "read_loss",
    "reduce_terms",
    "softplus",
]

catalog: Catalog[Loss] = Catalog(__name__, "Loss", "loss")


def build(name: str, **hyperparameters: Any) -> Loss:
    """The loss of that name; hyperparameters not given keep their defaults.

    >>> build("focal", gamma=1).gamma
    1
    """
    return catalog.build(name, **hyperparameters)


def names() -> list[str]:
    """The names that `build` knows.

    >>> "spa" in names()
    True
    """
    return catalog.names()
