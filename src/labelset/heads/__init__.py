"""Heads: features to logits, with the matrix that `labelset.verify` proves things about."""

from typing import Any

from labelset.catalog import Catalog
from labelset.heads._base import Head
from labelset.heads._cover import draw_expressible, expressible, log2_expressible
from labelset.heads._files import load, save
from labelset.heads._order import order_by_cooccurrence

__all__ = [
    "Head",
    "build",
    "catalog",
    "draw_expressible",
    "expressible",
    "load",
    "log2_expressible",
    "names",
    "order_by_cooccurrence",
    "save",
]

catalog: Catalog[Head] = Catalog(__name__, Head, "head")  # type: ignore[type-abstract]


def build(name: str, **hyperparameters: Any) -> Head:
    """The head of that name, an `nn.Module`.

    >>> build("dft", features=16, labels=100, k=3, slack=4).matrix()[0].shape
    torch.Size([100, 11])
    """
    return catalog.build(name, **hyperparameters)


def names() -> list[str]:
    """The names that `build` knows.

    >>> names()
    ['dft', 'linear']
    """
    return catalog.names()
