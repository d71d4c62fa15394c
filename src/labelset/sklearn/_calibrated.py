"""CalibratedLabels: a probability map per label around any classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import decide
from labelset.sklearn._named import built_map
from labelset.sklearn._responses import log_odds, probabilities, smallest_step, values
from labelset.sklearn._targets import Array, Targets
from labelset.sklearn._wrapper import Wrapper

__all__ = ["CalibratedLabels"]


class CalibratedLabels(Wrapper):
    """Multi-label calibration of an estimator with `predict_proba`, or with `decision_function`.

    The estimator is fitted to all rows but one fold, and asked about that; the map is fitted to
    these answers, and the estimator to all rows. Probabilities count by their log-odds, kept half
    a step (the smallest seen) off 0 and 1.

    Parameters
    ----------
    estimator : a classifier of label sets (or of 1-D classes).
    map, map_params : of `labelset.calibrate.names()`, or a map; its settings. These can also be
        set one by one, `set_params(map__per="label")`.
    cv : folds, each with its share of every label; a splitter or pairs of rows; or "prefit", for an
        estimator that was fitted to other rows. A FrozenEstimator is not fitted either.
    random_state : of the folds.

    Attributes
    ----------
    estimator_, calibrator_ : fitted; `calibrator_.quality` says what the map does for new rows.
    classes_ : the labels, or the classes of a 1-D y.

    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_multilabel_classification(random_state=0)
    >>> forest = RandomForestClassifier(n_estimators=10, random_state=0)
    >>> CalibratedLabels(forest, cv=3, random_state=0).fit(X, y).predict_proba(X).shape
    (100, 5)
    """

    _parts = ("map",)

    def __init__(
        self,
        estimator: Any,
        map: Any = "platt",
        *,
        map_params: dict[str, Any] | None = None,
        cv: Any = 5,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.map = map
        self.map_params = map_params
        self.cv = cv
        self.random_state = random_state

    def _start(self, target: Targets) -> None:
        self.calibrator_ = built_map(self.map, self.map_params)
        self._by_probability = hasattr(self.estimator, "predict_proba")
        if not self._by_probability and not hasattr(self.estimator, "decision_function"):
            raise TypeError(
                f"{type(self.estimator).__name__} has neither predict_proba nor decision_function, "
                "so that there is nothing to calibrate; for one estimator per label take "
                "sklearn.multiclass.OneVsRestClassifier, which passes them on"
            )

    def _ask(self, estimator: Any, X: Any) -> Array:
        ask = probabilities if self._by_probability else values
        return ask(estimator, X, self._targets)

    def _learn(self, answers: Array, y: Tensor, seed: int) -> None:
        self._step = smallest_step(answers) if self._by_probability else None
        if self._targets.kind == "binary" and len(set(y[~y.isnan()].tolist())) < 2:
            raise ValueError(
                "rows of one class only are left to calibrate on, being of weight above 0 and in "
                "a test fold; give rows of both classes"
            )
        self.calibrator_.fit(self._scores(answers), y, seed=seed)

    def _scores(self, answers: Array) -> Tensor:
        known = np.nan_to_num(answers)
        return torch.from_numpy(known if self._step is None else log_odds(known, self._step))

    def predict_proba(self, X: Any) -> Array:
        """(rows, labels) calibrated probabilities; of a 1-D y (rows, classes), summing to 1."""
        answers = self._answers(X)
        return self._targets.shares(self.calibrator_(self._scores(answers)).numpy())

    def predict(self, X: Any) -> Any:
        """Labels of probability 0.5 and above, in the form of y; of a 1-D y the likeliest class."""
        p = self.predict_proba(X)
        if self._targets.one_class:
            return self._targets.classes[p.argmax(1)]
        return self._targets.sets(decide.build("fixed")(p))

    def transform(self, X: Any) -> Array:
        """The probabilities, as features for what comes next."""
        return self.predict_proba(X)
