"""Columns whose values lie close together and far from 0, such as times in seconds since 1970."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from labelset.sklearn._targets import Array

__all__ = ["offset_of", "without"]

FAR = 1000.0
"""How many times its reach a column may lie from 0: float32 then still has 4 digits of it."""


def offset_of(X: Any) -> Array | None:
    """(features,) float64: the middle of each column that lies far off, 0 for the others.

    Features are computed with in float32, which has 7 digits. None where no column needs it, as
    with sparse rows. It depends neither on the order of rows nor on how often each is there.

    >>> offset_of(np.array([[1.7e9, 1.0], [1.7e9 + 2, 2.0]]))
    array([1.7e+09, 0.0e+00])
    """
    if scipy.sparse.issparse(X):
        return None
    low, high = (ends.reduce(X, axis=0) for ends in (np.fmin, np.fmax))  # leave out NaN
    middle, reach = low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
    needed = (reach > 0) & (np.abs(middle) > FAR * reach)
    return np.where(needed, middle, 0.0) if needed.any() else None


def without(X: Any, offset: Array | None) -> Any:
    """The rows less the offset of their columns; dense, where there is one."""
    if offset is None:
        return X
    return (X.toarray() if scipy.sparse.issparse(X) else X) - offset
