"""What y is: label sets or one class per row; and what parameters name."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
import torch
from sklearn.base import TransformerMixin
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from labelset import calibrate, check, decide
from labelset.calibrate import ProbMap
from labelset.decide import Rule
from labelset.labels import Labels

Array = np.ndarray[Any, Any]

SETS = (list, tuple, set, frozenset)
BINARIZE = (
    "give 0, 1 and NaN (unknown), or turn label sets into such a matrix with "
    "sklearn.preprocessing.MultiLabelBinarizer"
)


@dataclass(frozen=True)
class Targets:
    """The form of y: a (rows, labels) indicator, dense or sparse, or a 1-D array of classes.

    Two classes are one label, which is on for the second; more are one label each.

    >>> target = Targets.of(["no", "yes", "no"])
    >>> target.kind, target.classes.tolist(), target.labels(["yes", "no"]).dense().tolist()
    ('binary', ['no', 'yes'], [[1.0], [0.0]])
    """

    kind: str
    """multilabel, binary or multiclass."""
    classes: Array
    """The names of the labels (their numbers where y has none), or the classes, sorted."""
    dtype: str
    """Of y, and so of predictions."""
    sparse: str | None = None
    """matrix or array, where y was a scipy one."""

    @classmethod
    def of(cls, y: Any, classes: Any = None) -> Targets:
        """By looking at y; `classes` are all classes, or the names of all labels."""
        if y is None:
            raise ValueError(
                "This estimator requires y to be passed, but the target y is None; give label "
                "sets as a matrix of 0 and 1, or one class per row"
            )
        if scipy.sparse.issparse(y):
            held = "matrix" if scipy.sparse.isspmatrix(y) else "array"
            return cls("multilabel", _names(y, classes), y.dtype.str, held)
        array = _array(y)
        if array.ndim == 2:
            return cls("multilabel", _names(y, classes), array.dtype.str)
        assert_all_finite(array, input_name="y")
        check_classification_targets(array)
        found = np.unique(array if classes is None else np.asarray(classes))
        if len(found) < 2:
            raise ValueError(
                f"y must hold at least 2 classes, got 1 class: {found.tolist()}; give rows of both"
            )
        return cls("binary" if len(found) == 2 else "multiclass", found, array.dtype.str)

    @property
    def one_class(self) -> bool:
        """Whether each row has exactly one class."""
        return self.kind != "multilabel"

    @property
    def n(self) -> int:
        """How many labels there are."""
        return 1 if self.kind == "binary" else len(self.classes)

    def columns(self) -> Array:
        """Names of the labels, as strings."""
        names: Array = np.asarray(self.classes).astype(str).astype(object)
        return names

    def labels(self, y: Any) -> Labels:
        """(rows, n) `Labels` of a y in this form; NaN in an indicator is unknown."""
        if scipy.sparse.issparse(y):
            labels = Labels.from_scipy(y)
        else:
            array = _array(y)
            if self.one_class != (array.ndim == 1):
                due = "1-D classes" if self.one_class else "a (rows, labels) indicator"
                raise ValueError(f"y must be {due}, as in the first call, got {array.ndim}-D")
            labels = self._coded(array) if self.one_class else Labels.from_dense(array)
        if labels.n != self.n:
            raise ValueError(f"y must have {self.n} labels, as in the first call, got {labels.n}")
        return labels

    def _coded(self, array: Array) -> Labels:
        strange = sorted(set(np.unique(array).tolist()) - set(self.classes.tolist()))
        if strange:
            raise ValueError(
                f"y holds {strange[0]!r}, which is not among classes {self.classes.tolist()}"
            )
        code = torch.from_numpy(np.searchsorted(self.classes, array).astype(np.int64))
        if self.kind == "binary":
            return Labels.from_dense(code[:, None] == 1)
        return Labels.from_csr(torch.arange(len(code) + 1), code, n=self.n)

    # ---- predictions in the form of y -----------------------------------------------------------

    def sets(self, labels: Labels) -> Any:
        """Label sets as y has them; of one label that stands for two classes, those."""
        if self.kind == "binary":
            return self.classes[labels.dense(torch.int64).numpy()[:, 0]]
        if self.sparse is None:
            return labels.dense(torch.int64).numpy().astype(self.dtype)
        kind = scipy.sparse.csr_matrix if self.sparse == "matrix" else scipy.sparse.csr_array
        stored = np.ones(len(labels.indices), dtype=self.dtype)
        parts = stored, labels.indices.numpy(), labels.indptr.numpy()
        return kind(parts, shape=labels.shape)

    def most_likely(self, scores: Array) -> Array:
        """One class per row, from (rows, n) scores: of two, the second where it is above 0."""
        at = (scores[:, 0] > 0).astype(int) if self.kind == "binary" else scores.argmax(1)
        chosen: Array = self.classes[at]
        return chosen

    def shares(self, p: Array) -> Array:
        """(rows, classes) probabilities, of one class per row summing to 1."""
        if self.kind == "binary":
            return np.hstack([1 - p, p])
        if self.kind == "multilabel":
            return p
        total = p.sum(1, keepdims=True)
        even = np.full_like(p, 1 / p.shape[1])
        shares: Array = np.divide(p, total, out=even, where=total > 0)
        return shares


def _array(y: Any) -> Array:
    """1-D, or 2-D with more than one column, as scikit-learn reads them."""
    array = _of_numbers_or_names(y)
    if array.ndim == 2 and array.dtype.kind == "O" and hasattr(y, "convert_dtypes"):
        array = y.to_numpy(dtype=float, na_value=np.nan)  # of pandas: NA is unknown
    if array.ndim == 2 and array.shape[1] == 1:
        array = column_or_1d(array, warn=True)
    if array.ndim == 2 and array.dtype.kind == "O":
        array = array.astype(float)
    if array.ndim == 2 and array.dtype.kind not in "biuf":
        raise ValueError(f"Unknown label type: a matrix of {array.dtype}; {BINARIZE}")
    if array.ndim not in (1, 2):
        raise ValueError(f"y must be 1-D or 2-D (rows, labels), got shape {array.shape}")
    if array.ndim == 2 and not bool(((array >= 0) & (array <= 1) | np.isnan(array)).all()):
        raise ValueError(
            "Unknown label type: a matrix of other numbers than 0 to 1; a label is positive (1), "
            "negative (0), in between, or unknown (NaN)"
        )
    return array


def _of_numbers_or_names(y: Any) -> Array:
    """An array; label sets written as lists or sets, one per row, make none."""
    try:
        array = np.asarray(y)
    except ValueError:  # lists of different lengths
        array = None
    if array is None or (array.ndim == 1 and isinstance(next(iter(array), None), SETS)):
        raise ValueError(f"Unknown label type: a list or set of labels per row; {BINARIZE}")
    return array


def _names(y: Any, classes: Any) -> Array:
    width = y.shape[1] if hasattr(y, "shape") else np.asarray(y).shape[1]
    given = classes if classes is not None else getattr(y, "columns", None)
    if given is None:
        return np.arange(width)
    names = np.asarray(given)
    if len(names) != width:
        raise ValueError(f"classes must name {width} labels, the columns of y; got {len(names)}")
    return names


class LabelColumns(TransformerMixin):  # type: ignore[misc]
    """A transformer whose columns are the labels; `set_output` gives tables with their names."""

    _targets: Targets

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names of the labels, which are the columns of `transform`."""
        check_is_fitted(self)
        return self._targets.columns()


