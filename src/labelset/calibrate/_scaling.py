"""Maps that move and stretch log-odds: one line per label, drawn towards that of the pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labelset import check
from labelset._fitted import Part
from labelset.calibrate._base import ProbMap, answers
from labelset.calibrate._lines import Line, fit_lines, information
from labelset.catalog import hyper

__all__ = ["PER", "STRENGTH", "Scaling", "fitting_width"]

PER = "`label`, `pool`, or `shrunk`: each label, drawn to the pool the more the rarer it is"
STRENGTH = "for `shrunk`: how many of its rarer answer a label needs to weigh as much as the pool"


@dataclass(kw_only=True, eq=False)
class Scaling(ProbMap):
    """p = sigmoid(a u + b) with a >= 0, a and b of least log loss; see `fit_lines`."""

    per: str = hyper("shrunk", PER)
    strength: float = hyper(10.0, STRENGTH)

    with_offset: ClassVar[bool] = True
    smoothed: ClassVar[bool] = False
    """Whether targets keep off 0 and 1, by Platt's rule."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("per", self.per, ("label", "pool", "shrunk"))
        check.number("strength", self.strength, low=0.0, open_low=True)

    @property
    def scales(self) -> bool:
        """By the slope."""
        return True

    @property
    def shifts(self) -> bool:
        """By the offset."""
        return self.with_offset

    def parts(self) -> dict[str, Part]:
        """One line for each label, or one for all."""
        lines = "1" if self.per == "pool" else "labels"
        offset = Part(lines) if self.with_offset else Part(lines, low=0.0, high=0.0)
        return {"slope": Part(lines, low=0.0), "offset": offset}

    def _learn(self, u: Tensor, y: Tensor) -> dict[str, Tensor]:
        known = ~y.isnan()
        pool_u = u[known]
        pool = self._fit(pool_u[:, None], y[known][:, None])
        if self.per == "pool":
            return pool._asdict()
        seen = answers(y)
        if self.per == "label":
            each = self._fit(u, y, pool)
            both = (seen > 0).all(0)
            pairs = zip(each, pool, strict=True)
            return Line(*(torch.where(both, mine, its) for mine, its in pairs))._asdict()
        rarer = seen.sum(1).min() / seen.sum()
        return self._fit(u, y, pool, self.strength / rarer * information(pool_u, pool))._asdict()

    def _fit(
        self, u: Tensor, y: Tensor, towards: Line | None = None, ridge: Tensor | None = None
    ) -> Line:
        if towards is None:
            towards = Line(u.new_ones(1), u.new_zeros(1))
        ridge = u.new_zeros(2, 2) if ridge is None else ridge
        t = platt_targets(y) if self.smoothed else y
        return fit_lines(u.T.contiguous(), t.T.contiguous(), towards, ridge, self.with_offset)

    def _map(self, u: Tensor) -> Tensor:
        slope, offset = self.found("slope").to(u.device), self.found("offset").to(u.device)
        if self.per != "pool":
            fitting_width(slope, u)
        return torch.sigmoid(torch.addcmul(offset, slope, u))


def platt_targets(y: Tensor) -> Tensor:
    """(N+ + 1) / (N+ + 2) for labels that are on, 1 / (N- + 2) for those off, between for soft.

    >>> platt_targets(torch.tensor([[1.0], [0.0], [torch.nan]]))
    tensor([[0.6667],
            [0.3333],
            [   nan]])
    """
    on, off = answers(y)
    low = 1 / (off + 2)
    return torch.lerp(low, (on + 1) / (on + 2), y)


def fitting_width(learnt: Tensor, u: Tensor) -> Tensor:
    """Something learnt per label, checked against the scores' number of labels."""
    if len(learnt) != u.shape[1]:
        raise ValueError(
            f"the map was fitted to {len(learnt)} labels, scores have {u.shape[1]}; fit one to "
            'these, or one with per="pool", which serves any number'
        )
    return learnt
