"""Rivals: label frequencies, and any scikit-learn estimator, by the folds of the others."""

from __future__ import annotations

import ast
import difflib
import importlib
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import inputs
from labelset.data import SparseRows
from labelset.heads import Head, build
from labelset.labels import Labels
from labelset.model import Forest, log_odds
from labelset.train.fitted import LATE, Failed, Fitted, repeated
from labelset.train.trees import DENSE, Array, Progress, TreeTargets, duration

ROUNDING = 1e-6
"""How far beyond 0 and 1 a probability of others may lie."""


def frequencies(features: Tensor | SparseRows, labels: Labels, folds: Tensor) -> Fitted:
    """Every row gets the label frequencies of the rows that are fitted on: the floor.

    >>> y = Labels.from_lists([[0], [0], [], [0]], n=1)
    >>> fold = torch.tensor([0, 0, 1, 1])
    >>> frequencies(torch.zeros(4, 2), y, fold).scores.sigmoid().flatten()
    tensor([0.5000, 0.5000, 0.9999, 0.9999])
    """
    start = time.monotonic()
    targets, fold = TreeTargets(labels), folds.cpu().numpy()
    scores = torch.zeros(labels.shape)
    for member in range(int(fold.max()) + 1):
        mean = targets.means(np.flatnonzero(fold != member))
        scores[folds == member] = log_odds(torch.from_numpy(mean))
    bias = log_odds(torch.from_numpy(targets.means(np.arange(len(fold)))))
    model = _linear(torch.zeros(labels.n, features.shape[1]), bias)
    return Fitted(scores, model, None, time.monotonic() - start, {"way": "frequencies"})


def _linear(weight: Tensor, bias: Tensor) -> Head:
    head = build("linear", features=weight.shape[1], labels=len(weight))
    head.load_state_dict({"classifier.weight": weight, "classifier.bias": bias})
    head.requires_grad_(False)
    return head


# ---- estimators of other people -----------------------------------------------------------------


@dataclass(frozen=True)
class Estimator:
    """A class with scikit-learn's interface, and what it is made with."""

    spec: str
    kind: Any
    parameters: dict[str, Any]

    @classmethod
    def parse(cls, spec: str) -> Estimator:
        """From `module.Class:name=value,name=value`; ValueError says what is wrong with it.

        >>> Estimator.parse("sklearn.neighbors.KNeighborsClassifier:n_neighbors=3").parameters
        {'n_neighbors': 3}
        """
        path, _, settings = spec.partition(":")
        module, _, name = path.rpartition(".")
        if not module or not all(step.isidentifier() for step in path.split(".")):
            raise ValueError(
                "an estimator is named module.Class:name=value,..., such as "
                f"sklearn.neighbors.KNeighborsClassifier:n_neighbors=10, got {spec!r}"
            )
        try:
            room = importlib.import_module(module)
        except Exception as error:  # whatever its own code raises
            raise ValueError(
                f"{spec!r} needs the module {module}, which cannot be imported ({error}); correct "
                "the name, or install what it belongs to"
            ) from None
        kind = getattr(room, name, None)
        if not isinstance(kind, type) or not hasattr(kind, "fit"):
            classes = [key for key, value in vars(room).items() if hasattr(value, "fit")]
            raise ValueError(f"{module} has no estimator {name!r}{_meant(name, classes)}")
        return cls(spec, kind, _parameters(spec, settings, kind))

    def build(self, seed: int) -> Any:
        """A new one; `random_state` is the seed unless the spec states one."""
        made = self.kind(**self.parameters)
        if "random_state" not in self.parameters and "random_state" in made.get_params():
            made.set_params(random_state=seed)
        return made


