"""Verdicts of many label sets on a device that computes in float64 (CUDA), all together.

The signed unit rows are one matrix for all label sets, with a sign per entry: what concerns all
rows is one product with that matrix, the signs going before or after it. Every label set has a
working set of a few rows, those of least margin at its point. `separate` solves all of these
together, prices all rows at the new points in one product, and renews the working sets, until no
row matters that is not in them. Where the norm vanishes the origin seems to be in the hull of a
working set, and `surround` moves the multipliers to a vertex: d + 1 rows, the certificate.

What they find is proven by the bounds of `_certify`. Whatever is not proven there, and the label
sets that need no search, are left to `_prove` on the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelset.labels import Labels
from labelset.proofs import _certify
from labelset.proofs._prove import AGREE, Verdict, reopened
from labelset.proofs.problem import OutputLayer


@dataclass(frozen=True)
class SignedRows:
    """A_l: row i is signs[l, i] * unit[i]; sign 0 leaves it out."""

    unit: Tensor
    """(n, d), float64"""
    signs: Tensor
    """(L, n), int8"""
    unknown: bool
    """Whether any sign is 0."""

    def __getitem__(self, which: Tensor) -> SignedRows:
        return replace(self, signs=self.signs[which])

    def margins(self, w: Tensor) -> Tensor:
        """(L, n): A w, infinite for rows that are left out."""
        margins = (w @ self.unit.T).mul_(self.signs)
        return margins.masked_fill_(self.signs == 0, torch.inf) if self.unknown else margins

    def mean(self) -> Tensor:
        """(L, d): A' lam of `halves` of all rows."""
        return (halves(self.signs) * self.signs) @ self.unit

    def some(self, which: Tensor) -> Tensor:
        """(L, k, d): rows by number."""
        return self.unit[which] * self.signs.gather(1, which)[..., None]

    def working(self, which: Tensor) -> Tensor:
        """(L, k, d + 1): G = [A -1] of rows by number; 0 for rows that are left out."""
        signs = self.signs.gather(1, which)[..., None]
        rows = self.unit.new_empty(*which.shape, self.unit.shape[1] + 1)
        torch.mul(self.unit[which], signs, out=rows[..., :-1])
        rows[..., -1:] = -signs.abs()
        return rows


def halves(signs: Tensor) -> Tensor:
    """(L, k): half of the weight on the labels that are on, half on those that are off."""
    on, off = (signs == 1).double(), (signs == -1).double()
    lam = on / on.sum(1, keepdim=True).clamp_min(1) + off / off.sum(1, keepdim=True).clamp_min(1)
    return lam / lam.sum(1, keepdim=True)


# ---- one working set: ---------------------------------------------------------------------------

# An interior point method for many label sets at once, all steps of it products on the device.
#
#     minimise r |w|^2 / 2 - t   subject to   s = G (w, t) + c >= 0,   G = [A -1]
#
# With r = 1, c = 0 this is the point of least norm in the hull of the rows: its multipliers lam are
# the weights of that point, w = A' lam, and the minimum is at t = |w|^2. With r = 0 it is a linear
# programme whose multipliers are a vertex of {lam >= 0 : A' lam = 0, sum of lam = 1}. A row that is
# left out is 0 in G and has a constant s, so it steers nothing.
#
# Steps are those of Mehrotra (1992).

STEP = 0.99  # of the way to the boundary
BELOW = 0.1  # how far t starts below the least margin, as a share of the gap there
LEAST = 0.005  # the least product s * lam to start with, as a share of their mean


@dataclass(frozen=True)
class Interior:
    """Where each search stands: points and multipliers, both strictly inside."""

    z: Tensor
    """(L, d + 1): w and t"""
    s: Tensor
    """(L, m)"""
    lam: Tensor
    """(L, m)"""

    def __getitem__(self, which: Tensor) -> Interior:
        return Interior(self.z[which], self.s[which], self.lam[which])

    def copy(self) -> Interior:
        """One that `put` may write to."""
        return Interior(self.z.clone(), self.s.clone(), self.lam.clone())

    def put(self, which: Tensor, some: Interior) -> None:
        """Write where some of the label sets stand, in place."""
        self.z[which], self.s[which], self.lam[which] = some.z, some.s, some.lam

    @property
    def gap(self) -> Tensor:
        """(L,): how far points and multipliers are from optimal."""
        return (self.s * self.lam).sum(1)

    @property
    def norms(self) -> Tensor:
        """(L,): |w|^2"""
        return self.z[:, :-1].square().sum(1)


