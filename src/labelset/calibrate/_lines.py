"""Logistic lines p = sigmoid(a u + b) of least loss, for many labels at once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from labelset.calibrate._newton import State, minimise

__all__ = ["Line", "fit_lines", "information"]

CELLS = 2**15  # entries worked on at a time, so that they stay in the cache


class Line(NamedTuple):
    """Slope a and offset b, (labels,) each."""

    slope: Tensor
    offset: Tensor


def fit_lines(u: Tensor, t: Tensor, towards: Line, ridge: Tensor, with_offset: bool) -> Line:
    """The lines that minimise

        sum over known of softplus(a u + b) - t (a u + b)  +  (x - x0)' ridge (x - x0) / 2

    over x = (a, b), a >= 0, x0 being `towards`; b stays 0 without offset. u and t are (labels,
    rows), t NaN where unknown; `ridge` is (2, 2).

    >>> u, t = torch.tensor([[-1.0, 0.0, 1.0, 2.0]]), torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    >>> flat = Line(torch.zeros(1), torch.zeros(1))
    >>> fit_lines(u.double(), t.double(), flat, torch.zeros(2, 2).double(), with_offset=True).slope
    tensor([0.9082], dtype=torch.float64)
    """
    centre, scale = _spread(u, t, with_offset)
    # x = back @ x', where x' is the line over (u - centre) / scale
    back = torch.eye(2).to(u).repeat(len(u), 1, 1)
    back[:, 0, 0], back[:, 1, 0] = 1 / scale, -centre / scale
    known = ~t.isnan()
    data = _Data(
        z=torch.where(known, (u - centre[:, None]) / scale[:, None], 0.0),
        t=t.nan_to_num(0.0),
        weight=None if bool(known.all()) else known.to(u),
        near=torch.stack([towards.slope * scale, towards.offset + towards.slope * centre], -1),
        ridge=back.mT @ ridge @ back,
    )
    x = (back @ _rising(data, with_offset)[..., None])[..., 0]
    return Line(x[:, 0], x[:, 1] if with_offset else torch.zeros_like(scale))


def _rising(data: _Data, with_offset: bool) -> Tensor:
    """The best lines that do not fall: by convexity, flat where the best of all would fall."""
    free = torch.tensor([True, with_offset], device=data.z.device)
    flat = data.flat() * free
    best = minimise(data.loss, flat, free)
    falls = best[:, 0] < 0
    if bool(falls.any()):
        level = free & torch.tensor([False, True], device=free.device)
        best[falls] = minimise(data.of(falls).loss, flat[falls], level)
    return best


def _spread(u: Tensor, t: Tensor, centred: bool) -> tuple[Tensor, Tensor]:
    """Of the known u of each label: the median (or 0), and the root mean square about it."""
    known = torch.where(t.isnan(), torch.nan, u)
    centre = known.nanmedian(1).values.nan_to_num(0.0) * centred
    scale = (known - centre[:, None]).square().nanmean(1).sqrt()
    return centre, torch.where(scale > 0, scale, 1.0)


class _Data(NamedTuple):
    """The problems in well-scaled terms: z, t and weight (labels, rows), the ridge's parts."""

    z: Tensor
    t: Tensor
    weight: Tensor | None
    near: Tensor
    ridge: Tensor

    def of(self, labels: Tensor) -> _Data:
        return _Data(*(None if part is None else part[labels] for part in self))  # type: ignore[arg-type]

    def flat(self) -> Tensor:
        """A safe start, where curvature is large: about the mean of the targets for all entries.

        Scores that are all equal say nothing about a slope, which then stays where it is drawn.
        """
        count = self.z.shape[1] if self.weight is None else self.weight.sum(1)
        mean = (self.t.sum(1) + 0.5) / (count + 1)
        slope = torch.where((self.z == 0).all(1), self.near[:, 0], 0.0)
        return torch.stack([slope, torch.logit(mean)], -1)

    def loss(self, x: Tensor) -> State:
        away = x - self.near
        pull = (self.ridge @ away[..., None])[..., 0]
        labels, rows = self.z.shape
        tall = min(max(CELLS // max(rows, 1), 1), max(labels, 1))  # whole labels, where they fit
        wide = max(CELLS // tall, 1)
        sums = x.new_zeros(6, labels)
        for i in range(0, labels, tall):
            for j in range(0, rows, wide):
                at = slice(i, i + tall), slice(j, j + wide)
                weight = None if self.weight is None else self.weight[at]
                sums[:, at[0]] += _sums(x[at[0]], self.z[at], self.t[at], weight)
        value = sums[0] + (away * pull).sum(1) / 2
        return value, sums[1:3].T + pull, sums[[3, 4, 4, 5]].T.reshape(-1, 2, 2) + self.ridge


def _sums(x: Tensor, z: Tensor, t: Tensor, weight: Tensor | None) -> Tensor:
    """(6, labels): the log loss, its two slopes, its three curvatures."""
    eta = torch.addcmul(x[:, 1:], z, x[:, :1])
    value = softplus(eta, threshold=40.0).addcmul_(t, eta, value=-1)
    p = torch.sigmoid(eta)
    miss, bend = p - t, p * (1 - p)
    if weight is not None:
        value, miss, bend = value * weight, miss * weight, bend * weight
    bent = bend * z
    parts = (value, miss * z, miss, bent * z, bent, bend)
    return torch.stack([part.sum(1) for part in parts])


def information(u: Tensor, line: Line) -> Tensor:
    """(2, 2): the mean Fisher information about (a, b) of one entry, at one line."""
    p = torch.sigmoid(line.slope * u + line.offset)
    bend = p * (1 - p)
    cross = (bend * u).mean()
    return torch.stack([(bend * u * u).mean(), cross, cross, bend.mean()]).reshape(2, 2)