def _parameters(spec: str, settings: str, kind: Any) -> dict[str, Any]:
    try:
        known = kind().get_params(deep=False)
    except Exception as error:
        raise ValueError(f"{kind.__name__} cannot be made by name alone: {error}") from None
    try:
        call = ast.parse(f"f({settings})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
            raise ValueError
        given = {str(word.arg): _value(word.value) for word in call.keywords}
        if len(given) < len(call.keywords):
            raise ValueError
    except (SyntaxError, ValueError):
        raise ValueError(
            f"the parameters of an estimator are name=value, with commas between, got {settings!r} "
            f"in {spec!r}; put quotes around text that is more than a word"
        ) from None
    for name in given:
        if name not in known:
            raise ValueError(f"{kind.__name__} has no parameter {name!r}{_meant(name, known)}")
    return given


def _value(node: ast.expr) -> Any:
    """A literal; a bare word is a string."""
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


def _meant(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, [*known], n=1, cutoff=0.0)
    return f"; did you mean {near[0]}?" if near else ""


def estimator(
    spec: str | Estimator,
    features: Tensor | SparseRows,
    labels: Labels,
    folds: Tensor,
    *,
    seed: int = 0,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Fitted | Failed:
    """Any classifier with scikit-learn's interface: by the folds, then on all rows.

    One model for all labels where it takes several at once, all are known and entries have no
    weights of their own, else one for each label, fitted on the rows that know it; a label of one
    class only has its frequency. What it says is taken by its `classes_`: log-odds of
    probabilities, or else its decision function. It fails, with a reason, where the estimator does,
    or once it is clear that `seconds` will not do.
    The model is a `Forest` or a linear `Head` where it can be made one, and then says the same;
    otherwise it is `Unsaved`, and `about` says why under `unsaved`.
    """
    chosen = spec if isinstance(spec, Estimator) else Estimator.parse(spec)
    if seconds is not None and seconds <= 0:
        return LATE
    start, members = time.monotonic(), int(folds.max()) + 1

    def tick(done: float) -> None:
        took = time.monotonic() - start
        if seconds is not None and took > seconds / 20 and took / done > seconds:
            raise _Refused(f"would take about {duration(took / done)}")
        if progress is not None:
            progress(done)

    scores = torch.zeros(labels.shape)
    try:
        with _foreign(chosen.kind), warnings.catch_warnings(record=True) as said:
            inputs.hard(labels)
            warnings.simplefilter("always")
            x = _readable(chosen.build(seed), features)
            for member in range(members + 1):
                rows = np.flatnonzero(folds.cpu().numpy() != member)
                held = np.flatnonzero(folds.cpu().numpy() == member)
                fitted = _Classifiers(chosen.build(seed), *_as_counted(chosen, x, labels, rows))
                for done in fitted.steps():
                    tick((member + done) / (members + 1))
                if len(held):
                    scores[torch.from_numpy(held)] = fitted.scores(x[held])
            kept, unsaved = _kept(fitted, x, features)
    except (_Refused, Broken) as why:
        return Failed(str(why))
    about: dict[str, Any] = {"way": "estimator", "spec": chosen.spec}
    if unsaved is not None:
        about["unsaved"] = unsaved
    if said:
        about["warnings"] = sorted({str(w.message).splitlines()[0] for w in said})
    model = Unsaved(fitted) if kept is None else kept
    return Fitted(scores, model, None, time.monotonic() - start, about)


class Broken(ValueError):
    """Somebody else's estimator has failed."""


@contextmanager
def _foreign(kind: type) -> Iterator[None]:
    """Around the code of others: what it raises is `Broken`, what it prints is not our output."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except _Refused:
        raise
    except (Exception, SystemExit) as error:
        line = next(iter(str(error).splitlines()), "")
        raise Broken(f"{kind.__name__} failed: {type(error).__name__}: {line}") from None


class Unsaved:
    """An estimator of others that scores rows now but is kept in no file: to open such a file would
    be to run whatever code it holds."""

    def __init__(self, fitted: _Classifiers) -> None:
        self._fitted, self.labels, self.nbytes = fitted, fitted.labels.n, 0

    def scores(self, features: Tensor | SparseRows) -> Tensor:
        """(rows, labels) float32; `Broken` where the estimator fails."""
        with _foreign(type(self._fitted.made)):
            return self._fitted.scores(_readable(self._fitted.made, features)).float()


class _Refused(Exception):
    """The fit is not worth going on with."""


def _as_counted(chosen: Estimator, x: Any, labels: Labels, rows: Array) -> tuple[Any, Labels]:
    """Features and labels of some rows; whole weights repeat them where `fit` takes no weights."""
    from sklearn.utils.validation import has_fit_parameter

    some = labels[rows]
    if some.weights is None or has_fit_parameter(chosen.kind, "sample_weight"):
        return x[rows], some
    times = repeated(some)
    if times is None:
        raise _Refused(
            f"{chosen.kind.__name__}.fit takes no sample_weight; give whole numbers as weights of "
            "rows, which repeat them"
        )
    return x[rows[times.numpy()]], replace(some[times], weights=None)


def _tags(made: Any) -> tuple[bool, bool]:
    """Whether it takes several labels at once, and sparse features."""
    try:
        from sklearn.utils import get_tags
    except ImportError:  # scikit-learn before 1.6
        old = made._get_tags() if hasattr(made, "_get_tags") else {}
        return bool(old.get("multilabel")), True
    try:
        tags = get_tags(made)
    except AttributeError:  # an estimator that states none
        return False, True
    several = tags.classifier_tags is not None and tags.classifier_tags.multi_label
    return bool(several), bool(tags.input_tags.sparse)


def _readable(made: Any, features: Tensor | SparseRows) -> Any:
    """Sparse rows stay sparse where the estimator takes them."""
    if not isinstance(features, SparseRows):
        return features.cpu().float().numpy()
    if _tags(made)[1]:
        return features.to_scipy()
    if len(features) * features.width > DENSE:
        raise _Refused(f"takes no sparse features, and dense ones, {features.shape}, are too large")
    return features.dense().cpu().numpy()


class _Classifiers:
    """One fitted estimator for all labels, or one for each."""

    def __init__(self, made: Any, x: Any, labels: Labels) -> None:
        self.made, self.x, self.labels = made, x, labels
        self.counts = labels.entry_weights
        one = self.counts is None or labels.row_weights is not None
        self.together = labels.n > 1 and labels.known() is None and one and _tags(made)[0]
        self.each: list[Any] = []
        """Estimators; in place of one for a label of one class: its log-odds."""

    def steps(self) -> Iterator[float]:
        """Fit; the share done after each estimator."""
        from sklearn.base import clone

        if self.together:
            y = self.labels.dense(torch.int64).numpy()
            self.each = [self.made.fit(self.x, y, **self._weights(0, slice(None)))]
            yield 1.0
            return
        columns = self.labels.T
        for label in range(self.labels.n):
            y = columns[label].dense()[0].numpy()
            known = np.flatnonzero(~np.isnan(y))
            y = y[known].astype(np.int64)
            if len(np.unique(y)) < 2:
                mean = torch.tensor(y.mean() if len(y) else 0.0)
                self.each.append(float(log_odds(mean)))
            else:
                one = clone(self.made).fit(self.x[known], y, **self._weights(label, known))
                self.each.append(one)
            yield (label + 1) / self.labels.n

    def _weights(self, label: int, rows: Any) -> dict[str, Array]:
        """For `fit`, where there are any."""
        return {} if self.counts is None else {"sample_weight": self.counts[:, label].numpy()[rows]}

    def scores(self, x: Any) -> Tensor:
        """(rows, labels) log-odds, or values of decision functions."""
        if self.together:
            return _numbers(_said(self.each[0], x, several=True), (x.shape[0], self.labels.n))
        shape = x.shape[0], 1
        columns = [
            torch.full(shape, one)
            if isinstance(one, float)
            else _numbers(_said(one, x, several=False), shape)
            for one in self.each
        ]
        return torch.cat(columns, dim=1)


def _numbers(said: Tensor, shape: tuple[int, int]) -> Tensor:
    """What an estimator says, if it is a number for each row and label."""
    if said.shape != shape:
        raise ValueError(f"it gave values of shape {tuple(said.shape)}, {shape} were due")
    if bool((wrong := said.isnan()).any()):
        raise ValueError(f"it gave NaN for row {int(wrong.nonzero()[0, 0])} of {shape[0]}")
    return said


def _said(fitted: Any, x: Any, several: bool) -> Tensor:
    """(rows, labels) log-odds or decision values, of several labels at once or of one."""
    values, p = None, None
    if hasattr(fitted, "decision_function"):
        decided = np.asarray(fitted.decision_function(x), dtype=np.float64)
        values = torch.from_numpy(decided.reshape(x.shape[0], -1))
    if hasattr(fitted, "predict_proba"):
        p = _positive(fitted.predict_proba(x), fitted, several)
    if p is None and values is None:
        raise TypeError("it has neither predict_proba nor decision_function")
    if p is None or (values is not None and _same(values, p)):
        assert values is not None
        return values.float()
    return log_odds(p)


def _same(values: Tensor, p: Tensor) -> bool:
    """Whether they are the log-odds of p, free of the rounding of probabilities."""
    return values.shape == p.shape and torch.allclose(values.sigmoid(), p, rtol=0, atol=1e-6)


def _positive(given: Any, fitted: Any, several: bool) -> Tensor:
    """(rows, labels) probabilities of class 1.

    Of several labels come an array with a column per label, or a list of arrays with a column per
    class, as of a single label; which class a column is of, `classes_` says.
    """
    if several and not isinstance(given, list):
        p = np.asarray(given, dtype=np.float64)
    else:
        pairs = zip(given, fitted.classes_, strict=True) if several else [(given, fitted.classes_)]
        p = np.stack([_of_class_1(np.asarray(one), known) for one, known in pairs], axis=1)
    if bool(((p < -ROUNDING) | (p > 1 + ROUNDING)).any()):
        raise ValueError(f"predict_proba gave {p.min():g} to {p.max():g}, not probabilities")
    return torch.from_numpy(p)


def _of_class_1(p: Array, classes: Any) -> Array:
    if p.ndim != 2 or p.shape[1] != len(classes):
        due = f"a column for each of {len(classes)} classes was due"
        raise ValueError(f"predict_proba gave an array of shape {p.shape}, {due}")
    known = list(classes)
    return p[:, known.index(1)].astype(np.float64) if 1 in known else np.zeros(len(p))


def _kept(
    fitted: _Classifiers, x: Any, features: Tensor | SparseRows
) -> tuple[Forest | Head | None, str | None]:
    """The model, or None and why; a model is kept only where it says the same as the estimator."""
    made = _converted(fitted, features.shape[1])
    name = type(fitted.made).__name__
    if made is None:
        return None, f"{name} cannot be turned into a forest or a linear head"
    rows = torch.arange(min(len(features), 200))
    own = made(features[rows])
    own = log_odds(own) if isinstance(made, Forest) else own
    theirs = fitted.scores(x[: len(rows)])
    if not torch.allclose(own.sigmoid(), theirs.sigmoid(), rtol=0, atol=1e-3):
        return None, f"{name} does more with features than its coefficients or trees say"
    return made, None


def _converted(fitted: _Classifiers, width: int) -> Forest | Head | None:
    first = fitted.each[0]
    if fitted.together and hasattr(first, "estimators_"):
        trees = np.ravel(first.estimators_)
        return Forest.from_sklearn(first) if all(hasattr(t, "tree_") for t in trees) else None
    if not all(isinstance(one, float) or hasattr(one, "coef_") for one in fitted.each):
        return None
    weight, bias = [], []
    for one in fitted.each:
        lone = isinstance(one, float)
        coefficients = np.zeros((1, width)) if lone else np.atleast_2d(_dense(one.coef_))
        weight.append(torch.from_numpy(coefficients).float())
        offset = one if lone else np.asarray(one.intercept_, dtype=np.float64)
        bias.append(torch.from_numpy(np.broadcast_to(offset, len(coefficients)).copy()).float())
    return _linear(torch.cat(weight), torch.cat(bias))


def _dense(matrix: Any) -> Array:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