def built_map(given: Any, settings: Mapping[str, Any] | None = None) -> ProbMap:
    """A map to fit, from its name or from one.

    >>> built_map("platt", {"per": "pool"})
    Platt(loss=None, per='pool', strength=10.0)
    """
    made: ProbMap = _built("map", calibrate, ProbMap, given, settings)
    return made


def built_rule(given: Any, settings: Mapping[str, Any] | None = None) -> Rule:
    """A rule to fit, from its name or from one.

    >>> built_rule("top-k", {"k": 2})
    TopK(k=2)
    """
    made: Rule = _built("rule", decide, Rule, given, settings)
    return made


def _built(what: str, room: Any, kind: type, given: Any, settings: Mapping[str, Any] | None) -> Any:
    if not isinstance(given, kind):
        return room.build(given, **(settings or {}))
    if settings:  # or a search over them would try the same thing again and again
        raise TypeError(
            f"settings ({', '.join(settings)}) go with the name of a {what}, and a {what} that is "
            "built was given; set them when building it, or give its name"
        )
    return copy.deepcopy(given)


class NamedParts:
    """For an estimator with parameters such as `loss` (a name) and `loss_params` (its settings).

    To stand before BaseEstimator among the base classes.
    """

    _parts: ClassVar[tuple[str, ...]]
    """The parameters that name something with settings."""

    def set_params(self, **params: Any) -> Self:
        """As usual; `loss__gamma=1` sets one entry of `loss_params`."""
        inner = {key: value for key, value in params.items() if self._within(key)}
        super().set_params(**{k: v for k, v in params.items() if k not in inner})  # type: ignore[misc]
        for key, value in inner.items():
            part, _, entry = key.partition("__")
            held = getattr(self, f"{part}_params") or {}
            setattr(self, f"{part}_params", held | {entry: value})
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """As usual; `deep` also gives the entries of `loss_params`, one by one."""
        held: dict[str, Any] = super().get_params(deep=deep)  # type: ignore[misc]
        return held | (dict(self._entries()) if deep else {})

    def _within(self, key: str) -> bool:
        part, inside, _ = key.partition("__")
        return bool(inside) and part in self._parts

    def _entries(self) -> Iterator[tuple[str, Any]]:
        for part in self._parts:
            held = getattr(self, f"{part}_params")
            for entry in held if isinstance(held, dict) else ():
                yield f"{part}__{entry}", held[entry]


def seed_of(random_state: Any) -> int:
    """A whole number as it is; else one drawn from the generator, or from numpy's where None.

    >>> seed_of(7), seed_of(np.random.RandomState(0))
    (7, 209652396)
    """
    if isinstance(random_state, (int, np.integer)):
        return check.whole("random_state", int(random_state))
    return int(check_random_state(random_state).randint(2**31 - 1))
