"""Scenes of handwritten digits: which digits are in the picture?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from labelset import check
from labelset.catalog import hyper
from labelset.data.builtin import Builtin
from labelset.data.dataset import Dataset
from labelset.files import optional
from labelset.labels import Labels

Array = np.ndarray[Any, Any]
SIDE = 8
"""Pixels of one digit, each way."""
PER_SCENE = (0.05, 0.30, 0.30, 0.20, 0.15)
"""How often a scene has 0, 1, 2, 3, 4 digits."""
FALL = 0.8
"""Digit k + 1 is drawn this much more rarely than digit k: 9 is seven times rarer than 0."""


@dataclass(frozen=True, kw_only=True)
class Digits(Builtin):
    """Up to four of scikit-learn's 1,797 handwritten digits at random places of a dark canvas.

    The labels are the ten digits. Train, valid and test scenes are made from disjoint sets of
    handwritten digits, so that nothing is learnt by heart. High digits are rarer than low ones.
    """

    seed: int = hyper(0, "of all that is random")
    train: int = hyper(4000, "scenes for training")
    valid: int = hyper(800, "scenes for validation")
    test: int = hyper(1200, "scenes for testing")
    size: int = hyper(24, "pixels of the canvas, each way")
    noise: float = hyper(0.08, "standard deviation of the noise, white being 1")

    def __post_init__(self) -> None:
        for name in ("seed", "train", "valid", "test"):
            check.whole(name, getattr(self, name))
        check.whole("size", self.size, low=2 * SIDE + 4)
        check.number("noise", self.noise, low=0.0)

    def make(self) -> Dataset:
        """(rows, 1, size, size) uint8 images and their labels."""
        rng = np.random.default_rng(self.seed)
        images, digits = _handwritten()
        pictures, labels, split = [], [], []
        for part, (pool, count) in enumerate(
            zip(_pools(digits, rng), (self.train, self.valid, self.test), strict=True)
        ):
            drawn, places = _layout(count, self.size, rng)
            chosen = _choice(digits, pool, drawn.shape, rng)
            pictures.append(self._painted(images[chosen], drawn, places, rng))
            labels.append(_present(digits[chosen], drawn))
            split += [part] * count
        return Dataset(
            labels=Labels.from_dense(np.concatenate(labels)),
            names=[str(digit) for digit in range(10)],
            images=torch.from_numpy(np.concatenate(pictures)),
            split=torch.tensor(split, dtype=torch.int8),
            card={
                "source": "digits",
                "notes": ["scenes of scikit-learn's handwritten digits, disjoint between parts"],
            },
        )

    def _painted(self, images: Array, drawn: Array, places: Array, rng: Any) -> Array:
        canvas = np.zeros((len(drawn), self.size, self.size), dtype=np.float32)
        steps = np.arange(SIDE)
        for slot in range(drawn.shape[1]):
            scene = np.flatnonzero(drawn[:, slot])
            y, x = (places[scene, slot, axis, None] + steps for axis in (0, 1))
            canvas[scene[:, None, None], y[:, :, None], x[:, None, :]] = images[scene, slot]
        canvas += rng.normal(0, self.noise, canvas.shape).astype(np.float32)
        return np.round(255 * canvas.clip(0, 1)).astype(np.uint8)[:, None]


def _handwritten() -> tuple[Array, Array]:
    """((1797, 8, 8) in [0, 1], (1797,) digits)."""
    found = optional("sklearn.datasets", "handwritten digits").load_digits()
    return (found.images / 16).astype(np.float32), found.target


def _pools(digits: Array, rng: Any) -> list[Array]:
    """Handwritten digits for train, valid and test: 70, 10 and 20% of each digit."""
    pools: list[list[Array]] = [[], [], []]
    for digit in range(10):
        mixed = rng.permutation(np.flatnonzero(digits == digit))
        cuts = np.round(np.array([0.7, 0.8]) * len(mixed)).astype(int)
        for pool, part in zip(pools, np.split(mixed, cuts), strict=True):
            pool.append(part)
    return [np.concatenate(pool) for pool in pools]


def _layout(count: int, size: int, rng: Any) -> tuple[Array, Array]:
    """((count, 4) which of four digits are drawn, (count, 4, 2) where), none over another."""
    most = len(PER_SCENE) - 1
    drawn = np.arange(most) < rng.choice(most + 1, size=count, p=PER_SCENE)[:, None]
    places = np.zeros((count, most, 2), dtype=np.int64)
    left = np.arange(count)
    while len(left):
        places[left] = rng.integers(0, size - SIDE + 1, (len(left), most, 2))
        apart = np.abs(places[left, :, None] - places[left, None]).max(-1) >= SIDE
        both = drawn[left, :, None] & drawn[left, None] & ~np.eye(most, dtype=bool)
        left = left[(both & ~apart).any((1, 2))]
    return drawn, places


def _choice(digits: Array, pool: Array, shape: tuple[int, ...], rng: Any) -> Array:
    """Handwritten digits from a pool, the digit's weight shared by all that show it."""
    weight = FALL ** digits[pool] / np.bincount(digits[pool], minlength=10)[digits[pool]]
    return np.asarray(rng.choice(pool, size=shape, p=weight / weight.sum()))


def _present(digits: Array, drawn: Array) -> Array:
    """(scenes, 10) bool: which digits are drawn."""
    return np.asarray(((digits[:, :, None] == np.arange(10)) & drawn[:, :, None]).any(1))
