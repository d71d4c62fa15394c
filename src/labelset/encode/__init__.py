"""Encoders: features, texts or pictures to what a head takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from labelset.catalog import Catalog
from labelset.lazy import door

if TYPE_CHECKING:
    from torch import Tensor

    from labelset.data import Dataset
    from labelset.encode._base import Encoder, Inputs, scaled
    from labelset.encode._cache import encoded
    from labelset.encode._module import Module
    from labelset.encode._several import Several
    from labelset.encode.tfidf import directions
else:
    __getattr__, __dir__ = door(__name__)

__all__ = [
    "Encoder",
    "Inputs",
    "Module",
    "Several",
    "as_encoder",
    "build",
    "catalog",
    "default_for",
    "directions",
    "encoded",
    "from_json",
    "names",
    "scaled",
]

catalog: Catalog[Encoder] = Catalog(__name__, "Encoder", "encoder")


def build(name: str, **settings: Any) -> Encoder:
    """The encoder of that name, not yet fitted.

    >>> build("tfidf", svd=100).svd
    100
    """
    return catalog.build(name, **settings)


def names() -> list[str]:
    """The names that `build` knows.

    >>> names()
    ['conv', 'features', 'patches', 'table', 'text', 'tfidf', 'transformer', 'vision']
    """
    return catalog.names()


def default_for(dataset: Dataset) -> str:
    """The encoder that suits what a data set has, features and texts before images.

    >>> from labelset.data import Dataset
    >>> default_for(Dataset.from_arrays(None, [[1]], texts=["one text"]))
    'tfidf'
    >>> default_for(Dataset.from_arrays([[0.5]], [[1]], texts=["one text"]))
    'table'
    """
    if dataset.features is not None and dataset.texts is not None:
        return "table"
    inputs = {"features": dataset.features, "tfidf": dataset.texts, "conv": dataset.images}
    for name, rows in inputs.items():
        if rows is not None:
            return name
    raise ValueError("the data set has no features, texts or images to learn from")


def as_encoder(encoder: Any, dataset: Dataset) -> Encoder:
    """From an encoder, the name of one, a module, or None for what suits the data set.

    >>> from labelset.data import Dataset
    >>> as_encoder(None, Dataset.from_arrays([[1.0]], [[1]])).name
    'features'
    """
    from torch import nn

    from labelset.encode._base import Encoder

    if isinstance(encoder, Encoder):
        return encoder
    if isinstance(encoder, nn.Module):
        from labelset.encode._module import Module

        return Module(given=encoder)
    if encoder is None or isinstance(encoder, str):
        return build(encoder or default_for(dataset))
    raise TypeError(
        f"encoder must be an Encoder, its name, an nn.Module or None, got {type(encoder).__name__}"
    )


def from_json(saved: Mapping[str, Any], state: Mapping[str, Tensor]) -> Encoder:
    """The encoder that `as_json` and `state` described.

    >>> from labelset.data import Dataset
    >>> data = Dataset.from_arrays([[1.0], [3.0]], [[1], [0]])
    >>> made = build("features").fit(data)
    >>> from_json(made.as_json(), made.state())(data).flatten()
    tensor([-1.,  1.])
    """
    if saved["name"] == "several":
        from labelset.encode._several import several_from_json

        return several_from_json(saved, state, from_json)
    if saved["name"] == "module":
        raise ValueError("a module of one's own is in no file; give it again as encoder=")
    encoder = build(saved["name"], **saved["settings"])
    return encoder.restore(saved["facts"], state) if saved["facts"] else encoder
