"""Proofs in floating point: every rounding error is bounded, so what is proven here holds.

u is the unit roundoff 2^-53. A dot product of length d, summed in any order, with or without
fused operations, is off by at most gamma(d) |a|.|b|, gamma(d) = d u / (1 - d u) (Higham, 2002,
section 3.1). Norms are bounded the same way.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["gamma", "holds_origin", "hull_norm", "least_margin", "searched_margin"]

Floats = NDArray[np.float64]
UNIT = 2.0**-53


def gamma(d: int) -> float:
    """The relative error of a sum of d products."""
    return d * UNIT / (1 - d * UNIT)


def least_margin(weights: Floats, signs: NDArray[np.int8], x: Floats) -> Floats:
    """A proven lower bound of min_i sign_i w_i.x / (|w_i| |x|), for each of (L, d) points."""
    d = weights.shape[1]
    norms = np.linalg.norm(weights, axis=1) * (1 + gamma(d + 2))
    length = np.linalg.norm(x, axis=1) * (1 + gamma(d + 2))
    dots = (torch.from_numpy(x) @ torch.from_numpy(weights).T).mul_(
        torch.from_numpy(signs).double()
    )
    cosine = dots.div_(torch.from_numpy(np.where(norms > 0, norms, 1.0)))
    if (signs == 0).any():
        cosine.masked_fill_(torch.from_numpy(signs == 0), torch.inf)
    smallest = cosine.min(1).values.numpy() / np.where(length > 0, length, 1.0)
    least: Floats = np.minimum(smallest, 1.0)  # where no row counts, it is infinite
    # dividing twice rounds thrice more; the dot product is off by gamma(d) |w| |x|
    bound = least - gamma(4) * np.abs(least) - gamma(d + 4)
    return np.nan_to_num(bound, nan=-np.inf)


def searched_margin(least: Floats, d: int) -> Floats:
    """A proven lower bound from min_i sign_i a_i.x / |x| as a search computes it.

    Its unit rows a_i are off by gamma(d + 3) each, the dot products by gamma(d), |x| by a factor
    1 + gamma(d + 2); as much again is taken off, so that `least_margin` cannot find less later.
    """
    return least - gamma(d + 8) * np.abs(least) - 2 * gamma(2 * d + 12)


def hull_norm(rows: Floats, weights: Floats) -> float:
    """A proven upper bound of the norm of a point in the hull of the unit rows."""
    m, d = rows.shape
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    share = np.abs(weights) / np.abs(weights).sum()
    # unit rows are off by gamma(d + 3), shares and their sum by 2 gamma(m), the product by gamma(m)
    return float(np.linalg.norm(share @ unit) * (1 + gamma(d + 2)) + gamma(3 * m + d + 8))


def holds_origin(rows: Floats, weights: Floats) -> bool:
    """Whether d + 1 rows provably have positive weights with sum of weights * rows = 0.

    The row of largest weight is fixed at 1 and the others follow from a square system B v = -b.
    With an approximate inverse R and beta = |I - R B| < 1 the true v lies within |R r| / (1 - beta)
    of the computed one, r being its residual (Rump, 1999). All of it is bounded upwards.
    """
    m, d = rows.shape
    if m != d + 1:
        return False
    pivot = int(np.argmax(weights))
    others = np.delete(np.arange(m), pivot)
    square, last = rows[others].T, rows[pivot]
    try:
        inverse = np.linalg.inv(square)
    except np.linalg.LinAlgError:
        return False
    value = -inverse @ last
    off = np.abs(np.eye(d) - inverse @ square).sum(1)
    off += gamma(d + 2) * (np.abs(inverse) @ np.abs(square).sum(1))
    beta = float(off.max()) * (1 + gamma(4 * d))
    residual = np.abs(square @ value + last) + gamma(d + 2) * (
        np.abs(square) @ np.abs(value) + np.abs(last)
    )
    error = float((np.abs(inverse) @ residual).max()) * (1 + gamma(2 * d))
    if not (np.isfinite(error) and beta < 0.5):
        return False
    return bool(value.min() > 2 * error / (1 - beta))
