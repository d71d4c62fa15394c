"""Verdicts of many label sets on a device that computes in float64 (CUDA), all together.

Searches, bounds and certificates are computed there, by the bounds of `_certify`. Whatever is not
proven there, and the label sets that need no search, are left to `_prove` on the processor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelset.labels import Labels
from labelset.proofs import _certify, _device_search
from labelset.proofs._device_rows import SignedRows
from labelset.proofs._device_search import Found
from labelset.proofs._problem import Problem
from labelset.proofs._prove import AGREE, Verdict, reopened

__all__ = ["DeviceProver", "parts"]

Maybe = list[Verdict | None]
MEMORY = 2**28  # bytes for a batch where the device does not tell how much it has


def parts(problem: Problem, sets: Labels, device: torch.device) -> Iterator[Labels]:
    """Label sets in batches that fit into half of the device's free memory."""
    n, d = problem.rows.shape
    m = _device_search.size(n, d)
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

    def __init__(self, problem: Problem, device: torch.device) -> None:
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
        found = _device_search.separate(rows)
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

    def _argmaxable(self, rows: SignedRows, found: Found) -> Maybe:
        """Proven bounds of rho from points and multipliers."""
        n, d = self.unit.shape
        w = found.at.z[:, :-1]
        least = found.least / w.norm(dim=1)
        left_out = rows.signs.gather(1, found.which) == 0  # their multipliers weigh nothing
        lam = found.at.lam.masked_fill(left_out, 0.0)
        weights, place = lam.topk(min(2 * d, n), sorted=False)
        which = found.which.gather(1, place)
        points = torch.bmm(weights[:, None], rows.some(which))[:, 0]
        norms = (points.norm(dim=1) / weights.sum(1)).cpu().numpy()
        lower = _certify.searched_margin(least.cpu().numpy(), d)
        upper = _certify.hull_bound(norms, which.shape[1], d)
        x, held, shares = (
            _certify.scaled(w.cpu().numpy()),
            which.cpu().numpy(),
            weights.cpu().numpy(),
        )
        none = np.zeros(which.shape[1])
        fine = (lower > 0) & (upper - lower <= AGREE * upper)
        return [
            Verdict("argmaxable", low, high, x[i], hull=(held[i], shares[i], none))
            if good
            else None
            for i, (low, high, good) in enumerate(
                zip(lower.tolist(), upper.tolist(), fine.tolist(), strict=True)
            )
        ]

    def _unargmaxable(self, rows: SignedRows, found: Found) -> Maybe:
        """Simplices that provably hold the origin."""
        which, weights = _device_search.surround(rows, found)
        signed = replace(rows, unit=self.stored).some(which)
        holds = _certify.hold_origin(signed, weights).tolist()
        held = which.sort(1).values.cpu().numpy()
        return [
            Verdict("unargmaxable", 0.0, 0.0, rows=held[i]) if good else None
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
