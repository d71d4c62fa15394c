"""A small convolutional network for pictures, trained with the head."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, max_pool2d, relu

from labelset import check
from labelset.catalog import hyper
from labelset.data import Dataset, StoredRows
from labelset.data.store import blocks
from labelset.encode._base import Encoder, Inputs, moments_of

SEEN = 2048
"""Pictures that tell what pixels are like."""


@dataclass(kw_only=True, eq=False)
class Conv(Encoder):
    """Three 3 x 3 convolutions, each with pooling, batch norm and relu; then maxima over places.

    It answers what is in a small picture, wherever it is. A picture larger than `side` is averaged
    down first.

    >>> data = Dataset.from_arrays(images=torch.zeros(2, 1, 24, 24), labels=[[1], [0]])
    >>> Conv(width=32).fit(data)(data).shape
    torch.Size([2, 32])
    """

    name = "conv"
    reads = ("images",)
    advice = {"lr": 0.01}

    width: int = hyper(64, "features; the first two layers have a quarter and a half of it")
    side: int = hyper(64, "larger pictures are averaged down to this width and height")
    places: bool = hyper(False, "give each patch, for the head label-attention")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("width", self.width, low=4)
        check.whole("side", self.side, low=8)

    @property
    def learns(self) -> bool:
        return True

    def fit(self, train: Dataset) -> Self:
        images = _images(train)
        self.facts = {"channels": images.shape[1]}
        self.module = self.make()
        assert isinstance(self.module, _Network)
        self.module.see(images)
        return self

    def make(self) -> nn.Module:
        return _Network(self.fact("channels"), self.width, self.side, self.places)

    def prepared(self, dataset: Dataset) -> Inputs:
        """Pictures stay where they are."""
        return self.prepare(dataset)

    def prepare(self, dataset: Dataset) -> Inputs:
        images, channels = _images(dataset), self.fact("channels")
        if images.shape[1] != channels:
            raise ValueError(f"the network takes {channels} channels, got {images.shape[1]}")
        return images


class _Network(nn.Module):
    """(rows, channels, height, width), uint8 or float32, -> (rows, width), or -> (rows, patches,
    width)."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, channels: int, width: int, side: int, places: bool) -> None:
        super().__init__()
        self.side, self.places = side, places
        sizes = (channels, width // 4, width // 2, width)
        pairs = list(pairwise(sizes))
        self.layers = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in pairs)
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for _, b in pairs)
        self.register_buffer("mean", torch.zeros(channels, 1, 1))
        self.register_buffer("deviation", torch.ones(channels, 1, 1))

    def see(self, images: Tensor | StoredRows) -> None:
        """Learn the mean and the deviation of each channel."""
        some = images[:SEEN] if isinstance(images, Tensor) else images.chosen(slice(SEEN))

        def pixels() -> Iterator[Tensor]:
            return (b.transpose(0, 1).flatten(1).T.float() for b in blocks(some))

        moments = moments_of(pixels, images.shape[1])
        self.mean.copy_(moments["mean"][:, None, None])
        self.deviation.copy_(moments["deviation"][:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        x = (images.float() - self.mean) / self.deviation
        if max(x.shape[-2:]) > self.side:
            x = adaptive_avg_pool2d(x, (min(x.shape[-2], self.side), min(x.shape[-1], self.side)))
        x = x.contiguous(memory_format=torch.channels_last)  # a third quicker on CPUs
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = layer(x)
            if min(x.shape[-2:]) >= 8:
                x = max_pool2d(x, 2)  # before the norm, which then has less to do
            x = relu(norm(x))
        return x.flatten(2).transpose(1, 2) if self.places else x.amax((-2, -1))


def _images(dataset: Dataset) -> Tensor | StoredRows:
    if dataset.images is None:
        raise ValueError("a convolutional network needs images, and the data set has none")
    return dataset.images