def begin(rows: Tensor, lam: Tensor) -> Interior:
    """Near given multipliers >= 0, from where no product s * lam is too small."""
    at = _at(rows, lam)
    least = LEAST * at.gap[:, None] / lam.shape[1]
    return _at(rows, torch.maximum(at.lam, least / at.s))


def _at(rows: Tensor, lam: Tensor) -> Interior:
    """w = A' lam for multipliers scaled to a sum of 1, and a t below all margins."""
    known = -rows[..., -1]
    lam = lam / (lam * known).sum(1, keepdim=True)
    z = torch.bmm(lam[:, None], rows)[:, 0]
    z[:, -1] = 0.0
    margins = torch.bmm(rows, z[..., None])[..., 0] + 2 * (1 - known)  # unit rows have less than 2
    least = margins.amin(1, keepdim=True)
    norms = z.square().sum(1, keepdim=True)
    gap = torch.maximum(norms - least, 1e-3 * norms).clamp_min(1e-12)
    z[:, -1:] = least - BELOW * gap
    return Interior(z, margins - known * z[:, -1:], lam)


def step(rows: Tensor, at: Interior, r: float, moving: Tensor) -> tuple[Interior, Tensor]:
    """One step for the label sets that are moving, and which of them could take it.

    With D = lam / s and an aim for the products s * lam the direction dz solves
    (r I + G' D G) dz = G' (aim / s) + (-r w, 1), and ds = G dz, dlam = (aim - lam ds) / s - lam.
    """
    s, lam, products = at.s, at.lam, at.s * at.lam
    scale = lam / s
    matrix = torch.bmm((rows * scale[..., None]).mT, rows)
    matrix.diagonal(dim1=1, dim2=2)[:, :-1].add_(r)
    factor, failed = torch.linalg.cholesky_ex(matrix)
    right = -r * at.z
    right[:, -1] = 1.0
    ratio = torch.bmm(rows, torch.cholesky_solve(right[..., None], factor))[..., 0] / s
    bent = torch.addcmul(ratio, ratio, ratio).mul_(products)  # -ds dlam where the aim is 0
    goal = _goal(ratio, bent, products)
    share = (goal + bent).div_(s)
    right = torch.baddbmm(right[:, None], share[:, None], rows).mT
    dz = torch.cholesky_solve(right, factor)
    ds = torch.bmm(rows, dz)[..., 0]
    dlam = torch.addcmul(share.sub_(lam), scale, ds, value=-1)
    worst = torch.minimum(ds / s, dlam / lam).amin(1, keepdim=True)
    far = (-STEP / worst.clamp_max(-1e-9)).clamp_max(1.0)
    good = (far > 0) & ((failed == 0) & moving)[:, None]  # far is 0 or NaN where dz is not finite
    pairs = ((at.z, dz[..., 0]), (s, ds), (lam, dlam))
    moved = (torch.where(good, torch.addcmul(x, far, dx), x) for x, dx in pairs)
    return Interior(*moved), good[:, 0]


def _goal(ratio: Tensor, bent: Tensor, products: Tensor) -> Tensor:
    """(L, 1): the mean product to aim at, from how far the step with aim 0 would lead.

    There ds / s is the ratio and dlam / lam = -1 - ratio, so that after a share a of the step the
    products add up to (1 - a) gap - a^2 sum(bent).
    """
    least, most = torch.aminmax(ratio, dim=1, keepdim=True)
    a = 1 / torch.maximum(-least, 1 + most).clamp_min(1.0)
    gap = products.sum(1, keepdim=True)
    left = 1 - a - a.square() * (bent.sum(1, keepdim=True) / gap)
    return gap / ratio.shape[1] * left**3


# ---- all rows: ----------------------------------------------------------------------------------

