"""What a wrapper of another estimator needs, whatever it learns from that one's answers."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, Self

import numpy as np
import torch
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted, has_fit_parameter
from torch import Tensor

from labelset.sklearn._columns import LabelColumns
from labelset.sklearn._cross_fit import cross_fitted
from labelset.sklearn._params import NamedParts
from labelset.sklearn._random import seed_of
from labelset.sklearn._rows import checked_weight, copies
from labelset.sklearn._targets import Array, Targets

__all__ = ["Wrapper"]


class Wrapper(
    NamedParts,
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
        given = (self.estimator, X, y, labels, self._ask, self.cv, seed, own, split)
        self.estimator_, answers = cross_fitted(*given)
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
