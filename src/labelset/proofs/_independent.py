"""Rows that are linearly independent: then every label set can be said, whatever the others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labelset.proofs._certify import gamma

__all__ = ["independent"]

MOST = 3000  # rows whose Gram matrix is inverted


def independent(weights: NDArray[np.float64]) -> bool:
    """Whether the rows are provably linearly independent; False says nothing.

    With G the Gram matrix of the unit rows and R an approximate inverse, |I - R G| < 1 proves that
    G is regular. G is off by at most gamma(2 d + 8) in every entry, all norms being maximal row
    sums.

    >>> independent(np.eye(3)[:2]), independent(np.ones((2, 3)))
    (True, False)
    """
    n, d = weights.shape
    norms = np.linalg.norm(weights, axis=1, keepdims=True)
    if n > d or n > MOST or not (norms > 0).all() or not np.isfinite(norms).all():
        return False
    unit = weights / norms
    gram = unit @ unit.T
    try:
        inverse = np.linalg.inv(gram)
    except np.linalg.LinAlgError:
        return False
    size = np.abs(inverse).sum(1)
    off = np.abs(np.eye(n) - inverse @ gram).sum(1)
    off += size * n * gamma(2 * d + 8)  # of the Gram matrix
    off += gamma(n + 2) * (np.abs(inverse) @ np.abs(gram).sum(1))  # of the product
    return bool(np.isfinite(off).all() and off.max() * (1 + gamma(4 * n)) < 0.5)
