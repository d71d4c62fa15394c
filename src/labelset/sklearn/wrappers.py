"""CalibratedLabels and DecidedLabels: calibration and decisions around any classifier."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import numpy as np
import torch
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import (
    _check_method_params,
    _num_samples,
    check_is_fitted,
    has_fit_parameter,
)
from torch import Tensor

from labelset import check, decide
from labelset.data import deal_folds
from labelset.labels import Labels
from labelset.sklearn.model_selection import log_odds, probabilities, smallest_step, values
from labelset.sklearn.state import PlainState
from labelset.sklearn.targets import (
    Array,
    LabelColumns,
    NamedParts,
    Targets,
    built_map,
    built_rule,
    seed_of,
)
from labelset.sklearn.weights import checked_weight, copies

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
    part = deal_folds(labels, folds, seed=seed).numpy()
    for fold in range(folds):
        yield np.flatnonzero(part != fold), np.flatnonzero(part == fold)


class Wrapper(
    NamedParts,
    PlainState,
    MetaEstimatorMixin,  # type: ignore[misc]
    ClassifierMixin,  # type: ignore[misc]
    LabelColumns,
    BaseEstimator,  # type: ignore[misc]
):
    """Asks the estimator about rows it was not fitted to, and learns from the answers.

    Subclasses give `_ask`, `_start` and `_learn`, and the parameters `estimator`, `cv` and
    `random_state`.
    """

    estimator: Any
    cv: Any
    random_state: Any

    @abstractmethod
    def _ask(self, estimator: Any, X: Any) -> Array:
        """(rows, labels) numbers from a fitted estimator."""

    @abstractmethod
    def _start(self, target: Targets) -> None:
        """Before any estimator is fitted: what can be refused at once."""

    @abstractmethod
    def _learn(self, answers: Array, y: Tensor, seed: int) -> None:
        """From answers and (rows, labels) float64 labels, NaN where unknown or not answered."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Self:
        """Cross-fit the estimator, learn from its answers, and fit it to all rows.

        `sample_weight` and `params` go to its `fit`. Whole weights also repeat rows for what is
        learnt here; of other weights that takes no notice.
        """
        self._targets = target = Targets.of(y)
        self._start(target)
        X, y = indexable(X, y)
        labels, seed = target.labels(y), seed_of(self.random_state)
        own, split = self._routed(X, sample_weight, params)
        arguments = (self.estimator, X, y, labels, self._ask, self.cv, seed, own, split)
        self.estimator_, answers = cross_fitted(*arguments)
        truth = labels.dense(torch.float64)
        truth[torch.from_numpy(np.isnan(answers))] = torch.nan
        rows = self._counted(X, sample_weight)
        self._learn(answers[rows], truth[torch.from_numpy(rows)], seed)
        self.classes_ = target.classes
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def _counted(self, X: Any, sample_weight: Any) -> Array:
        """Row numbers, as often as rows weigh."""
        weight = checked_weight(sample_weight, X)
        times = copies(weight)
        rows = np.arange(len(weight))
        return rows[weight > 0] if times is None else np.repeat(rows, times)

    def _routed(
        self, X: Any, sample_weight: Any, params: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the estimator's `fit` and the splitter's `split` get."""
        if get_config().get("enable_metadata_routing"):
            routed = process_routing(self, "fit", sample_weight=sample_weight, **params)
            return dict(routed.estimator.fit), dict(routed.splitter.split)
        if sample_weight is None or self.cv == "prefit":
            return params, {}
        weight = checked_weight(sample_weight, X)
        if has_fit_parameter(self.estimator, "sample_weight"):
            return params | {"sample_weight": weight}, {}
        if getattr(type(self.estimator), "__name__", "") != "FrozenEstimator":
            name = type(self).__name__
            warnings.warn(
                f"{type(self.estimator).__name__}.fit takes no sample_weight: the weights count "
                f"only for what {name} itself learns",
                stacklevel=3,
            )
        return params, {}

    def _answers(self, X: Any) -> Array:
        """(rows, labels) float64 of the fitted estimator."""
        check_is_fitted(self)
        return self._ask(self.estimator_, X)

    # ---- scikit-learn's conventions -------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_") and hasattr(self, "classes_")

    def get_metadata_routing(self) -> Any:
        """As of any meta-estimator: what goes to the estimator's `fit`, and to the splitter."""
        fit, split = MethodMapping(), MethodMapping()
        fit.add(caller="fit", callee="fit")
        split.add(caller="fit", callee="split")
        router = MetadataRouter(owner=self).add_self_request(self)
        splitter = None if isinstance(self.cv, (int, str)) else self.cv
        router.add(estimator=self.estimator, method_mapping=fit)
        return router.add(splitter=splitter, method_mapping=split)

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator).input_tags
        for name in ("sparse", "allow_nan", "pairwise", "string", "categorical", "positive_only"):
            setattr(tags.input_tags, name, getattr(inner, name))
        tags.input_tags.two_d_array = inner.two_d_array
        tags.target_tags.required = True
        within = get_tags(self.estimator).classifier_tags
        tags.classifier_tags.multi_label = bool(within and within.multi_label)
        tags.target_tags.multi_output = tags.classifier_tags.multi_label
        return tags


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
