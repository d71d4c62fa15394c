"""Estimators whose answers, one column per label, are features for what comes next."""

from __future__ import annotations

from typing import Any

from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from labelset.sklearn._targets import Array, Targets

__all__ = ["LabelColumns"]


class LabelColumns(TransformerMixin):  # type: ignore[misc]
    """A transformer whose columns are the labels; `set_output` gives tables with their names."""

    _targets: Targets

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names of the labels, which are the columns of `transform`."""
        check_is_fitted(self)
        return self._targets.columns()
