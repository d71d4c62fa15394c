"""Encoders: features, texts or pictures to what a head takes."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from labelset.catalog import Catalog
from labelset.data import Dataset
from labelset.encode._base import Encoder, Inputs
from labelset.encode._cache import encoded
from labelset.encode._module import Module

__all__ = [
    "Encoder",
    "Inputs",
    "Module",
    "as_encoder",
    "build",
    "catalog",
    "default_for",
    "encoded",
    "from_json",
    "names",
]

catalog: Catalog[Encoder] = Catalog(__name__, Encoder, "encoder")  # type: ignore[type-abstract]


def build(name: str, **settings: Any) -> Encoder:
    """The encoder of that name, not yet fitted.

    >>> build("tfidf", svd=100).svd
    100
    """
    return catalog.build(name, **settings)


def names() -> list[str]:
    """The names that `build` knows.

    >>> names()
    ['conv', 'features', 'sentence', 'tfidf', 'vision']
    """
    return catalog.names()


def default_for(dataset: Dataset) -> str:
    """The encoder that a data set can do with: by what it has, features before texts and images.

    >>> default_for(Dataset.from_arrays(None, [[1]], texts=["one text"]))
    'tfidf'
    """
    held = {"features": dataset.features, "tfidf": dataset.texts, "conv": dataset.images}
    for name, rows in held.items():
        if rows is not None:
            return name
    raise ValueError("the data set has no features, texts or images to learn from")


def as_encoder(given: Any, dataset: Dataset) -> Encoder:
    """From an encoder, the name of one, a module, or None for what suits the data set.

    >>> as_encoder(None, Dataset.from_arrays([[1.0]], [[1]])).name
    'features'
    """
    if isinstance(given, Encoder):
        return given
    if isinstance(given, nn.Module):
        return Module(given=given)
    if given is None or isinstance(given, str):
        return build(given or default_for(dataset))
    raise TypeError(
        f"encoder must be an Encoder, its name, an nn.Module or None, got {type(given).__name__}"
    )


def from_json(saved: Mapping[str, Any], state: Mapping[str, Tensor]) -> Encoder:
    """The encoder that `as_json` and `state` described.

    >>> data = Dataset.from_arrays([[1.0], [3.0]], [[1], [0]])
    >>> made = build("features").fit(data)
    >>> from_json(made.as_json(), made.state())(data).flatten()
    tensor([-1.,  1.])
    """
    if saved["name"] == Module.name:
        raise ValueError("a module of one's own is in no file; give it again as encoder=")
    encoder = build(saved["name"], **saved["settings"])
    return encoder.restore(saved["facts"], state) if saved["facts"] else encoder
