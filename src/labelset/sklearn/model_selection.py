"""What cross-validation takes: scorers, and folds with their share of every label; what a fitted
classifier says of rows, in one form."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import indexable
from sklearn.utils.metadata_routing import UNUSED, _MetadataRequester

from labelset import check, metrics
from labelset.data import deal_folds
from labelset.data.dataset import numbered
from labelset.data.duplicates import first_alike, joined
from labelset.sklearn.targets import Array, Targets, seed_of


def probabilities(estimator: Any, X: Any, target: Targets) -> Array:
    """(rows, n) probabilities that a label is on, from any of the shapes of `predict_proba`.

    An array (rows, labels), as of OneVsRestClassifier; a list of one (rows, 2) array per label, as
    of RandomForestClassifier or MultiOutputClassifier; or (rows, classes) where y is 1-D. NaN for
    a class that the estimator has never seen.
    """
    given = estimator.predict_proba(X)
    if target.one_class:
        return _by_class(np.asarray(given, dtype=np.float64), estimator.classes_, target)
    if isinstance(given, list):
        seen = getattr(estimator, "classes_", [[0, 1]] * len(given))
        columns = [_of_one(np.asarray(p), c) for p, c in zip(given, seen, strict=True)]
        return np.stack(columns, axis=1)
    return _as_wide(np.asarray(given, dtype=np.float64), target, "predict_proba")


def values(estimator: Any, X: Any, target: Targets) -> Array:
    """(rows, n) scores, larger for more likely, from any of the shapes of `decision_function`."""
    given = np.asarray(estimator.decision_function(X), dtype=np.float64)
    if target.kind == "binary":
        return given.reshape(len(given), -1)
    if target.one_class and given.ndim == 1:
        given = np.stack([-given, given], axis=1)  # a fold that has seen two of the classes
    if target.one_class:
        return _by_class(given, estimator.classes_, target)
    return _as_wide(given, target, "decision_function")


def log_odds(p: Array, step: float) -> Array:
    """log(p / (1 - p)), p being kept `step` away from 0 and 1, where it would be infinite."""
    p = np.clip(p, step, 1 - step)
    odds: Array = np.log(p) - np.log1p(-p)
    return odds


def smallest_step(p: Array) -> float:
    """Half of the smallest distance from 0 or 1 that is not 0: a forest of 10 trees counts tenths.

    >>> smallest_step(np.array([0.0, 0.1, 0.5, 1.0]))
    0.05
    """
    far = np.minimum(p, 1 - p)
    far = far[far > 0]  # leaves out NaN as well
    return max(float(far.min()) / 2, 1e-12) if far.size else 0.25


def _of_one(p: Array, seen: Any) -> Array:
    """The column of 1 in (rows, values seen); a label that was never on has none."""
    at = np.flatnonzero(np.asarray(seen) == 1)
    return p[:, at[0]].astype(np.float64) if at.size else np.zeros(len(p))


def _by_class(given: Array, seen: Any, target: Targets) -> Array:
    due = target.classes[1:] if target.kind == "binary" else target.classes
    columns = {c: at for at, c in enumerate(np.asarray(seen).tolist())}
    out = np.full((len(given), len(due)), np.nan)
    for at, c in enumerate(due.tolist()):
        if c in columns:
            out[:, at] = given[:, columns[c]]
    return out


def _as_wide(given: Array, target: Targets, method: str) -> Array:
    if given.ndim != 2 or given.shape[1] != target.n:
        raise ValueError(
            f"{method} must give (rows, {target.n}), a column per label, or a list of as many "
            f"arrays, got shape {given.shape}; wrap the estimator in "
            "sklearn.multiclass.OneVsRestClassifier or sklearn.multioutput.MultiOutputClassifier"
        )
    return given


def scorer(name: str, **settings: Any) -> MetricScorer:
    """For `scoring=`: a metric of `labelset.metrics.names()`, of any classifier of label sets.

    What is better the smaller it is counts negative. Unknown labels (NaN in y) are left out. With
    scikit-learn's metadata routing `.set_score_request(sample_weight=True)` weighs the rows.

    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = make_multilabel_classification(random_state=0)
    >>> cross_val_score(KNeighborsClassifier(), X, y, scoring=scorer("map@class"), cv=3).shape
    (3,)
    """
    metrics.build(name, **settings)  # so that a wrong name is known before any fit
    return MetricScorer(name, settings)


class MetricScorer(_MetadataRequester):  # type: ignore[misc]
    """What `scorer` makes: called with a fitted estimator, X and y, and perhaps weights of rows.

    >>> scorer("f1-macro", beta=2.0)
    scorer('f1-macro', beta=2.0)
    """

    __metadata_request__score = {"estimator": UNUSED}

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self.name, self.settings = name, settings

    def __repr__(self) -> str:
        given = "".join(f", {key}={value!r}" for key, value in self.settings.items())
        return f"scorer({self.name!r}{given})"

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        return self.score(estimator, X, y, sample_weight)

    def score(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The value. scikit-learn finds out here that `sample_weight` can be routed to it."""
        metric = metrics.build(self.name, **self.settings)
        target = self._target(estimator, y)
        given = self._predictions(metric.takes, estimator, X, target)
        value = metric(given, target.labels(y), sample_weight)
        return float(value if metric.higher_is_better else -value)

    def _target(self, estimator: Any, y: Any) -> Targets:
        classes = getattr(estimator, "classes_", None)
        one_class = np.ndim(y) == 1
        return Targets.of(y, classes if one_class else None)

    def _predictions(self, takes: str, estimator: Any, X: Any, target: Targets) -> Any:
        if takes == "label sets":
            return target.labels(estimator.predict(X))
        if takes == "scores" and hasattr(estimator, "decision_function"):
            return values(estimator, X, target)
        return probabilities(estimator, X, target)


# ---- folds ---------------------------------------------------------------------------------------


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
