"""Losses as JSON: their names and hyperparameters, so that a model can say what trained it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from labelset.catalog import hyperparameters
from labelset.losses._base import Loss

__all__ = ["describe_loss", "read_loss"]


def read_loss(given: Any) -> Loss | None:
    """A loss from itself, its name, or what `describe_loss` made of it; None stays None.

    >>> read_loss({"name": "focal", "gamma": 1.0}).gamma
    1.0
    """
    from labelset.losses import build

    if given is None or isinstance(given, Loss):
        return given
    if isinstance(given, str):
        return build(given)
    if not isinstance(given, Mapping):
        raise TypeError(f"loss must be a loss or the name of one, got {type(given).__name__}")
    if "sum" in given:
        parts = [weight * _loss(part) for weight, part in given["sum"]]
        total: Any = sum(parts[1:], parts[0])
        return _loss(total)
    held = {k: read_loss(v) if isinstance(v, Mapping) else v for k, v in given.items()}
    return build(**held)  # type: ignore[arg-type]


def _loss(given: Any) -> Loss:
    loss = read_loss(given)
    assert loss is not None
    return loss


def describe_loss(loss: Loss | None) -> Any:
    """A loss as JSON: its name and hyperparameters; a sum as its weighted parts.

    >>> from labelset.losses import build
    >>> describe_loss(build("mse"))
    {'name': 'mse', 'reduction': 'mean'}
    """
    from labelset.losses import catalog

    if loss is None:
        return None
    if hasattr(loss, "parts"):
        return {"sum": [[weight, describe_loss(part)] for weight, part in loss.parts]}
    name = catalog.name_of(type(loss))
    if name not in catalog.classes:
        raise TypeError(
            f"{name} is not in the catalogue of losses, so that it cannot be saved; leave the "
            "loss out, or give it a file in labelset/losses"
        )
    held = {key: getattr(loss, h.name) for key, h in hyperparameters(type(loss)).items()}
    held.pop("impl", None)  # a matter of the machine, not of the model
    return {"name": name} | {key: _plain(value) for key, value in held.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Loss):
        return describe_loss(value)
    return value.tolist() if isinstance(value, Tensor) else value
