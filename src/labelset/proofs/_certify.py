"""Proofs in floating point: every rounding error is bounded, so what is proven here holds.

u is the unit roundoff 2^-53. A dot product of length d, summed in any order, with or without
fused operations, is off by at most gamma(d) |a|.|b|, gamma(d) = d u / (1 - d u) (Higham, 2002,
section 3.1). Norms are bounded the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
UNIT = 2.0**-53


def gamma(d: int) -> float:
    """The relative error of a sum of d products."""
    return d * UNIT / (1 - d * UNIT)


def scaled(x: Floats) -> Floats:
    """Vectors times powers of two, so that their sizes are about 1: no bit changes."""
    _, exponent = np.frexp(np.abs(x).max(-1, keepdims=True))
    scaled: Floats = np.ldexp(x, -exponent)
    return scaled


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


def single_error(d: int) -> float:
    """How far a dot product of unit vectors, computed in float32 from float64, can be off.

    Both are rounded once, which adds 2 to the length of the sum; numbers too small for float32 lose
    2^-120 each at most.
    """
    unit = 2.0**-24
    return (d + 4) * unit / (1 - (d + 4) * unit) + d * 2.0**-120


def hull_norms(
    unit: Floats, signs: NDArray[np.int8], rows: Sequence[Ints], weights: Sequence[Floats]
) -> Floats:
    """Proven upper bounds of the norms of points in the hulls of signed unit rows."""
    most, d = max(map(len, rows)), unit.shape[1]
    points, sums = np.empty((len(rows), d)), np.empty(len(rows))
    for i, (some, weight) in enumerate(zip(rows, weights, strict=True)):
        share = np.abs(weight)
        points[i], sums[i] = (share * signs[i, some]) @ unit[some], share.sum()
    return hull_bound(np.linalg.norm(points, axis=1) / sums, most, d)


def hull_bound(norms: Floats, most: int, d: int) -> Floats:
    """Proven upper bounds of norms as computed from up to `most` weighted unit rows over their sum.

    Unit rows are off by gamma(d + 3), the product by gamma(most), the sum by gamma(most).
    """
    return norms * (1 + gamma(d + 2)) + gamma(3 * most + d + 8)


def hold_origin(rows: Tensor, weights: Tensor) -> Tensor:
    """Whether (L, d + 1, d) rows provably have positive weights with sum of weights * rows = 0.

    The row of largest weight is fixed at 1 and the others follow from a square system B v = -b.
    With an approximate inverse R and beta = |I - R B| < 1 the true v lies within |R r| / (1 - beta)
    of the computed one, r being its residual (Rump, 1999). All of it is bounded upwards.
    """
    count, m, d = rows.shape
    pivot = weights.argmax(1, keepdim=True)
    last = rows.gather(1, pivot[..., None].expand(-1, -1, d)).mT
    others = torch.arange(m, device=rows.device) != pivot
    square = rows[others].view(count, d, d).mT
    inverse = _inverse(square)
    size, span = inverse.abs(), square.abs()
    value = -inverse @ last
    off = (torch.eye(d, dtype=rows.dtype, device=rows.device) - inverse @ square).abs().sum(2)
    off += gamma(d + 2) * (size @ span.sum(2, keepdim=True))[..., 0]
    beta = off.amax(1) * (1 + gamma(4 * d))
    residual = (square @ value + last).abs() + gamma(d + 2) * (span @ value.abs() + last.abs())
    error = (size @ residual).amax((1, 2)) * (1 + gamma(2 * d))
    good = error.isfinite() & (beta < 0.5)
    bound = 2 * error / (1 - torch.where(good, beta, 0.0))
    holds: Tensor = good & (value.amin((1, 2)) > bound)
    return holds


def _inverse(square: Tensor) -> Tensor:
    """Approximate inverses; of a singular matrix anything, which beta will tell."""
    if square.device.type != "cpu":
        inverse: Tensor = torch.linalg.inv_ex(square).inverse
        return inverse
    # numpy's, since batched LU on several threads fails in some builds of torch for the processor
    try:
        return torch.from_numpy(np.linalg.inv(square.numpy()))
    except np.linalg.LinAlgError:
        return torch.from_numpy(np.linalg.pinv(square.numpy()))


MOST = 3000  # rows whose Gram matrix is inverted
BLOCK = 8192  # columns in float64 together


def independent(weights: NDArray[np.floating]) -> bool:
    """Whether the rows are provably linearly independent; False says nothing.

    With G the Gram matrix of the unit rows and R an approximate inverse, |I - R G| < 1 proves that
    G is regular. G is off by at most gamma(2 d + 8) in every entry, all norms being maximal row
    sums.

    >>> independent(np.eye(3)[:2]), independent(np.ones((2, 3)))
    (True, False)
    """
    n, d = weights.shape
    if n > d or n > MOST:
        return False
    blocks = [slice(at, at + BLOCK) for at in range(0, d, BLOCK)]  # never all of it in float64
    norms = np.sqrt(sum(np.square(weights[:, b], dtype=np.float64).sum(1) for b in blocks))
    if not (norms > 0).all() or not np.isfinite(norms).all():
        return False
    gram = np.zeros((n, n))
    for b in blocks:
        unit = weights[:, b] / norms[:, None]
        gram += unit @ unit.T
    try:
        inverse = np.linalg.inv(gram)
    except np.linalg.LinAlgError:
        return False
    size = np.abs(inverse).sum(1)
    off = np.abs(np.eye(n) - inverse @ gram).sum(1)
    off += size * n * gamma(2 * d + 8)  # of the Gram matrix
    off += gamma(n + 2) * (np.abs(inverse) @ np.abs(gram).sum(1))  # of the product
    return bool(np.isfinite(off).all() and off.max() * (1 + gamma(4 * n)) < 0.5)
