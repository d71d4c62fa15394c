"""What an estimator says of rows that it has not learnt from: by folds, and then fitted to all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params, _num_samples, check_is_fitted

from labelset import check
from labelset.data import stratified_split
from labelset.labels import Labels
from labelset.sklearn._targets import Array

__all__ = ["cross_fitted"]

Ask = Callable[[Any, Any], Array]
"""A fitted estimator and rows to (rows, labels) numbers."""


def cross_fitted(
    estimator: Any,
    X: Any,
    y: Any,
    labels: Labels,
    ask: Ask,
    cv: Any,
    seed: int,
    params: Mapping[str, Any],
    split: Mapping[str, Any],
) -> tuple[Any, Array]:
    """The estimator fitted to all rows, and (rows, labels) answers of others fitted without them.

    `cv="prefit"` asks the estimator as it is. A row that no fold tests has NaN.
    """
    if isinstance(cv, str):
        check.one_of("cv", cv, ("prefit",))
        check_is_fitted(estimator)
        return estimator, ask(estimator, X)
    out = np.full(labels.shape, np.nan)
    for train, test in _folds(X, y, labels, cv, seed, split):
        own = _check_method_params(X, dict(params), indices=train)
        part = clone(estimator).fit(_safe_indexing(X, train), _safe_indexing(y, train), **own)
        out[test] = ask(part, _safe_indexing(X, test))
    whole = clone(estimator).fit(X, y, **_check_method_params(X, dict(params)))
    return whole, out


def _folds(
    X: Any, y: Any, labels: Labels, cv: Any, seed: int, split: Mapping[str, Any]
) -> Iterator[tuple[Array, Array]]:
    """A number of folds is dealt so that each has its share of every label, the rare ones first."""
    if not isinstance(cv, (int, np.integer)):
        yield from check_cv(cv, y, classifier=True).split(X, y, **split)
        return
    folds, rows = check.whole("cv", int(cv), low=2), _num_samples(X)
    if folds > rows:
        raise ValueError(f"cv={folds} folds need as many rows, got n_samples={rows}")
    part = stratified_split(labels, [1 / folds] * folds, seed).numpy()
    for fold in range(folds):
        yield np.flatnonzero(part != fold), np.flatnonzero(part == fold)
