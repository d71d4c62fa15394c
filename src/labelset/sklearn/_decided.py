"""DecidedLabels: tuned decisions around any classifier with probabilities."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labelset.labels import Labels
from labelset.sklearn._named import built_rule
from labelset.sklearn._responses import probabilities
from labelset.sklearn._targets import Array, Targets
from labelset.sklearn._wrapper import Wrapper

__all__ = ["DecidedLabels"]


class DecidedLabels(Wrapper):
    """Thresholds per label, or any other rule, for an estimator with `predict_proba`.

    The estimator is fitted to all rows but one fold, and asked about that; the rule is fitted to
    these answers, and the estimator to all rows.

    Parameters
    ----------
    estimator : a classifier of label sets, or of two classes; of which the second is then the
        label.
    rule, rule_params : of `labelset.decide.names()`, or a rule; its settings. These can also be set
        one by one, `set_params(rule__metric="f1-micro")`.
    cv : folds, each with its share of every label; a splitter or pairs of rows; or "prefit", for an
        estimator that was fitted to other rows. A FrozenEstimator is not fitted either.
    random_state : of the folds.

    Attributes
    ----------
    estimator_, rule_ : fitted; `rule_.thresholds` where it has such.
    classes_ : the labels, or the classes of a 1-D y.

    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> X, y = make_multilabel_classification(random_state=0)
    >>> model = DecidedLabels(OneVsRestClassifier(LogisticRegression()), random_state=0).fit(X, y)
    >>> model.rule_.thresholds.shape, model.predict(X).shape
    (torch.Size([5]), (100, 5))
    """

    _parts = ("rule",)

    def __init__(
        self,
        estimator: Any,
        rule: Any = "per-class",
        *,
        rule_params: dict[str, Any] | None = None,
        cv: Any = 5,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.rule = rule
        self.rule_params = rule_params
        self.cv = cv
        self.random_state = random_state

    def _start(self, target: Targets) -> None:
        if target.kind == "multiclass":
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                "one class per row leaves nothing to decide; give label sets, or two classes"
            )
        if not hasattr(self.estimator, "predict_proba"):
            raise TypeError(
                f"DecidedLabels needs probabilities, and {type(self.estimator).__name__} has no "
                "predict_proba; wrap it in CalibratedLabels first"
            )
        self.rule_ = built_rule(self.rule, self.rule_params)

    def _ask(self, estimator: Any, X: Any) -> Array:
        return probabilities(estimator, X, self._targets)

    def _learn(self, answers: Array, y: Tensor, seed: int) -> None:
        self.rule_.fit(answers, y)

    def predict_proba(self, X: Any) -> Array:
        """(rows, labels) probabilities of the estimator; of a 1-D y (rows, 2)."""
        answers = self._answers(X)
        return self._targets.shares(answers)

    def _sets(self, X: Any) -> Labels:
        answers = self._answers(X)
        return self.rule_(answers)

    def predict(self, X: Any) -> Any:
        """What the rule decides, in the form of y."""
        sets = self._sets(X)
        return self._targets.sets(sets)

    def transform(self, X: Any) -> Array:
        """(rows, labels) 0.0 and 1.0: the label sets, as features for what comes next."""
        return self._sets(X).dense(torch.float64).numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
