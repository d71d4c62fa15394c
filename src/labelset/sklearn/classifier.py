"""MultiLabelClassifier: a head, a loss, a calibrator and a rule as one scikit-learn estimator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from labelset import check
from labelset.calibrate import ProbMap, linked, telling_log_odds
from labelset.data import Dataset, Schema, frame_keys, inputs_of, new_rows, texts_in
from labelset.data.frames import is_frame
from labelset.decide import Rule
from labelset.encode import Encoder
from labelset.heads import Head
from labelset.labels import Labels
from labelset.losses import Loss
from labelset.model import Scorer
from labelset.sklearn.auto import goes_in_parts, is_auto, search_of, searched
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
from labelset.sklearn.weights import checked_weight, rows_to_learn_from
from labelset.train import Settings, Task, Training, train

STEPS, BATCH, LEAST, MOST = 150, 32, 20, 60
"""Few rows are gone through more often: about so many steps of so many rows, in so many epochs."""


def map_and_rule(model: Any, target: Targets) -> tuple[ProbMap, Rule]:
    """From scores to probabilities and on to label sets, neither of them fitted yet."""
    loss, name = _loss(model), model.calibrate
    if name is None or (isinstance(name, str) and name == "auto"):
        name = "link" if name is None or linked(loss) else "platt"
    settings = model.calibrate_params or {}
    named = isinstance(name, str)
    probabilities = built_map(name, {"loss": loss} | settings if named else settings)
    if probabilities.loss is None:  # a map that was given, and cannot know
        probabilities.loss = loss
    if model.decide is None or target.kind == "multiclass":  # the most likely class is taken
        return probabilities, built_rule("fixed")
    return probabilities, built_rule(model.decide, model.decide_params)


def settings_of(model: Any, data: Dataset, seed: int, **changes: Any) -> Settings:
    """How to train on these rows."""
    given: dict[str, Any] = {
        "loss": _loss(model),
        "head": model.head,
        "head_settings": model.head_params or {},
        "epochs": _epochs(data, model.batch_size) if model.max_iter is None else model.max_iter,
        "batch": model.batch_size,
        "lr": model.learning_rate,
        "weight_decay": model.weight_decay,
        "patience": model.patience,
        "monitor": model.monitor if model.patience else None,
        "seed": seed,
        "device": model.device,
    }
    return Settings(**(given | changes))


def _loss(model: Any) -> Loss:
    return Settings(loss=model.loss, loss_settings=model.loss_params or {}).build_loss()


def _epochs(data: Dataset, batch: int | None) -> int:
    steps = math.ceil(STEPS * (batch or BATCH) / max(data.sizes()[0], 1))
    return max(LEAST, min(MOST, steps))


SMALLEST = 1e-15
"""How near to 0 and 1 a probability may be and still have finite log-odds."""
FAR = 1000.0
"""How many times its reach a column may lie from 0: float32 then still has 4 digits of it."""


def offset_of(X: Any) -> Array | None:
    """(features,) float64: the middle of each column that lies far off, 0 for the others.

    Features are computed with in float32, which has 7 digits. None where no column needs it, as
    with sparse rows. It depends neither on the order of rows nor on how often each is there.

    >>> offset_of(np.array([[1.7e9, 1.0], [1.7e9 + 2, 2.0]]))
    array([1.7e+09, 0.0e+00])
    """
    if scipy.sparse.issparse(X):
        return None
    low, high = (ends.reduce(X, axis=0) for ends in (np.fmin, np.fmax))  # leave out NaN
    middle, reach = low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
    needed = (reach > 0) & (np.abs(middle) > FAR * reach)
    return np.where(needed, middle, 0.0) if needed.any() else None


def without(X: Any, offset: Array | None) -> Any:
    """The rows less the offset of their columns; dense, where there is one."""
    if offset is None:
        return X
    return (X.toarray() if scipy.sparse.issparse(X) else X) - offset


@dataclass(frozen=True, eq=False)
class Learnt:
    """What training leaves."""

    head: Head
    encoder: Encoder
    history: list[dict[str, Any]]
    valid: Tensor
    """Scores of held-out rows."""
    optimiser: list[dict[str, Any]] | None = None
    """Its moments, so that the next rows go on from them."""


def carry_on(
    data: Dataset, settings: Settings, before: Learnt | None, history: Sequence[dict[str, Any]] = ()
) -> Learnt:
    """Epochs up to `settings.epochs`, those in `history` having been done, from the head `before`.

    What the data decided then (the scales of features, the shape of the head) stays.
    """
    if before is not None:
        _refuse_other_head(settings.head, before.head.name)
        shape = {k: v for k, v in before.head.settings.items() if k not in ("features", "labels")}
        settings = replace(settings, head_settings=shape)
    task = Task.of(data, settings, None if before is None else before.encoder, None)
    run = Training(task, task.resolved(settings))
    run.history = list(history)
    if before is not None:
        run.model.head.load_state_dict(before.head.state_dict())
        if history and before.optimiser is not None:
            run.optimiser.restore(before.optimiser)
    while run.stop() is None:
        run.epoch(lambda steps, loss: None)
    run.model.load_state_dict(run.best or run.weights())
    valid = run.scores("valid", run.model.state_dict())
    run.model.eval().to("cpu")
    left = (run.model.head, task.encoder, run.history, valid)
    return Learnt(*left, optimiser=run.optimiser.state())


def _refuse_other_head(asked: str, there: str) -> None:
    if asked != there:
        raise ValueError(
            f"there is a head {there!r} to go on from, and head={asked!r} is asked for; set "
            "warm_start=False or clone the model to start again"
        )


class MultiLabelClassifier(
    NamedParts,
    PlainState,
    ClassifierMixin,  # type: ignore[misc]
    LabelColumns,
    BaseEstimator,  # type: ignore[misc]
):
    """One linear (or other) head over given features, trained with any of labelset's losses; or,
    with model="auto", the best model that a search finds.

    y is a (rows, labels) matrix of 0 and 1, dense or sparse; NaN is unknown, numbers between are
    soft labels. A 1-D y has one class per row. Dense features are standardised, sparse ones scaled
    by column; NaN is a missing measurement.

    Parameters
    ----------
    loss, loss_params : a loss of `labelset.losses.names()`, or one; its hyperparameters. They can
        also be set one by one, `set_params(loss__gamma_neg=2)`, and so for the next three.
    head, head_params : of `labelset.heads.names()`.
    calibrate, calibrate_params : scores to probabilities. "auto": the loss's own link, and "platt"
        where it has none. Else a map of `labelset.calibrate.names()`.
    decide, decide_params : probabilities to label sets. None: 0.5 and above is on. Else a rule of
        `labelset.decide.names()`; of two classes in a 1-D y it decides for the second. Of more
        than two the most likely is taken, whatever the rule.
    max_iter : epochs; None: 20, and more where rows are few.
    batch_size, learning_rate, weight_decay : None: chosen by the data.
    patience, monitor : stop after this many epochs without a better metric on held-out rows.
    validation_fraction : the share of rows that is held out, and not trained on, where the map or
        the rule is fitted or `patience` is above 0; otherwise none is.
    warm_start : whether `fit` goes on from the head there is.
    device : cpu or cuda, to train on.
    random_state : the same number, the same result, in whatever order rows come.
    model : None, or "auto": linear heads with several losses, small networks, forests, a kernel
        and a blend of them compete, as in `labelset compare`; scores of rows that a model has not
        seen choose among them, fit the calibrator and set the thresholds, which a 1-D y does
        without. X may then be a list of texts, or a frame with columns of words, too. Of the
        parameters above it heeds none, and its result is the same whatever the `random_state`.
    time_budget : seconds for all fitting of the search; None: as much as is usual.
    optimise : the metric that chooses, such as "map@class".
    finetune : pretrained networks that a search trains whole on texts: folders, installed packages
        or names of the Hugging Face hub, as `labelset compare --finetune` takes them.
    label_texts : what labels are about, by name, where X holds texts, for labels with few
        positives; None: their names, where y has such.

    Attributes
    ----------
    classes_ : the labels: columns' names where y had such, else numbers; of a 1-D y its classes.
    head_, encoder_, history_, n_iter_ : what was learnt, and how that went, in how many epochs; of
        a search n_iter_ says how many candidates were fitted.
    offset_ : what is subtracted from dense features first, (features,), where some lie so far from
        0 that float32 could not tell them apart; else None.
    calibrator_, rule_ : the map and the rule in use.
    coef_, intercept_ : (labels, features) and (labels,) of the scores as a function of X.
    model_ : what scores features: the head, or what a search has found in its place.
    search_ : of a search, the `candidates`, best first, with the metric and seconds of each, the
        `best` of them, and the `sentence` that says why.

    >>> from sklearn.datasets import make_multilabel_classification
    >>> X, y = make_multilabel_classification(random_state=0)
    >>> model = MultiLabelClassifier(loss="asl", decide="per-class", random_state=0).fit(X, y)
    >>> model.predict(X).shape, model.predict_proba(X).shape, model.rule_.thresholds.shape
    ((100, 5), (100, 5), torch.Size([5]))
    """

    _parts = ("loss", "head", "calibrate", "decide")

    def __init__(
        self,
        loss: Any = "bce",
        head: str = "linear",
        calibrate: Any = "auto",
        decide: Any = None,
        *,
        loss_params: dict[str, Any] | None = None,
        head_params: dict[str, Any] | None = None,
        calibrate_params: dict[str, Any] | None = None,
        decide_params: dict[str, Any] | None = None,
        max_iter: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        patience: int = 0,
        monitor: str = "map@class",
        validation_fraction: float = 0.2,
        warm_start: bool = False,
        device: str = "cpu",
        random_state: Any = None,
        model: str | None = None,
        time_budget: float | None = None,
        optimise: str = "f1-micro",
        finetune: Sequence[str] | None = None,
        label_texts: Mapping[str, str] | None = None,
    ) -> None:
        self.loss = loss
        self.head = head
        self.calibrate = calibrate
        self.decide = decide
        self.loss_params = loss_params
        self.head_params = head_params
        self.calibrate_params = calibrate_params
        self.decide_params = decide_params
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.monitor = monitor
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state
        self.model = model
        self.time_budget = time_budget
        self.optimise = optimise
        self.finetune = finetune
        self.label_texts = label_texts

    # ---- learning -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows; their weights say how much each counts.

        Whole weights are the same as repeating rows. Others multiply the loss of each row, and say
        how much it counts for the map and the rule.
        """
        if is_auto(self):
            return self._search(X, y, sample_weight)
        self.__dict__.pop("search_", None)
        before = self._before() if self.warm_start and hasattr(self, "head_") else None
        X = self._checked(X, reset=before is None)
        target = self._targets if before is not None else Targets.of(y)
        labels, weight = self._answers(X, y, target, sample_weight)
        self.calibrator_, self.rule_ = map_and_rule(self, target)
        seed = seed_of(self.random_state)
        data = rows_to_learn_from(inputs_of(X), labels, weight, self._held_out(), seed)
        settings = settings_of(self, data, seed)
        learnt = _trained(data, settings) if before is None else carry_on(data, settings, before)
        self._keep(target, learnt)
        self._fit_parts(learnt.valid, data, seed)
        return self

    @available_if(goes_in_parts)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go once through more rows. `classes`: all classes of a 1-D y, in the first call.

        Nothing is held out, so that the map and the rule must have nothing to fit; those that
        `fit` has fitted stay. Features keep the scales of the first call.
        """
        is_auto(self)
        before = self._before() if hasattr(self, "head_") else None
        X = self._checked(X, reset=before is None)
        target = self._targets if before is not None else _first(y, classes)
        labels, weight = self._answers(X, y, target, sample_weight)
        if before is None:
            self.calibrator_, self.rule_ = map_and_rule(self, target)
            self._refuse_fitted_parts()
        seed = seed_of(self.random_state)
        data = rows_to_learn_from(inputs_of(X), labels, weight, 0.0, seed)
        done = [] if before is None else before.history
        passes = {"epochs": len(done) + 1, "schedule": "constant", "patience": 0, "monitor": None}
        learnt = carry_on(data, settings_of(self, data, seed, **passes), before, done)
        self._keep(target, learnt)
        self._optimiser = learnt.optimiser
        return self

    def _search(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """The best model of a search."""
        words = texts_in(X) is not None or (is_frame(X) and bool(frame_keys(X)))
        rows = self._worded(X) if words else inputs_of(self._checked(X, reset=True))
        target = Targets.of(y)
        labels, weight = self._answers(X, y, target, sample_weight)
        data = rows_to_learn_from(rows, labels, weight, 0.0, seed=0)
        choice = searched(self, replace(data, names=[*target.columns()[-target.n :]]))
        found = choice.model
        self._schema = found.about["schema"] if words else None
        self.search_ = search_of(choice, self.optimise)
        predictor = found.predictor.or_sigmoid()
        assert predictor.calibrator is not None
        assert found.encoder is not None
        self.calibrator_ = predictor.calibrator
        self.rule_ = built_rule("fixed") if target.one_class else predictor.rule
        self._keep(target, Learnt(found.head or found.estimator, found.encoder, [], Tensor()))
        self.n_iter_ = sum(not one.note for one in choice.candidates)
        return self

    def _worded(self, X: Any) -> Dataset:
        """Rows that hold words, of which there is no number of features."""
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        self.offset_: Array | None = None
        return inputs_of(X)

    def _answers(
        self, X: Any, y: Any, target: Targets, sample_weight: Any
    ) -> tuple[Labels, Array | None]:
        labels = target.labels(y)
        check_consistent_length(X, labels)
        if sample_weight is None:
            return labels, None
        weight = checked_weight(sample_weight, X)
        return labels, None if (weight == weight[0]).all() and weight[0] % 1 else weight

    _schema: dict[str, Any] | None = None
    """How to read rows that hold words."""

    def _checked(self, X: Any, reset: bool) -> Any:
        X = validate_data(self, X, accept_sparse="csr", ensure_all_finite="allow-nan", reset=reset)
        if reset:
            self.offset_, self._schema = offset_of(X), None
        return without(X, self.offset_)

    def _held_out(self) -> float:
        if not (self.calibrator_.needs_fit or self.rule_.needs_fit or self.patience):
            return 0.0
        share = self.validation_fraction
        ends = {"low": 0.0, "high": 1.0, "open_low": True, "open_high": True}
        return check.number("validation_fraction", share, **ends)  # type: ignore[arg-type]

    def _refuse_fitted_parts(self) -> None:
        for part in (self.calibrator_, self.rule_):
            if part.needs_fit:
                raise ValueError(
                    f"partial_fit holds nothing out, and {type(part).__name__} must be fitted to "
                    "held-out rows; leave it out here, and wrap the model afterwards in "
                    'CalibratedLabels or DecidedLabels with cv="prefit"'
                )

    def _fit_parts(self, valid: Tensor, data: Dataset, seed: int) -> None:
        """The map and the rule on held-out rows."""
        if not (self.calibrator_.needs_fit or self.rule_.needs_fit):
            return
        labels = data.part("valid").labels
        if self.calibrator_.needs_fit:
            self.calibrator_.fit(valid.double(), labels, seed=seed)
        if self.rule_.needs_fit:
            self.rule_.fit(self.calibrator_(valid.double()), labels)

    def _keep(self, target: Targets, learnt: Learnt) -> None:
        self._targets = target
        self.classes_ = target.classes
        self.encoder_ = learnt.encoder
        self._scorer = Scorer(learnt.head, learnt.encoder)
        self.model_ = self._scorer.model
        self.history_ = learnt.history
        self.n_iter_ = len(learnt.history)
        self._optimiser = None

    def _before(self) -> Learnt:
        none = Tensor()
        kept = (self.head_, self.encoder_, self.history_, none, self._optimiser)
        return Learnt(*kept)

    @property
    def head_(self) -> Head:
        """The head; a search may have found something else."""
        check_is_fitted(self, "model_")
        if not isinstance(self.model_, Head):
            raise AttributeError(f"what the search has found is no head: {self.model_.kind}")
        return self.model_

    @property
    def coef_(self) -> Array:
        """(labels, features): scores are X coef_.T + intercept_, up to rounding.

        X in its own units, so that a feature of large numbers has small coefficients: scale X
        before you compare features. Of `bce` scores are log-odds. Rows that are cut off (beyond a
        thousand deviations) or miss a value are the exception: that one counts as the mean.
        """
        return self._affine()[0]

    @property
    def intercept_(self) -> Array:
        """(labels,): the scores where X is 0."""
        return self._affine()[1]

    def _affine(self) -> tuple[Array, Array]:
        weight, bias = self.head_.matrix()
        if self.encoder_.name != "features":
            raise AttributeError("coefficients belong to columns of numbers, and X holds words")
        learnt = {name: t.double() for name, t in self.encoder_.learnt.items()}
        shift = weight.new_zeros(len(weight)) if bias is None else bias
        projection = self.head_.projection
        if isinstance(projection, nn.Linear):
            weight, shift = weight @ projection.weight, shift + weight @ projection.bias
        weight = weight / learnt["deviation" if "mean" in learnt else "largest"]
        if "mean" in learnt:
            shift = shift - weight @ learnt["mean"]
        if self.offset_ is not None:
            shift = shift - weight @ torch.from_numpy(self.offset_)
        return weight.numpy(), shift.numpy()

    # ---- predicting -----------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """(rows, labels) log-odds by the link of the loss, before calibration and decision.

        Of a loss without a link, its scores; of what a search has found, log-odds of
        `predict_proba`. (rows,) where y had two classes.
        """
        v = self._scores(X)
        if self.model is not None and self.calibrator_.needs_fit:
            found = torch.logit(self.calibrator_(v), eps=SMALLEST).numpy()
        else:
            found = self._log_odds(v)
        return found[:, 0] if self._targets.kind == "binary" else found

    def predict_proba(self, X: Any) -> Array:
        """(rows, labels) probabilities that each label is on; of a 1-D y (rows, classes)."""
        v = self._scores(X)
        return self._targets.shares(self.calibrator_(v).numpy())

    def predict(self, X: Any) -> Any:
        """Label sets in the form of y: (rows, labels) of 0 and 1, sparse if y was; or classes."""
        v = self._scores(X)
        target = self._targets
        if target.kind == "multiclass" or (target.one_class and self.decide is None):
            if self.calibrator_.needs_fit:
                p = self.calibrator_(v).numpy()
                return target.most_likely(p - 0.5)
            return target.most_likely(self._log_odds(v))
        return target.sets(self.rule_(self.calibrator_(v)))

    def transform(self, X: Any) -> Array:
        """The probabilities, as features for what comes next."""
        return self.predict_proba(X)

    def _scores(self, X: Any) -> Tensor:
        check_is_fitted(self, "model_")
        if self._schema is not None:
            parts = new_rows(X, Schema.from_json(self._schema))
            return torch.cat([self._scorer(part) for part in parts]).double()
        return self._scorer(inputs_of(self._checked(X, reset=False))).double()

    def _log_odds(self, v: Tensor) -> Array:
        loss = self.calibrator_.loss
        found: Array = (telling_log_odds(loss, v) if linked(loss) else v).numpy()
        return found

    # ---- scikit-learn's conventions -------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_scorer"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "model_"):
            self._scorer = Scorer(self.model_, self.encoder_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags


def _first(y: Any, classes: Any) -> Targets:
    if classes is None and Targets.of(y).one_class:
        raise ValueError("classes must be passed on the first call to partial_fit: all of them")
    return Targets.of(y, classes)


def _trained(data: Dataset, settings: Settings) -> Learnt:
    done = train(data, settings, parts=["valid"])
    return Learnt(done.head, done.encoder, done.history, done.scores["valid"])