TOLERANCES = (0.2, 1e-2, *[1e-7] * 6)  # the relative gap at which each round ends
CLOSE = 3e-7  # the one, over all rows, at which a search ends
NOUGHT = 1e-4  # |w|^2 over the gap, below which the norm counts as 0
STAY = 1e-3  # rows stay in a working set whose multiplier is so large a share of the largest
STEPS = 15
FEW = 32  # a round ends when one label set in so many is not done
Done = Callable[[Interior], Tensor]


@dataclass(frozen=True)
class SearchEnd:
    """Where the searches ended."""

    at: Interior
    which: Tensor
    """(L, m): the rows of the working sets"""
    least: Tensor
    """(L,): the least margin of all rows at w; -inf where the hull seems to hold the origin"""

    def __getitem__(self, some: Tensor) -> SearchEnd:
        return SearchEnd(self.at[some], self.which[some], self.least[some])

    def put(self, live: Tensor, at: Interior, which: Tensor, least: Tensor) -> None:
        """Write where some of the label sets stand, in place."""
        self.at.put(live, at)
        self.which[live], self.least[live] = which, least


def working_size(n: int, d: int) -> int:
    """How many rows a working set has."""
    return min(n, 3 * d + 8)


def separate(rows: SignedRows) -> SearchEnd:
    """Points of least norm of the hulls."""
    d = rows.unit.shape[1]
    which = _lowest(rows.margins(rows.mean()), d)
    lam = halves(rows.signs.gather(1, which))
    found, live = _nothing(which, d), torch.arange(len(which), device=which.device)
    for tolerance in TOLERANCES:
        working = rows.working(which)
        at = _until(working, begin(working, lam), partial(_settled, tolerance), 1.0)
        around = _vanished(at)
        margins = rows.margins(at.z[:, :-1])
        least = margins.amin(1)
        found.put(live, at, which, least.masked_fill(around, -torch.inf))
        left = torch.nonzero((at.norms - least > CLOSE * at.norms) & ~around)[:, 0]
        if not len(left):
            break
        rows, live = rows[left], live[left]
        which, lam = _renewed(margins[left], which[left], at.lam[left], d)
    return found


def _nothing(which: Tensor, d: int) -> SearchEnd:
    """Space for what is to be found."""
    count, m = which.shape
    z, s, lam, least = (
        torch.zeros(shape, dtype=torch.float64, device=which.device)
        for shape in ((count, d + 1), (count, m), (count, m), (count,))
    )
    return SearchEnd(Interior(z, s, lam), which.clone(), least)


def _lowest(margins: Tensor, d: int) -> Tensor:
    """(L, m): the rows of least margin."""
    return margins.topk(working_size(margins.shape[1], d), largest=False, sorted=False).indices


def _renewed(margins: Tensor, which: Tensor, lam: Tensor, d: int) -> tuple[Tensor, Tensor]:
    """The next working sets, and the multipliers of the last for the rows in both."""
    weights = torch.zeros_like(margins).scatter_(1, which, lam)
    stay = weights > STAY * lam.amax(1, keepdim=True)
    which = _lowest(margins.masked_fill_(stay, -torch.inf), d)
    return which, weights.gather(1, which)


def _vanished(at: Interior) -> Tensor:
    return at.norms < NOUGHT * at.gap


def _settled(tolerance: float, at: Interior) -> Tensor:
    ratio = at.norms / at.gap
    return (ratio * tolerance > 1) | (ratio < NOUGHT)


def surround(rows: SignedRows, result: SearchEnd) -> tuple[Tensor, Tensor]:
    """(L, d + 1) rows and weights of a simplex around the origin, from where `separate` ended.

    There all multipliers are about equally far from 0. A small random cost on each row decides
    which vertex they move to.
    """
    d, (_, m) = rows.unit.shape[1], result.which.shape
    generator = torch.Generator().manual_seed(m)
    cost = torch.rand(m, generator=generator, dtype=torch.float64).to(result.which.device)
    scale = 1 / result.at.s.mean(1, keepdim=True)
    start = Interior(result.at.z * scale, result.at.s * scale + cost, result.at.lam)

    def sharp(at: Interior) -> Tensor:
        largest = at.lam.topk(d + 2).values
        return largest[:, -1] < 1e-3 * largest[:, -2]

    end = _until(rows.working(result.which), start, sharp, 0.0, 4 * STEPS)
    weights, place = end.lam.topk(d + 1)
    return result.which.gather(1, place), weights


