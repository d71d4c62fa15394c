"""labelset's metrics for GridSearchCV and cross_val_score."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labelset import metrics
from labelset.sklearn._responses import probabilities, values
from labelset.sklearn._targets import Targets

__all__ = ["Scorer", "scorer"]


def scorer(name: str, **settings: Any) -> Scorer:
    """For `scoring=`: a metric of `labelset.metrics.names()`, of any classifier of label sets.

    What is better the smaller it is counts negative. Unknown labels (NaN in y) are left out.

    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = make_multilabel_classification(random_state=0)
    >>> cross_val_score(KNeighborsClassifier(), X, y, scoring=scorer("map@class"), cv=3).shape
    (3,)
    """
    metrics.build(name, **settings)  # so that a wrong name is known before any fit
    return Scorer(name, settings)


@dataclass(frozen=True)
class Scorer:
    """What `scorer` makes: called with a fitted estimator, X and y."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        metric = metrics.build(self.name, **self.settings)
        target = self._target(estimator, y)
        found = metric(self._given(metric.takes, estimator, X, target), target.labels(y))
        return float(found if metric.higher_is_better else -found)

    def _target(self, estimator: Any, y: Any) -> Targets:
        classes = getattr(estimator, "classes_", None)
        one_class = np.ndim(y) == 1
        return Targets.of(y, classes if one_class else None)

    def _given(self, takes: str, estimator: Any, X: Any, target: Targets) -> Any:
        if takes == "label sets":
            return target.labels(estimator.predict(X))
        if takes == "scores" and hasattr(estimator, "decision_function"):
            return values(estimator, X, target)
        return probabilities(estimator, X, target)
