"""An interior point method for many label sets at once, all steps of it products on the device.

    minimise r |w|^2 / 2 - t   subject to   s = G (w, t) + c >= 0,   G = [A -1]

With r = 1, c = 0 this is the point of least norm in the hull of the rows: its multipliers lam are
the weights of that point, w = A' lam, and the minimum is at t = |w|^2. With r = 0 it is a linear
programme whose multipliers are a vertex of {lam >= 0 : A' lam = 0, sum of lam = 1}. A row that is
left out is 0 in G and has a constant s, so it steers nothing.

Steps are those of Mehrotra (1992).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

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
