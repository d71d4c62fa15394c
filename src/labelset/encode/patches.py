"""Patches: features of pictures that are learnt from the pictures alone, in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, unfold

from labelset import check
from labelset.catalog import hyper
from labelset.data import Dataset
from labelset.encode._base import Encoder, Inputs, check_state, moments, standardised

SEEN, DRAWN, ROUNDS = 512, 50_000, 10
"""Training pictures that atoms are learnt from, patches of these, and rounds of k-means."""
NOISE, WHITE = 6e-4, 0.1
"""Added to the variance of a patch, whose pixels are from 0 to 1, and to that of its directions, so
that an even patch and a rare direction are not blown up."""
TOGETHER = 32
"""Pictures whose patches are in memory together."""
QUARTERS, TILES = 2, 4
"""Parts of a side over which atoms, and colours, are averaged."""


@dataclass(kw_only=True, eq=False)
class Patches(Encoder):
    """How near the patches of each quarter of a picture are to typical ones (Coates et al., 2011).

    A patch x is freed of its mean and contrast and whitened; atoms c_k are the centres that k-means
    finds among patches of training pictures. Of every patch f_k = max(0, mean_k |x - c_k| - |x -
    c_k|), and features are its means over quarters, besides the mean and deviation of each channel
    in 4 x 4 tiles; standardised. Larger pictures are averaged down to `side`.

    For linear heads, trees and small networks where there is no pretrained network: no labels are
    needed, and no training but k-means.

    >>> data = Dataset.from_arrays(images=torch.rand(8, 3, 12, 12), labels=[[1]] * 8)
    >>> Patches(atoms=10).fit(data)(data).shape
    torch.Size([8, 136])
    """

    name = "patches"
    reads = ("images",)
    costly = True

    atoms: int = hyper(300, "typical patches; there are four features of each")
    size: int = hyper(6, "width and height of a patch")
    side: int = hyper(32, "larger pictures are averaged down to this width and height")
    seed: int = hyper(0, "of the patches that are drawn")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("atoms", self.atoms, low=1)
        check.whole("size", self.size, low=2)
        check.whole("side", self.side, low=self.size)
        check.whole("seed", self.seed)

    def fit(self, train: Dataset) -> Self:
        images, draw = _images(train), torch.Generator().manual_seed(self.seed)
        some = torch.randperm(len(images), generator=draw)[:SEEN].sort().values
        seen = images[some]
        largest = 255.0 if seen.dtype == torch.uint8 else float(seen.abs().max()) or 1.0
        self.facts = {"channels": images.shape[1], "largest": largest}
        every = self._cut(self._small(seen)).flatten(0, 1)
        drawn = every[torch.randperm(len(every), generator=draw)[:DRAWN]]
        mean = drawn.mean(0)
        values, vectors = torch.linalg.eigh((drawn - mean).T @ (drawn - mean) / len(drawn))
        white = vectors @ torch.diag((values.clamp(min=0) + WHITE).rsqrt()) @ vectors.T
        self.learnt = {"shift": mean, "white": white}
        self.learnt["atoms"] = _centres((drawn - mean) @ white, self.atoms, draw)
        self.learnt |= moments(self._features(images))
        return self

    def restore(self, facts: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        """Be what wrote these; ValueError where they do not fit together."""
        channels = facts.get("channels", -1)
        inner, width = channels * self.size**2, (len(state.get("atoms", ())), channels)
        shapes: dict[str, tuple[int, ...]] = {"shift": (inner,), "white": (inner, inner)}
        shapes |= {"atoms": (width[0], inner)}
        features = width[0] * QUARTERS**2 + 2 * channels * TILES**2
        check_state("patches", state, shapes | {"mean": (features,), "deviation": (features,)})
        return super().restore(facts, state)

    def prepare(self, dataset: Dataset) -> Inputs:
        images, channels = _images(dataset), self.fact("channels")
        if images.shape[1] != channels:
            raise ValueError(f"the encoder takes {channels} channels, got {images.shape[1]}")
        return standardised(self._features(images), self.learnt["mean"], self.learnt["deviation"])

    def _features(self, images: Any) -> Tensor:
        parts = [self._of(images[at : at + TOGETHER]) for at in range(0, len(images), TOGETHER)]
        return torch.cat(parts) if parts else self._of(torch.zeros(1, *images.shape[1:]))[:0]

    def _of(self, images: Tensor) -> Tensor:
        x, atoms = self._small(images), self.learnt["atoms"]
        z = (self._cut(x) - self.learnt["shift"]) @ self.learnt["white"]
        far = torch.cdist(z, atoms.expand(len(z), -1, -1))
        near = (far.mean(2, keepdim=True) - far).clamp(min=0).transpose(1, 2)
        places = [size - self.size + 1 for size in x.shape[-2:]]
        quarters = adaptive_avg_pool2d(near.reshape(*near.shape[:2], *places), QUARTERS)
        mean = adaptive_avg_pool2d(x, TILES)
        squares = adaptive_avg_pool2d(x * x, TILES)
        deviation = (squares - mean * mean).clamp(min=0).sqrt()
        return torch.cat([t.flatten(1) for t in (quarters, mean, deviation)], 1)

    def _small(self, images: Tensor) -> Tensor:
        """Numbers of about 1 at most, of a size in which there are patches."""
        x = images.float() / self.fact("largest")
        high, wide = (min(max(size, self.size), self.side) for size in x.shape[-2:])
        return x if x.shape[-2:] == (high, wide) else adaptive_avg_pool2d(x, (high, wide))

    def _cut(self, x: Tensor) -> Tensor:
        """(pictures, places, numbers of a patch), each of mean 0 and like contrast."""
        patches = unfold(x, self.size).transpose(1, 2)
        mean = patches.mean(2, keepdim=True)
        contrast = (patches.var(2, keepdim=True, correction=0) + NOISE).sqrt()
        return (patches - mean) / contrast


def _images(dataset: Dataset) -> Any:
    if dataset.images is None:
        raise ValueError("an encoder of patches needs images, and the data set has none")
    return dataset.images


def _centres(x: Tensor, count: int, draw: torch.Generator) -> Tensor:
    """k-means; a centre without points begins again at one of them."""
    centres = x[torch.randperm(len(x), generator=draw)[:count]].clone()
    for _ in range(ROUNDS):
        nearest = torch.cdist(x, centres).argmin(1)
        sums = torch.zeros_like(centres).index_add(0, nearest, x)
        sizes = nearest.bincount(minlength=len(centres))[:, None]
        others = x[torch.randint(len(x), (len(centres),), generator=draw)]
        centres = torch.where(sizes > 0, sums / sizes.clamp(min=1), others)
    return centres
