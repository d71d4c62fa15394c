"""MultiLabelStratifiedKFold: folds with their share of every label, for any `cv=`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import indexable

from labelset import check
from labelset.data import deal_folds
from labelset.data.dataset import numbered
from labelset.data.duplicates import first_alike, joined
from labelset.sklearn.targets import Array, Targets, seed_of


class MultiLabelStratifiedKFold(BaseCrossValidator):  # type: ignore[misc]
    """K folds, each with its share of every label's positives.

    Rows of the rarest label are dealt first, each to the fold that still wants most of it
    (Sechidis, Tsoumakas and Vlahavas, 2011). A label with fewer positives than folds is spread one
    per fold. Unlike scikit-learn's splitters it takes a y of label sets, dense or sparse, with
    unknown entries (NaN), and it looks at every label rather than at whole label sets. A 1-D y has
    one class per row.

    Parameters
    ----------
    n_splits : how many folds, 2 to 127.
    shuffle : whether rows are dealt in the random order of `random_state`; otherwise the folds are
        always the same.
    random_state : the same number, the same folds.
    duplicates_together : keep rows of X that are equal in one fold, so that no row is tested on a
        model that has learnt it. Rows with the same entry of `groups` stay together in any case.

    >>> import numpy as np
    >>> y = np.array([[1, 0]] * 3 + [[0, 1]] * 3 + [[0, 0]] * 3)
    >>> X = np.arange(9)[:, None]
    >>> for train, test in MultiLabelStratifiedKFold(n_splits=3).split(X, y):
    ...     print(len(train), y[test].sum(0))
    6 [1 1]
    6 [1 1]
    6 [1 1]
    """

    __metadata_request__split = {"groups": True}  # as in scikit-learn's splitters of groups

    def __init__(
        self,
        n_splits: int = 5,
        shuffle: bool = False,
        random_state: Any = None,
        *,
        duplicates_together: bool = False,
    ) -> None:
        check.whole("n_splits", n_splits, low=2)
        if random_state is not None and not shuffle:
            raise ValueError(
                f"random_state={random_state!r} has no effect without shuffle=True; set that, or "
                "leave random_state out"
            )
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state
        self.duplicates_together = duplicates_together

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """How many folds; arguments are ignored."""
        return self.n_splits

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[tuple[Array, Array]]:
        """Row numbers to train on and to test on, fold by fold."""
        X, y, groups = indexable(X, y, groups)
        together = None if groups is None else numbered(groups)
        if self.duplicates_together:
            equal = _equal_rows(X)
            together = equal if together is None else joined(equal, together)
        seed = seed_of(self.random_state) if self.shuffle else 0
        labels = Targets.of(y).labels(y)
        fold = deal_folds(labels, self.n_splits, together, seed).numpy()
        for one in range(self.n_splits):
            yield np.flatnonzero(fold != one), np.flatnonzero(fold == one)


def _equal_rows(X: Any) -> Array:
    """(rows,) the first row that holds the same."""
    if scipy.sparse.issparse(X):
        rows = X.tocsr().copy()
        rows.sum_duplicates()
        rows.eliminate_zeros()
        ends = pairwise(rows.indptr.tolist())
        return first_alike(
            rows.indices[a:b].tobytes() + b"|" + rows.data[a:b].tobytes() for a, b in ends
        )
    array = np.asarray(X)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.nan, array + 0.0)  # one NaN and one zero
    if array.dtype.kind in "biuf":
        return first_alike(row.tobytes() for row in array)
    return first_alike(repr(row).encode("utf-8", "surrogatepass") for row in array.tolist())
