"""A pretrained network for pictures: trained with the head, or frozen."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from labelset import check
from labelset.catalog import hyper
from labelset.data import Dataset
from labelset.encode._augment import AUGMENT, Augment
from labelset.encode._base import Inputs
from labelset.encode._pretrained import (
    Network,
    Pretrained,
    described,
    downloaded,
    model_folder,
    rebuilt,
    without_pooler,
)
from labelset.files import optional

WHAT = "a vision encoder"
TRUST = "LABELSET_TRUST"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the pictures of ImageNet, which networks of one's own are taken to have been trained on."""
SIDE = 224
"""Width and height of pictures, where nobody says."""
PIXELS = 1 << 22
"""Of the pictures that go through the network together when nothing is trained."""
_called: set[str] = set()
"""Functions that this process was told to call, so that it may call them again: a saved model only
names them, and must not make a stranger's code run."""


@dataclass(kw_only=True, eq=False)
class Vision(Pretrained):
    """A network such as ViT or ResNet, trained on many pictures; its pooled features.

    The network is read from a folder with config.json and weights, from an installed package that
    holds one, or by its name on the Hugging Face hub; or `model` is `package.module:function`,
    which returns an nn.Module from (rows, 3, height, width) to (rows, width) or to (rows, channels,
    height, width), which is averaged over places. Pictures are made as large as `side`, or as the
    network wants them, (x / 255 - mean) / std; grey ones have three like channels. In training they
    are changed by chance (`augment`). All layers, or the last few, are trained with the head; with
    `layers=0` none, and features are computed once and standardised.

    A saved model holds the weights. A function of one's own is called again to hold them: where
    LABELSET_TRUST names it, or in the process that was told to.
    """

    name = "vision"
    reads = ("images",)
    advice = {"lr": 3e-3, "batch": 64, "passes": 120}

    side: int = hyper(0, "width and height of pictures; 0: as the network says, else by theirs")
    augment: str = hyper(
        "flip crop cutout", "flip, flip-vertical, crop, randaugment, colour, cutout, or none"
    )
    dropout: float = hyper(0.1, "of the features, in training")
    rate: float = hyper(0.3, "learning rate of the last layer over that of the head")
    decay: float = hyper(1.0, "learning rate of a layer over that of the next one")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("side", self.side)
        check.fraction("dropout", self.dropout)
        for word in self._augment:
            check.one_of("augment", word, AUGMENT)
        self._untouched: dict[str, Tensor] = {}
        self._usual = SIDE

    @property
    def _augment(self) -> list[str]:
        words = self.augment.replace("+", " ").split()
        return [] if words == ["none"] else words

    def fit(self, train: Dataset) -> Self:
        """A network that wants no size has small pictures twice as large, which is seconds saved
        and nothing lost."""
        if train.images is not None:
            self._usual = min(SIDE, max(SIDE // 2, 2 * max(train.images.shape[2:])))
        return super().fit(train)

    def load(self) -> nn.Module:
        if ":" in self.model:
            _called.add(self.model)
            inner, side = _own(self.model), self.side or self._usual
            look = {"side": side, "mean": MEAN, "std": STD}
            self.facts = {"function": self.model, "look": look}
        else:
            (inner,) = downloaded(self.model, WHAT, "AutoModel")
            if not hasattr(inner.config, "num_channels") and not hasattr(inner, "embedder"):
                raise ValueError(f"{self.model}: a network of type {inner.config.model_type}, none "
                    "for pictures; texts take --encoder transformer")  # fmt: skip
            look = _look(model_folder(self.model, WHAT), inner.config, self.side)
            self.facts = {"config": described(inner.config), "look": look}
            inner = without_pooler(inner)
        network = self._around(inner)
        with torch.no_grad():
            out = network.eval()(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
        self.facts["width"] = int(out.shape[1])
        return network

    def make(self) -> nn.Module:
        function = self.facts.get("function")
        inner = rebuilt(self.fact("config")) if function is None else _own(function)
        return self._around(inner)

    def restore(self, facts: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        """What reads no pictures can be done with a function that is not trusted, too."""
        function = facts.get("function")
        trusted = {*_called, *os.environ.get(TRUST, "").split(",")}
        if function is None or function in trusted:
            return super().restore(facts, state)
        self.facts, self._untouched = dict(facts), dict(state)
        return self

    def state(self) -> dict[str, Tensor]:
        return self._untouched or super().state()

    def _around(self, inner: nn.Module) -> nn.Module:
        look = self.fact("look")
        made = _Network(self.corrected(inner), self.dropout, self.places)
        return made.seeing(look["side"], look["mean"], look["std"], Augment(self._augment))

    def rows(self, dataset: Dataset) -> Inputs:
        if self._untouched:
            function = self.fact("function")
            raise ValueError(
                f"the model needs the network that {function} makes, a function that is not called "
                f"on a file's word: where you trust it, set {TRUST}={function}"
            )
        if dataset.images is None:
            raise ValueError(f"{WHAT} needs images, and the data set has none")
        if dataset.images.shape[1] not in (1, 3):
            raise ValueError(
                f"{WHAT} takes grey pictures or such of three colours, got "
                f"{dataset.images.shape[1]} channels"
            )
        return dataset.images

    def as_numbers(self, inputs: Tensor) -> Tensor:
        """Bytes become 0 to 1, as in the network."""
        return inputs.float() / 255 if inputs.dtype == torch.uint8 else inputs.float()

    def prepared(self, dataset: Dataset) -> Inputs:
        """Pictures stay where they are."""
        return self.rows(dataset) if self.learns else super().prepared(dataset)


def _own(function: str) -> nn.Module:
    """The module that a function of one's own makes."""
    module, _, name = function.partition(":")
    try:
        made = getattr(import_module(module), name)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{function}: expected package.module:function, called without arguments: {error}"
        ) from None
    if not isinstance(made, nn.Module):
        raise ValueError(f"{function}: must return an nn.Module, got {type(made).__name__}")
    return made.float()


def _look(place: str, config: Any, side: int) -> dict[str, Any]:
    """How a network wants to see pictures."""
    package = optional("transformers.utils.hub", "vision encoders", extra="encode")
    missing = {"_raise_exceptions_for_missing_entries": False}
    file = package.cached_file(place, "preprocessor_config.json", **missing)
    settings = json.loads(Path(file).read_text(encoding="utf-8")) if file else {}
    size: Any = settings.get("crop_size") or settings.get("size")
    size = size or config.to_dict().get("image_size")
    if isinstance(size, dict):
        size = size.get("height") or size.get("shortest_edge")
    mean, std = (settings.get(key) or [0.5] * 3 for key in ("image_mean", "image_std"))
    return {"side": side or int(size or 224), "mean": mean, "std": std}


class _Network(Network):
    """(rows, channels, height, width) bytes, or numbers from 0 to 1, to (rows, width), or to
    (rows, patches, width)."""

    mean: Tensor
    std: Tensor

    def seeing(
        self, side: int, mean: Sequence[float], std: Sequence[float], augment: Augment
    ) -> Self:
        """With what pictures are brought to, and how they are changed."""
        self.side, self.augment = int(side), augment
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(std)[:, None, None], persistent=False)
        return self

    def forward(self, images: Tensor) -> Tensor:
        if self.training:
            return self.features(images)
        together = max(1, PIXELS // self.side**2)
        return torch.cat([self.features(some) for some in images.split(together)])  # type: ignore[no-untyped-call]

    def features(self, images: Tensor) -> Tensor:
        """Of pictures that are in memory together."""
        x = images.float() / 255 if images.dtype == torch.uint8 else images.float()
        if self.training:
            x = self.augment(x)
        x = x.expand(-1, 3, -1, -1) if x.shape[1] == 1 else x
        out = self.inner((self.resized(x) - self.mean) / self.std)
        return self.dropout(_patches(out) if self.places else _pooled(out))  # type: ignore[no-any-return]

    def resized(self, x: Tensor) -> Tensor:
        """As large as the network wants them."""
        if x.shape[-2:] == (self.side, self.side):
            return x
        return interpolate(x, (self.side, self.side), mode="bilinear", antialias=True)


def _patches(out: Any) -> Tensor:
    """(rows, patches, width)."""
    states: Tensor = out if isinstance(out, Tensor) else out.last_hidden_state
    if states.ndim not in (3, 4):
        raise ValueError(
            "label-attention attends to patches, and the network gives a picture as a whole, "
            f"{tuple(states.shape)}: let it give (rows, channels, height, width)"
        )
    return states.float() if states.ndim == 3 else states.float().flatten(2).transpose(1, 2)


def _pooled(out: Any) -> Tensor:
    """(rows, width): the network's own pooling, else the mean over places."""
    if not isinstance(out, Tensor):
        pooled: Tensor | None = getattr(out, "pooler_output", None)
        if pooled is not None:
            return pooled.flatten(1).float()
        out = out.last_hidden_state
        out = out.transpose(1, 2) if out.ndim == 3 else out
    if out.ndim < 2:
        raise ValueError(f"a network for pictures must give (rows, width), got {tuple(out.shape)}")
    return out.float() if out.ndim == 2 else out.float().flatten(2).mean(2)  # type: ignore[no-any-return]
