"""Heads: features to logits, with the matrix that `labelset.verify` proves things about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labelset.catalog import Catalog
from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.heads._base import (
        Head,
        NoMatrix,
        draw_expressible,
        expressible,
        load,
        log2_expressible,
        restored,
        save,
        store_by_feature,
    )
    from labelset.heads.dft import order_by_cooccurrence
else:
    __getattr__, __dir__ = door(__name__)

__all__ = [
    "Head",
    "NoMatrix",
    "build",
    "catalog",
    "draw_expressible",
    "expressible",
    "load",
    "log2_expressible",
    "names",
    "order_by_cooccurrence",
    "restored",
    "save",
    "store_by_feature",
]

catalog: Catalog[Head] = Catalog(__name__, "Head", "head")


def build(name: str, **hyperparameters: Any) -> Head:
    """The head of that name, an `nn.Module`.

    >>> build("dft", features=16, labels=100, k=3, slack=4).matrix()[0].shape
    torch.Size([100, 11])
    """
    return catalog.build(name, **hyperparameters)


def names() -> list[str]:
    """The names that `build` knows.

    >>> names()
    ['dft', 'label-attention', 'linear']
    """
    return catalog.names()
