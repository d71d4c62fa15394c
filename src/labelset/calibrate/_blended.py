"""Maps without a formula: a curve for each label, mixed with that of the pool."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from labelset import check
from labelset._fitted import Part
from labelset.calibrate._base import ProbMap, answers
from labelset.calibrate._scaling import PER, STRENGTH, fitting_width
from labelset.catalog import hyper

__all__ = ["Blended"]

T = TypeVar("T")


@dataclass(kw_only=True, eq=False)
class Blended(ProbMap):
    """p = share * p_label + (1 - share) * p_pool.

    per="label": share is 1, but 0 for a label that was only ever seen on, only off, or not at all
    per="pool": share is 0
    per="shrunk": share = m / (m + strength), m being how often the label's rarer answer was seen
    """

    per: str = hyper("shrunk", PER)
    strength: float = hyper(30.0, STRENGTH)

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("per", self.per, ("label", "pool", "shrunk"))
        check.number("strength", self.strength, low=0.0, open_low=True)

    @property
    def scales(self) -> bool:
        """A curve can take any shape."""
        return True

    @property
    def shifts(self) -> bool:
        """A curve can take any shape."""
        return True

    def parts(self) -> dict[str, Part]:
        """The curve of the pool, and with `per` other than "pool" those of the labels."""
        pool = _named("pool", self._curve_parts("1"))
        if self.per == "pool":
            return pool
        each = _named("label", self._curve_parts("labels"))
        return pool | each | {"share": Part("labels", low=0.0, high=1.0)}

    @abstractmethod
    def _curve_parts(self, curves: str) -> dict[str, Part]:
        """What `_curves` returns, "1" or "labels" of them."""

    @abstractmethod
    def _curves(self, u: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Curves of (labels, rows) log-odds and labels; unknown labels are NaN."""

    @abstractmethod
    def _read(self, curves: dict[str, Tensor], u: Tensor) -> Tensor:
        """Probabilities of (labels, rows) log-odds by such curves."""

    def _learn(self, u: Tensor, y: Tensor) -> dict[str, Tensor]:
        known = ~y.isnan()
        pool = _named("pool", self._curves(u[known][None], y[known][None]))
        if self.per == "pool":
            return pool
        m = answers(y).amin(0)
        share = (m > 0).to(u) if self.per == "label" else m / (m + self.strength)
        curves = self._curves(u.T.contiguous(), y.T.contiguous())
        return pool | _named("label", curves) | {"share": share}

    def _map(self, u: Tensor) -> Tensor:
        pool = self._read(self._part("pool"), u.reshape(1, -1)).reshape(u.shape)
        if self.per == "pool":
            return pool
        share = fitting_width(self.found("share"), u).to(u.device)
        return torch.lerp(pool, self._read(self._part("label"), u.T.contiguous()).T, share)

    def _part(self, whose: str) -> dict[str, Tensor]:
        self.found(f"{whose}_p")
        start = f"{whose}_"
        return {k.removeprefix(start): t for k, t in self.learnt.items() if k.startswith(start)}


def _named(whose: str, parts: dict[str, T]) -> dict[str, T]:
    return {f"{whose}_{name}": part for name, part in parts.items()}
