"""Lines through the log-odds: temperature and vector scaling (Guo et al.), Platt scaling.

They are fitted by a damped Newton for many small convex problems at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from labelset import check
from labelset.calibrate._base import PER, STRENGTH, ProbMap, answers, fitting_width
from labelset.catalog import hyper
from labelset.learned import LearnedSpec

STEPS, CLOSE = 200, 1e-12

State = tuple[Tensor, Tensor, Tensor]
"""Value (n,), gradient (n, 2), Hessian (n, 2, 2)."""


def minimise(loss: Callable[[Tensor], State], x: Tensor, free: Tensor) -> Tensor:
    """The (n, 2) points of least loss, each its own problem; `free`: (2,) bool, what may move.

    A step is halved until it lowers the value (Armijo), and the last one is expected to gain less
    than 1e-12, so that what is left after it is rounding. There is no learning rate to choose.

    >>> centre = torch.tensor([[3.0, -1.0]])
    >>> curve = torch.tensor([[[2.0, 0.0], [0.0, 1.0]]])
    >>> def bowl(x):
    ...     slope = (curve @ (x - centre)[..., None])[..., 0]
    ...     return (slope * (x - centre)).sum(1) / 2, slope, curve
    >>> minimise(bowl, torch.zeros(1, 2), torch.tensor([True, True]))
    tensor([[ 3., -1.]])
    """
    value, slope, curve = loss(x)
    move, length = _direction(slope, curve, free), torch.ones_like(value)
    for _ in range(STEPS):
        gain = -(slope * move).sum(1)
        new = x + length[:, None] * move
        candidate = loss(new)
        rounding = 1e-14 * (1 + value.abs())
        lower = candidate[0] <= value - 1e-4 * length * gain + rounding
        x = torch.where(lower[:, None], new, x)
        value = torch.where(lower, candidate[0], value)
        slope = torch.where(lower[:, None], candidate[1], slope)
        curve = torch.where(lower[:, None, None], candidate[2], curve)
        if bool(((gain <= CLOSE) | (length < 1e-12)).all()):
            break
        move = torch.where(lower[:, None], _direction(slope, curve, free), move)
        length = torch.where(lower, 1.0, length / 2)
    return x


def _direction(slope: Tensor, curve: Tensor, free: Tensor) -> Tensor:
    """Newton's step; where curvature is lost in rounding, or none, it stays finite."""
    size = curve.diagonal(dim1=-2, dim2=-1)
    damped = curve + torch.diag_embed(torch.where(size > 0, 1e-13 * size, 1.0))
    damped = torch.where(free[:, None] & free, damped, torch.diag((~free).to(curve)))
    step: Tensor = torch.linalg.solve(damped, -torch.where(free, slope, 0.0))
    return step


CELLS = 2**15  # entries worked on at a time, so that they stay in the cache


class Affine(NamedTuple):
    """Slope a and offset b, (labels,) each."""

    slope: Tensor
    offset: Tensor


def affine_fit(
    u: Tensor,
    t: Tensor,
    towards: Affine,
    ridge: Tensor,
    with_offset: bool,
    weight: Tensor | None = None,
) -> Affine:
    """The lines that minimise

        sum over known of w (softplus(a u + b) - t (a u + b))  +  (x - x0)' ridge (x - x0) / 2

    over x = (a, b), a >= 0, x0 being `towards`; b stays 0 without offset. u, t and the weight w, 1
    unless given, are (labels, rows), t NaN where unknown; `ridge` is (2, 2).

    >>> u, t = torch.tensor([[-1.0, 0.0, 1.0, 2.0]]), torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    >>> flat = Affine(torch.zeros(1), torch.zeros(1))
    >>> affine_fit(u.double(), t.double(), flat, torch.zeros(2, 2).double(), with_offset=True).slope
    tensor([0.9082], dtype=torch.float64)
    """
    centre, scale = _spread(u, t, with_offset)
    # x = back @ x', where x' is the line over (u - centre) / scale
    back = torch.eye(2).to(u).repeat(len(u), 1, 1)
    back[:, 0, 0], back[:, 1, 0] = 1 / scale, -centre / scale
    known = ~t.isnan()
    if weight is None and not bool(known.all()):
        weight = torch.ones_like(u)
    data = _Data(
        z=torch.where(known, (u - centre[:, None]) / scale[:, None], 0.0),
        t=t.nan_to_num(0.0),
        weight=None if weight is None else weight * known,
        near=torch.stack([towards.slope * scale, towards.offset + towards.slope * centre], -1),
        ridge=back.mT @ ridge @ back,
    )
    x = (back @ _rising(data, with_offset)[..., None])[..., 0]
    return Affine(x[:, 0], x[:, 1] if with_offset else torch.zeros_like(scale))


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
        on = self.t if self.weight is None else self.t * self.weight
        mean = (on.sum(1) + 0.5) / (count + 1)
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


def information(u: Tensor, line: Affine, weight: Tensor | None = None) -> Tensor:
    """(2, 2): the mean Fisher information about (a, b) of one entry, at one line."""
    p = torch.sigmoid(line.slope * u + line.offset)
    bend = p * (1 - p)
    if weight is not None:
        bend = bend * weight / weight.mean()
    cross = (bend * u).mean()
    return torch.stack([(bend * u * u).mean(), cross, cross, bend.mean()]).reshape(2, 2)


