"""The point of least norm in a convex hull (Wolfe, 1976) in numpy, where nothing was compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["least_norm", "solve"]

Floats = NDArray[np.float64]
TINY = 64 * np.finfo(np.float64).eps


def least_norm(
    rows: Floats, corral: list[int], weight: Floats, tol: float, zero: float, limit: int
) -> tuple[list[int], Floats]:
    """Indices and weights of rows whose combination has least norm; `corral` is where to begin."""
    if not corral:
        corral, weight = [0], np.ones(1)
    for _ in range(limit):
        corral, weight = _settle(rows, corral, weight)
        x = weight @ rows[corral]
        square = float(x @ x)
        if square <= zero or len(corral) > rows.shape[1]:
            break
        margins = rows @ x
        margins[corral] = np.inf
        new = int(margins.argmin())
        if margins[new] >= square * (1 - tol) or _dependent(rows, corral, new):
            break
        corral, weight = [*corral, new], np.append(weight, 0.0)
    return corral, weight


def _settle(rows: Floats, corral: list[int], weight: Floats) -> tuple[list[int], Floats]:
    """Move to the least norm of the affine hull, letting go of rows that would turn negative."""
    while True:
        gram = rows[corral] @ rows[corral].T + 1.0
        target = np.linalg.lstsq(gram, np.ones(len(corral)), rcond=None)[0]
        target = target / target.sum()
        out = target <= TINY
        if not out.any() or len(corral) == 1:
            return corral, target
        span = weight[out] - target[out]
        shares = np.where(span > 0, weight[out] / np.where(span > 0, span, 1.0), 0.0)
        weight = weight + shares.min() * (target - weight)
        gone = int(np.flatnonzero(out)[shares.argmin()])
        corral = corral[:gone] + corral[gone + 1 :]
        weight = np.delete(weight, gone)


def _dependent(rows: Floats, corral: list[int], new: int) -> bool:
    lifted = np.concatenate([rows[[*corral, new]], np.ones((len(corral) + 1, 1))], axis=1)
    return bool(np.linalg.svd(lifted, compute_uv=False)[-1] ** 2 <= TINY)


def solve(
    rows_all: Floats,
    d: int,
    live: NDArray[np.int64],
    rows: NDArray[np.int32],
    sides: NDArray[np.int8],
    counts: NDArray[np.int64],
    cap: int,
    most: int,
    corral: NDArray[np.int64],
    lam: Floats,
    lam_rest: Floats,
    held: NDArray[np.int64],
    factor: Floats,
    x: Floats,
    rest: Floats,
    tol: float,
    zero: float,
    limit: int,
    precise: int,
    first: int,
    last: int,
) -> None:
    """What `_minnorm.solve` does, in double precision only: results are written in place."""
    for i in live[first:last].tolist():
        signed = rows_all[rows[i, : counts[i]], :d] * sides[i, : counts[i], None]
        begin = corral[i, : held[i]].tolist()
        found, weight = least_norm(signed, begin, lam[i, : held[i]], tol, zero, limit)
        held[i] = len(found)
        corral[i, : held[i]], lam[i, : held[i]] = found, weight
        x[i, :d] = weight @ signed[found]