def _until(rows: Tensor, at: Interior, done: Done, r: float, steps: int = STEPS) -> Interior:
    """Steps until all label sets but a few are done or stuck; the batch shrinks as they are."""
    few = len(at.z) // FEW
    found, live = at.copy(), torch.arange(len(at.z), device=at.z.device)
    moving = torch.ones_like(live, dtype=torch.bool)
    for _ in range(steps):
        at, moving = step(rows, at, r, moving)
        moving = moving & ~done(at)
        left = int(moving.sum())
        if left <= few:
            break
        if left <= len(live) * 3 // 4:
            found.put(live, at)
            going = torch.nonzero(moving)[:, 0]
            rows, at, live, moving = rows[going], at[going], live[going], moving[going]
    found.put(live, at)
    return found


Maybe = list[Verdict | None]
MEMORY = 2**28  # bytes for a batch where the device does not tell how much it has


def batches(problem: OutputLayer, sets: Labels, device: torch.device) -> Iterator[Labels]:
    """Label sets in batches that fit into half of the device's free memory."""
    n, d = problem.rows.shape
    m = working_size(n, d)
    each = 8 * (8 * n + 4 * (m + d) * (d + 1) + 32 * m)  # margins; working sets and their searches
    size = max(_free(device) // 2 // each, 1)
    for first in range(0, len(sets), size):
        yield sets[first : first + size]


def _free(device: torch.device) -> int:
    """Bytes that can still be had, those included that torch keeps for its own reuse."""
    if device.type != "cuda":
        return MEMORY
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + kept


class DeviceProver:
    """Proves what it can of one model's label sets on a device."""

    def __init__(self, problem: OutputLayer, device: torch.device) -> None:
        self.problem, self.device = problem, device
        self.stored = torch.from_numpy(problem.rows).to(device)
        norms = self.stored.norm(dim=1, keepdim=True)
        self.unit = self.stored / torch.where(norms > 0, norms, 1.0)
        pairs = [(row, side, g) for g, line in enumerate(problem.lines) for row, side in line]
        self.lines = torch.tensor(pairs, device=device).view(-1, 3)
        self.empty = torch.from_numpy(problem.empty).to(device)

    def __call__(self, sets: Labels) -> Maybe:
        """A verdict for each label set; None where none was proven here."""
        signs = signs_on(sets, self.device)
        verdicts = self._homogeneous(signs)
        if self.problem.bias is not None:
            self._with_bias(signs, verdicts)
        return verdicts

    def _homogeneous(self, signs: Tensor) -> Maybe:
        """About [W b] z, or W x without a bias."""
        verdicts: Maybe = [None] * len(signs)
        where = torch.nonzero(self._ordinary(signs))[:, 0]
        n, d = self.unit.shape
        if not len(where) or n < d + 2:
            return verdicts
        rows = SignedRows(self.unit, signs[where], bool((signs == 0).any()))
        found = separate(rows)
        around = found.least == -torch.inf
        for kind, prove in ((~around, self._argmaxable), (around, self._unargmaxable)):
            some = torch.nonzero(kind)[:, 0]
            if len(some):
                proven = prove(rows[some], found[some])
                for i, verdict in zip(where[some].tolist(), proven, strict=True):
                    verdicts[i] = verdict
        return verdicts

    def _ordinary(self, signs: Tensor) -> Tensor:
        """(L,): label sets of which something is known, without zero rows or rows that clash."""
        fine = (signs != 0).any(1)
        if bool(self.empty.any()):
            fine &= ~(signs[:, self.empty] != 0).any(1)
        if len(self.lines):
            row, side, group = self.lines.T
            asked = signs[:, row] * side
            one, other = (
                torch.zeros(len(signs), int(group[-1]) + 1, device=self.device).index_add_(
                    1, group, (asked == sign).float()
                )
                for sign in (1, -1)
            )
            fine &= ~((one > 0) & (other > 0)).any(1)
        return fine

    def _argmaxable(self, rows: SignedRows, result: SearchEnd) -> Maybe:
        """Proven bounds of rho from points and multipliers."""
        n, d = self.unit.shape
        w = result.at.z[:, :-1]
        least = result.least / w.norm(dim=1)
        left_out = rows.signs.gather(1, result.which) == 0  # their multipliers weigh nothing
        lam = result.at.lam.masked_fill(left_out, 0.0)
        weights, place = lam.topk(min(2 * d, n), sorted=False)
        which = result.which.gather(1, place)
        points = torch.bmm(weights[:, None], rows.some(which))[:, 0]
        norms = (points.norm(dim=1) / weights.sum(1)).cpu().numpy()
        lower = _certify.searched_margin(least.cpu().numpy(), d)
        upper = _certify.hull_bound(norms, which.shape[1], d)
        x, corners, shares = (
            _certify.scaled(w.cpu().numpy()),
            which.cpu().numpy(),
            weights.cpu().numpy(),
        )
        none = np.zeros(which.shape[1])
        fine = (lower > 0) & (upper - lower <= AGREE * upper)
        return [
            Verdict("argmaxable", low, high, x[i], hull=(corners[i], shares[i], none))
            if good
            else None
            for i, (low, high, good) in enumerate(
                zip(lower.tolist(), upper.tolist(), fine.tolist(), strict=True)
            )
        ]

    def _unargmaxable(self, rows: SignedRows, result: SearchEnd) -> Maybe:
        """Simplices that provably hold the origin."""
        which, weights = surround(rows, result)
        signed = replace(rows, unit=self.stored).some(which)
        holds = _certify.hold_origin(signed, weights).tolist()
        corners = which.sort(1).values.cpu().numpy()
        return [
            Verdict("unargmaxable", 0.0, 0.0, rows=corners[i]) if good else None
            for i, good in enumerate(holds)
        ]

    # ---- with a bias: the last coordinate of the homogenised witness must be positive -----------

    def _with_bias(self, signs: Tensor, verdicts: Maybe) -> None:
        """From verdicts about [W b] z to those about W x + b, in place."""
        turned = []
        for i, verdict in enumerate(verdicts):
            if verdict is not None and verdict.witness is not None:
                x = divided(verdict)
                if x is None:
                    turned.append(i)
                else:
                    verdicts[i] = replace(verdict, witness=x, centre=verdict.witness)
        if turned:
            opened = DeviceProver(self.problem.opened(), self.device)
            some = signs[turned]
            more = opened._homogeneous(torch.cat([some, torch.ones_like(some[:, :1])], dim=1))
            for i, one, again in zip(turned, some.cpu().numpy(), more, strict=True):
                verdicts[i] = self._turned(one, verdicts[i], again)

    def _turned(
        self, signs: NDArray[np.int8], verdict: Verdict | None, again: Verdict | None
    ) -> Verdict | None:
        """What follows for a label set from the verdict about the homogenised one with z_d > 0."""
        if verdict is None or again is None:
            return None
        x = None if again.witness is None else divided(again)
        if again.witness is not None and x is None:
            return None
        return reopened(self.problem, signs, verdict, again.rows, x)


def divided(verdict: Verdict) -> NDArray[Any] | None:
    """x = z / z_d of a proven z, if z_d > 0.

    Rounding turns (x, 1) by less than 2^-52, so x keeps the signs of z if z's margins exceed that.
    """
    z = verdict.witness
    assert z is not None
    if not (z[-1] > 0 and verdict.lower > 2.0**-50):
        return None
    with np.errstate(over="ignore"):
        x = z[:-1] / z[-1]
    return np.asarray(x) if np.isfinite(x).all() else None


def signs_on(labels: Labels, device: torch.device) -> Tensor:
    """(rows, n) int8 on a device: 1 on, -1 off, 0 unknown."""
    index = labels.indices.to(device)
    row = torch.arange(len(labels), device=device).repeat_interleave(
        labels.indptr.diff().to(device), output_size=len(index)
    )
    signs = torch.full((len(labels), labels.n), -1, dtype=torch.int8, device=device)
    if labels.values is None:
        signs[row, index] = 1
    else:
        values = labels.values.to(device)
        given = torch.where(values > 0, 1, -1).masked_fill_(values.isnan(), 0)
        signs[row, index] = given.to(torch.int8)
    return signs