@dataclass(kw_only=True, eq=False)
class _Scaling(ProbMap):
    """p = sigmoid(a u + b) with a >= 0, a and b of least log loss; see `affine_fit`."""

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

    def parts(self) -> dict[str, LearnedSpec]:
        """One line for each label, or one for all."""
        lines = "1" if self.per == "pool" else "labels"
        offset = LearnedSpec(lines) if self.with_offset else LearnedSpec(lines, low=0.0, high=0.0)
        return {"slope": LearnedSpec(lines, low=0.0), "offset": offset}

    def _learn(self, u: Tensor, y: Tensor, weight: Tensor | None = None) -> dict[str, Tensor]:
        known = ~y.isnan()
        each = None if weight is None else weight[:, None].to(u).expand(u.shape)
        pool_u, pooled = u[known], None if each is None else each[known]
        lone = None if pooled is None else pooled[:, None]
        pool = self._fit(pool_u[:, None], y[known][:, None], lone)
        if self.per == "pool":
            return pool._asdict()
        seen = answers(y, each)
        if self.per == "label":
            own = self._fit(u, y, each, pool)
            both = (seen > 0).all(0)
            pairs = zip(own, pool, strict=True)
            return Affine(*(torch.where(both, mine, its) for mine, its in pairs))._asdict()
        rarer = seen.sum(1).min() / seen.sum()
        ridge = self.strength / rarer * information(pool_u, pool, pooled)
        return self._fit(u, y, each, pool, ridge)._asdict()

    def _fit(
        self,
        u: Tensor,
        y: Tensor,
        weight: Tensor | None,
        towards: Affine | None = None,
        ridge: Tensor | None = None,
    ) -> Affine:
        if towards is None:
            towards = Affine(u.new_ones(1), u.new_zeros(1))
        ridge = u.new_zeros(2, 2) if ridge is None else ridge
        t = platt_targets(y, weight) if self.smoothed else y
        each = None if weight is None else weight.T.contiguous()
        lines = u.T.contiguous(), t.T.contiguous()
        return affine_fit(*lines, towards, ridge, self.with_offset, each)

    def _map(self, u: Tensor) -> Tensor:
        slope, offset = self.found("slope").to(u.device), self.found("offset").to(u.device)
        if self.per != "pool":
            fitting_width(slope, u)
        return torch.sigmoid(torch.addcmul(offset, slope, u))


def platt_targets(y: Tensor, weight: Tensor | None = None) -> Tensor:
    """(N+ + 1) / (N+ + 2) for labels that are on, 1 / (N- + 2) for those off, between for soft.

    >>> platt_targets(torch.tensor([[1.0], [0.0], [torch.nan]]))
    tensor([[0.6667],
            [0.3333],
            [   nan]])
    """
    on, off = answers(y, weight)
    low = 1 / (off + 2)
    return torch.lerp(low, (on + 1) / (on + 2), y)


@dataclass(kw_only=True, eq=False)
class Platt(_Scaling):
    """A line through the log-odds, fitted to targets that keep off 0 and 1.

        p = sigmoid(a u + b), a >= 0
        targets: (N+ + 1) / (N+ + 2) for labels that are on, 1 / (N- + 2) for those off

    The targets are Platt's: labels whose scores separate perfectly keep modest probabilities.

    Use it: by default. With `per="shrunk"` common labels get a line of their own and rare ones
    nearly that of the pool.

    >>> m = Platt(per="label").fit([[-1.0], [0.0], [1.0], [2.0]], [[0], [1], [0], [1]])
    >>> m([[0.0], [1.0]])
    tensor([[0.4487],
            [0.5513]], dtype=torch.float64)
    """

    name = "platt"

    smoothed = True


@dataclass(kw_only=True, eq=False)
class Temperature(_Scaling):
    """Log-odds divided by a temperature of least log loss: over-confidence undone, nothing more.

        p = sigmoid(u / T), 1 / T >= 0

    The loss is convex in 1 / T. Where higher scores go with fewer positives, 1 / T is 0 and every
    probability 1/2.

    Use it: with little data to calibrate on, when scores are centred well but too sure. No
    probability crosses 1/2, so that it cannot help where all of them are too high.

    >>> import torch
    >>> v = torch.tensor([[-4.0], [-4.0], [4.0], [4.0], [4.0]])
    >>> m = Temperature(per="label").fit(v, [[0], [1], [1], [0], [1]])
    >>> m.temperature
    tensor([9.8652], dtype=torch.float64)
    """

    name = "temperature"

    with_offset = False

    @property
    def temperature(self) -> Tensor:
        """T of each label, or of all; infinite where 1 / T is 0."""
        return 1 / self.found("slope")


@dataclass(kw_only=True, eq=False)
class Vector(_Scaling):
    """A line of maximum likelihood for each label by itself.

        p = sigmoid(a u + b), a >= 0

    Use it: when every label has positives in plenty. It is `platt` with the labels themselves as
    targets, so that a label whose scores separate perfectly comes out all but certain.

    >>> m = Vector().fit([[-1.0], [0.0], [1.0], [2.0]], [[0], [1], [0], [1]])
    >>> m([[0.0], [1.0]])
    tensor([[0.3884],
            [0.6116]], dtype=torch.float64)
    """

    name = "vector"

    per: str = hyper("label", PER)
