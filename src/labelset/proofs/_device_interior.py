"""An interior point method for many label sets at once, all steps of it products on the device.

    minimise r |w|^2 / 2 - t   subject to   s = A w - t + c >= 0

With r = 1, c = 0 this is the point of least norm in the hull of the rows: its multipliers lam are
the weights of that point, w = A' lam, and the minimum is at t = |w|^2. With r = 0 it is a linear
programme whose multipliers are a vertex of {lam >= 0 : A' lam = 0, sum of lam = 1}.

Steps are those of Mehrotra (1992), with one correction after Gondzio (1996) where a factor is dear.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelset.proofs._device_rows import SignedRows

__all__ = ["Interior", "begin", "step"]

STEP = 0.99  # of the way to the boundary


@dataclass(frozen=True)
class Interior:
    """Where each search stands: points and multipliers, both strictly inside."""

    w: Tensor
    """(L, d)"""
    t: Tensor
    """(L, 1)"""
    s: Tensor
    """(L, n), 1 for rows that are left out"""
    lam: Tensor
    """(L, n), 0 for rows that are left out"""

    def __getitem__(self, which: Tensor) -> Interior:
        return Interior(self.w[which], self.t[which], self.s[which], self.lam[which])

    def copy(self) -> Interior:
        """One that `put` may write to."""
        return Interior(self.w.clone(), self.t.clone(), self.s.clone(), self.lam.clone())

    def put(self, which: Tensor, some: Interior) -> None:
        """Write where some of the label sets stand, in place."""
        self.w[which], self.t[which] = some.w, some.t
        self.s[which], self.lam[which] = some.s, some.lam

    @property
    def gap(self) -> Tensor:
        """(L,): how far points and multipliers are from optimal."""
        return (self.s * self.lam).sum(1)

    def moved(self, way: Interior, far: Tensor) -> Interior:
        """Along a direction, by (L, 1) lengths."""
        w, t, s, lam = self.w, self.t, self.s, self.lam
        return Interior(
            torch.addcmul(w, far, way.w),
            torch.addcmul(t, far, way.t),
            torch.addcmul(s, far, way.s),
            torch.addcmul(lam, far, way.lam),
        )


def begin(rows: SignedRows) -> Interior:
    """Half of the weight on the labels that are on, half on those that are off."""
    on, off = (rows.signs == 1).double(), (rows.signs == -1).double()
    lam = on / on.sum(1, keepdim=True).clamp_min(1) + off / off.sum(1, keepdim=True).clamp_min(1)
    lam /= lam.sum(1, keepdim=True)
    w = rows.combine(lam)
    margins = rows.margins(w)
    least = rows.known(margins.clone(), torch.inf).amin(1, keepdim=True)
    spread = (lam * margins).sum(1, keepdim=True) - least
    t = least - 0.5 * spread.clamp_min(1e-3)
    return Interior(w, t, rows.known(margins - t, 1.0), lam)


def step(
    rows: SignedRows, at: Interior, r: float, most: int | None, moving: Tensor
) -> tuple[Interior, Tensor]:
    """One step for the label sets that are moving, and which of them could take it."""
    count = (rows.signs != 0).sum(1, keepdim=True)
    newton = _Newton(rows, at, r, most)
    way = newton.towards(None)
    mean = at.gap[:, None] / count
    ahead = at.moved(way, newton.room(way).clamp_max(1.0)).gap[:, None] / count
    goal = mean * (ahead / mean) ** 3
    aim = goal - way.s * way.lam
    way = newton.towards(aim)
    room = newton.room(way)
    if rows.dear:
        way, room = newton.centred(way, room, aim, goal)
    far = (STEP * room).clamp_max(1.0)
    whole = torch.isfinite(far) & torch.isfinite(way.t) & (newton.failed[:, None] == 0)
    good = whole & moving[:, None]
    stay = Interior(*(torch.where(good, x, 0.0) for x in (way.w, way.t, way.s, way.lam)))
    return at.moved(stay, torch.where(good, far, 0.0)), good[:, 0]


class _Newton:
    """Newton directions from one point: a factor of r I + [A -1]' D [A -1], D = lam / s."""

    def __init__(self, rows: SignedRows, at: Interior, r: float, most: int | None) -> None:
        self.rows, self.at, self.r = rows, at, r
        self.scale = at.lam / at.s
        heavy, grams = self._heavy(most)
        count, d = at.w.shape
        i, j = torch.tril_indices(d, d, device=at.w.device)
        matrix = at.w.new_zeros(count, d + 1, d + 1)
        matrix.view(count, (d + 1) ** 2).index_copy_(1, i * (d + 1) + j, grams)
        matrix.diagonal(dim1=1, dim2=2)[:, :d] += r
        matrix[:, d, :d] = -rows.combine(heavy)
        matrix[:, d, d] = heavy.sum(1)
        self.factor, self.failed = torch.linalg.cholesky_ex(matrix)

    def _heavy(self, most: int | None) -> tuple[Tensor, Tensor]:
        """D and A'DA, of the `most` rows of largest D where not of all."""
        if most is None or most >= self.scale.shape[1]:
            return self.scale, self.rows.grams(self.scale)
        largest, which = self.scale.topk(most, sorted=False)
        heavy = torch.zeros_like(self.scale).scatter_(1, which, largest)
        return heavy, self.rows.grams_of(which, largest)

    def towards(self, aim: Tensor | None) -> Interior:
        """The direction in which the products s * lam become `aim`, or 0, to first order."""
        rows, at = self.rows, self.at
        right = torch.cat([-self.r * at.w, torch.ones_like(at.t)], dim=1)
        share = None if aim is None else rows.known(aim / at.s, 0.0)
        if share is not None:
            right += torch.cat([rows.combine(share), -share.sum(1, keepdim=True)], dim=1)
        z = torch.cholesky_solve(right[..., None], self.factor)[..., 0]
        s = rows.known(rows.margins(z[:, :-1]).sub_(z[:, -1:]), 0.0)
        lam = torch.addcmul(at.lam, self.scale, s).neg_()
        return Interior(z[:, :-1], z[:, -1:], s, lam if share is None else lam.add_(share))

    def room(self, way: Interior) -> Tensor:
        """(L, 1): how far it is to the boundary."""
        points = (way.s / self.at.s).amin(1, keepdim=True)
        lam = self.rows.known(way.lam / self.at.lam, 0.0).amin(1, keepdim=True)
        return 1 / (-torch.minimum(points, lam)).clamp_min(1e-9)

    def centred(
        self, way: Interior, room: Tensor, aim: Tensor, goal: Tensor
    ) -> tuple[Interior, Tensor]:
        """A direction corrected where products would stray far from `goal`, if it leads farther."""
        tried = self.at.moved(way, (1.5 * room.clamp_max(1.0) + 0.1).clamp_max(1.0))
        product = tried.s * tried.lam
        change = torch.maximum(product.clamp(0.1 * goal, 10 * goal) - product, -10 * goal)
        other = self.towards(aim + change)
        farther = self.room(other)
        better = farther.clamp_max(1.0) >= 1.01 * room.clamp_max(1.0)
        pairs = zip(
            (other.w, other.t, other.s, other.lam), (way.w, way.t, way.s, way.lam), strict=True
        )
        chosen = Interior(*(torch.where(better, new, old) for new, old in pairs))
        return chosen, torch.where(better, farther, room)
