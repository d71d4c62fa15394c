"""Blends: greedy selection over out-of-fold probabilities, and the test that must allow one.

Greedy selection with replacement (Caruana et al., Ensemble selection from libraries of models,
ICML 2004) adds, pick by pick, the candidate with which the mean of all picks is best. What was
chosen looks better on the rows that chose it than it is, so a blend is used only where a nested
test finds it better than the best single candidate on rows that chose neither.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelset import calibrate, check, decide, inputs
from labelset.labels import Labels
from labelset.metrics import (
    EntryMean,
    Kept,
    Metric,
    State,
    build,
    known_counts,
    positive_ranks,
)
from labelset.model import SavedModel

PICKS = 12
PARTS = 5
"""Into how many parts a nested test deals rows: fewer rows can test nothing."""
BINS = 2000
"""Steps of probability between which one threshold for all labels is looked for."""
SHARE = 4
"""A nested test chooses many times over: each time on so many times fewer entries at most."""
JUDGED = 2_000_000
"""Entries that judge, of all parts together: beyond them a sample of each part."""
BLOCKS = 3
"""Into how many blocks the rows of a part are cut: every repeat deals the same blocks to other
parts, so that what adds up over rows is counted once for all repeats."""

Array = NDArray[Any]
Picks = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Selection:
    """Which candidates are blended: weights that sum to 1."""

    weights: Tensor
    """(candidates,) float64: how many of the picks each candidate is, over the number of picks."""
    picks: Picks
    """In the order in which they were added; the best prefix of all that were tried."""
    single: int
    """The candidate that is best alone."""
    value: float
    """The metric on the rows that chose, thresholds fitted to them: to choose by, not a result."""
    rows: int
    """How many rows chose: a sample where there are too many entries."""


@dataclass(frozen=True, eq=False)
class NestedTest:
    """A blend against the best single candidate, on rows that chose neither."""

    single: Tensor
    """(repeats * folds,) float64: the metric of the single candidate on each part of the rows; NaN
    where it is not defined."""
    blend: Tensor
    """The same of the blend."""
    difference: float
    """How much better the blend is in the mean: above 0 is better, whatever the metric."""
    low: float
    """Lower end of the 95% interval of the difference."""
    high: float
    """Upper end."""
    chosen: Picks
    """For each part the single candidate that the other parts chose."""
    weights: Tensor
    """(repeats * folds, candidates): for each part the blend that the other parts chose."""
    parts: Tensor
    """(repeats, rows) int64: the part of each row."""
    rows: int
    """How many rows there were to choose from: a sample where there are too many entries."""

    @property
    def passes(self) -> bool:
        """Whether the blend is better beyond the interval."""
        return self.low > 0


def select(
    probabilities: Sequence[Tensor],
    labels: Labels,
    metric: str,
    *,
    picks: int = PICKS,
    families: Sequence[str] | None = None,
    per_family: int = 2,
    seed: int = 0,
) -> Selection:
    """Choose a blend of candidates by their out-of-fold probabilities.

    Of each family the `per_family` candidates that are best alone take part. A metric of label sets
    is taken with the thresholds that make it largest. Unknown labels count nowhere.

    >>> y = Labels.from_lists([[0], [1], [], []], n=2)
    >>> one = torch.tensor([[0.9, 0.1], [0.1, 0.2], [0.1, 0.3], [0.1, 0.1]])
    >>> other = torch.tensor([[0.2, 0.1], [0.1, 0.9], [0.3, 0.1], [0.1, 0.1]])
    >>> select([one, other], y, "f1-micro").weights
    tensor([0.5000, 0.5000], dtype=torch.float64)
    """
    measure = _measure(metric)
    family = _checked(probabilities, labels, measure, picks, families, per_family)
    rows = _Rows(probabilities, labels, measure, [_shuffled(len(labels), seed)], measure.cells)
    greedy = _greedy(lambda taken: rows.gain(taken, [0]), family, picks, per_family)
    if math.isnan(greedy.gain):
        raise ValueError(f"{metric} is not defined on the rows that are to choose a blend")
    weights = _weights(greedy.picks, len(family))
    return Selection(
        weights, greedy.picks, greedy.single, measure.sign * greedy.gain, rows.choosing
    )


def nested(
    probabilities: Sequence[Tensor],
    labels: Labels,
    metric: str,
    *,
    families: Sequence[str] | None = None,
    folds: int = PARTS,
    repeats: int = 10,
    picks: int = PICKS,
    per_family: int = 2,
    seed: int = 0,
) -> NestedTest:
    """Is a blend better than the best single candidate, on rows that chose neither?

    Rows are dealt to parts, several times. For each part the others choose the best single
    candidate, a blend as `select` does, and thresholds for both; the part judges them. The choosing
    rows of the parts overlap, so that their differences are not independent: the variance of the
    mean is taken as (1 / parts + judging rows / choosing rows) times that of the differences
    (Nadeau and Bengio, Inference for the generalization error, 2003).

    >>> y = Labels.from_lists([[0], [1], [], []] * 15, n=2)
    >>> p = [torch.rand(60, 2, generator=torch.Generator().manual_seed(i)) for i in range(2)]
    >>> nested(p, y, "f1-micro").passes
    False
    """
    measure = _measure(metric)
    family = _checked(probabilities, labels, measure, picks, families, per_family)
    check.whole("folds", folds, low=2)
    check.whole("repeats", repeats, low=1)
    if len(labels) < folds:
        raise ValueError(f"{folds} parts need as many rows, got {len(labels)}; ask for fewer")
    count = folds * max(1, min(BLOCKS, len(labels) // (10 * folds)))
    blocks = np.array_split(_shuffled(len(labels), seed), count)
    rows = _Rows(probabilities, labels, measure, blocks, measure.cells // SHARE)
    most = max(1, JUDGED // max(labels.n * count, 1))
    draw = np.random.default_rng([seed, 1])
    parts = torch.empty(repeats, len(labels), dtype=torch.int64)
    figures, chosen, weights = [], [], []
    for repeat in range(repeats):
        dealt = draw.permutation(count) % folds
        for block, part in zip(blocks, dealt.tolist(), strict=True):
            parts[repeat, block] = part
        for part in range(folds):
            others = np.flatnonzero(dealt != part).tolist()
            own = np.concatenate([blocks[i][:most] for i in np.flatnonzero(dealt == part)])
            gain = _on(rows, others)
            greedy = _greedy(gain, family, picks, per_family)
            figures.append(
                [rows.judged(taken, others, own) for taken in ((greedy.single,), greedy.picks)]
            )
            chosen.append(greedy.single)
            weights.append(_weights(greedy.picks, len(family)))
    single, blend = torch.tensor(figures, dtype=torch.float64).T
    difference, low, high = _interval(measure.sign * (blend - single), 1 / (folds - 1))
    table = torch.stack(weights)
    return NestedTest(
        single, blend, difference, low, high, tuple(chosen), table, parts, rows.choosing
    )


def _on(rows: _Rows, blocks: list[int]) -> Callable[[Picks], float]:
    return lambda taken: rows.gain(taken, blocks)


def _interval(difference: Tensor, overlap: float) -> tuple[float, float, float]:
    """Mean of the differences and its 95% interval; NaN where fewer than two are defined."""
    from scipy.stats import t

    each = difference[~difference.isnan()]
    if len(each) < 2:
        return (math.nan,) * 3
    mean = float(each.mean())
    error = math.sqrt((1 / len(each) + overlap) * float(each.var()))
    half = float(t.ppf(0.975, len(each) - 1)) * error
    return mean, mean - half, mean + half


def _checked(
    probabilities: Sequence[Tensor],
    labels: Labels,
    measure: _Measure,
    picks: int,
    families: Sequence[str] | None,
    per_family: int,
) -> list[str]:
    """The family of each candidate."""
    if not len(probabilities):
        raise ValueError("a blend needs candidates, got none")
    for p in probabilities:
        inputs.paired_probabilities(p, labels)
    if measure.metric.takes != "probabilities":
        inputs.hard(labels)
    check.whole("picks", picks, low=1)
    check.whole("per_family", per_family, low=1)
    family = [str(i) for i in range(len(probabilities))] if families is None else [*families]
    if len(family) != len(probabilities):
        raise ValueError(
            f"families must be one per candidate, {len(probabilities)}, got {len(family)}"
        )
    return family


def _shuffled(rows: int, seed: int) -> Array:
    """Any prefix of it is a random sample."""
    return np.random.default_rng([seed, 0]).permutation(rows)


def _weights(picks: Picks, candidates: int) -> Tensor:
    return torch.bincount(torch.tensor(picks), minlength=candidates).double() / len(picks)


def calibrator_of(run: SavedModel) -> Any:
    """The link where there is one, so that it is fitted to nothing; else a pooled Platt map."""
    if run.loss is None or calibrate.linked(run.loss):
        return calibrate.build("link", loss=run.loss)
    part = run.scored("valid")
    return calibrate.build("platt", per="pool", loss=run.loss).fit(part.scores, part.labels)


# ---- greedy selection ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Greedy:
    picks: Picks
    single: int
    gain: float


def _greedy(
    gain: Callable[[Picks], float], family: Sequence[str], picks: int, per_family: int
) -> _Greedy:
    """The best prefix of the picks and the best single candidate; of equally good ones the first.

    A gain that is not defined is worse than any other.
    """
    alone = np.array([gain((i,)) for i in range(len(family))])
    ranked = np.argsort(-np.nan_to_num(alone, nan=-np.inf), kind="stable").tolist()
    names = [family[i] for i in ranked]
    taking = [i for at, i in enumerate(ranked) if names[:at].count(family[i]) < per_family]
    taken: Picks = (ranked[0],)
    best = _Greedy(taken, ranked[0], float(alone[ranked[0]]))
    while len(taken) < picks:
        each = [gain((*taken, i)) for i in taking]
        at = int(np.argmax(np.nan_to_num(each, nan=-np.inf)))
        taken = (*taken, taking[at])
        if each[at] > best.gain:
            best = _Greedy(taken, ranked[0], each[at])
    return best


class _Rows:
    """Candidates on blocks of rows: what a blend is worth to some blocks, and on other rows.

    Of a block a random sample chooses where all rows have too many entries; all rows judge.
    """

    def __init__(
        self,
        probabilities: Sequence[Tensor],
        labels: Labels,
        measure: _Measure,
        blocks: Sequence[Array],
        cells: int,
    ) -> None:
        self.probabilities, self.labels, self.measure = probabilities, labels, measure
        share = min(1.0, cells / max(len(labels) * labels.n, 1))
        samples = [torch.from_numpy(rows[: math.ceil(share * len(rows))]) for rows in blocks]
        self.choosing = sum(map(len, samples))
        self._each = [[p[rows].float().cpu().numpy() for p in probabilities] for rows in samples]
        self._truth = [measure.truth(labels[rows]) for rows in samples]
        self._states: dict[tuple[Picks, int], State] = {}

    def gain(self, picks: Picks, blocks: Sequence[int]) -> float:
        """The metric, larger is better, with the thresholds that are best for these blocks."""
        return self.measure.sign * self.measure.best(self._state(picks, blocks))

    def judged(self, picks: Picks, blocks: Sequence[int], rows: Array) -> float:
        """The metric on other rows, with the thresholds that are best for the blocks."""
        chosen = torch.from_numpy(rows)
        own = _mean({i: self.probabilities[i][chosen].float().cpu().numpy() for i in picks}, picks)
        state = self.measure.state(own, self.measure.truth(self.labels[chosen]))
        return self.measure.judged(self._state(picks, blocks), state)

    def _state(self, picks: Picks, blocks: Sequence[int]) -> State:
        states = [self._state_of(tuple(sorted(picks)), block) for block in blocks]
        total = dict(states[0])
        for state in states[1:]:
            total = {key: total[key] + state[key] for key in total}
        return total

    def _state_of(self, picks: Picks, block: int) -> State:
        known = self._states.get((picks, block))
        if known is not None:
            return known
        mean = _mean(dict(enumerate(self._each[block])), picks)
        state = self.measure.state(mean, self._truth[block])
        if not any(isinstance(part, Kept) for part in state.values()):  # these are large
            self._states[picks, block] = state
        return state


def _mean(each: dict[int, Array], picks: Picks) -> Array:
    total: Array = each[picks[0]] * np.float32(picks.count(picks[0]) / len(picks))
    for i in sorted({*picks} - {picks[0]}):
        total += each[i] * np.float32(picks.count(i) / len(picks))
    return total


# ---- what a metric makes of a blend -------------------------------------------------------------


class _Measure(ABC):
    """A metric with the thresholds that it is best with.

    A state is what some rows contribute; the states of several blocks add up.
    """

    cells = 400_000
    """How many entries `select` chooses by; beyond them a sample of the rows does."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.sign = 1 if metric.higher_is_better else -1

    def truth(self, labels: Labels) -> Any:
        """What `state` wants to know of the labels, what rows count included."""
        return labels

    @abstractmethod
    def state(self, p: Array, truth: Any) -> State:
        """What these rows contribute."""

    @abstractmethod
    def best(self, state: State) -> float:
        """The metric with the thresholds that are best for these rows; NaN if not defined."""

    def judged(self, chosen: State, own: State) -> float:
        """The metric on rows of their own, with the thresholds that were best for others."""
        return self.best(own)


class _Plain(_Measure):
    """A metric of scores or probabilities."""

    def state(self, p: Array, truth: Any) -> State:
        weight = () if truth.row_weights is None else (truth.row_weights,)
        return self.metric.state(torch.from_numpy(p), truth, *weight)

    def best(self, state: State) -> float:
        try:
            return self.metric.result(state).value
        except ValueError:
            return math.nan


class _Entries(_Plain):
    """The mean over known entries, without looking again which are known."""

    def truth(self, labels: Labels) -> Any:
        y, weight = labels.dense(), _each(labels)
        known = ... if labels.known() is None else ~y.isnan()
        return known, y[known], None if weight is None else weight[known]

    def state(self, p: Array, truth: Any) -> State:
        assert isinstance(self.metric, EntryMean)
        known, y, weight = truth
        each = self.metric.entries(torch.from_numpy(p)[known].double(), y.double())
        if weight is None:
            return {"sum": each.sum(), "entries": torch.tensor(each.numel())}
        return {"sum": (weight * each).sum(), "entries": weight.sum()}


class _Pooled(_Measure):
    """F1 with one threshold for all labels, at one of the edges of equal steps of probability.

    `steps` are what the entries of each step, turned on, add to a sum of F1, or to its parts.
    """

    cells = 2_000_000

    def best(self, state: State) -> float:
        return float(self.curve(state).max()) if float(state["known"]) else math.nan

    def judged(self, chosen: State, own: State) -> float:
        if not float(own["known"]):
            return math.nan
        # of equally good thresholds the highest: the first, for the curve starts with nothing on
        return float(self.curve(own)[int(self.curve(chosen).argmax())])

    @abstractmethod
    def curve(self, state: State) -> Array:
        """F1 with nothing on, then with the entries of the highest step, of the two highest..."""


def _each(labels: Labels) -> Tensor | None:
    """(rows, labels) what each entry counts; None where all count alike."""
    return None if labels.row_weights is None else labels.entry_weights


def _falling(steps: Tensor) -> Array:
    """Sums over the 0, 1, 2, ... highest steps."""
    flat = steps.numpy()
    return np.append(0, flat[::-1].cumsum())


class _Micro(_Pooled):
    """F1 of all entries together."""

    def truth(self, labels: Labels) -> Any:
        y, weight = labels.dense().numpy(), _each(labels)
        known = None if labels.known() is None else np.flatnonzero(~np.isnan(y))
        places: dict[str, Any] = {"predicted": known, "hits": np.flatnonzero(y == 1)}
        flat = None if weight is None else weight.numpy().ravel()
        weights = {
            name: None if flat is None else flat[slice(None) if at is None else at]
            for name, at in places.items()
        }
        return places, weights, y.size if known is None else len(known)

    def state(self, p: Array, truth: Any) -> State:
        places, weights, count = truth
        step = _steps(p).ravel()
        state = {
            name: torch.from_numpy(
                np.bincount(step if at is None else step[at], weights[name], minlength=BINS + 1)
            )
            for name, at in places.items()
        }
        return state | {"known": torch.tensor(count)}

    def curve(self, state: State) -> Array:
        hits, predicted = _falling(state["hits"]), _falling(state["predicted"])
        f: Array = 2 * hits / np.maximum(hits[-1] + predicted, 1e-300)
        return f


class _Samples(_Pooled):
    """The mean over rows of each row's F1."""

    def truth(self, labels: Labels) -> Any:
        y, some = labels.dense().numpy(), known_counts(labels, by_class=False) > 0
        weight = labels.row_weights
        if weight is None:
            return y == 1, np.isnan(y), some.sum(), None
        return y == 1, np.isnan(y), (some * weight).sum(), weight.numpy()[:, None]

    def state(self, p: Array, truth: Any) -> State:
        on, unknown, rows, weight = truth
        # unknown entries come last and are never turned on
        key = np.sort(np.where(unknown, 1, -2 * _steps(p) - on), axis=1)
        step, hit = -key // 2, key % 2 == 1
        hit &= key < 1
        size = np.arange(1, key.shape[1] + 1)
        f = 2 * hit.cumsum(1) / (size + on.sum(1, keepdims=True))
        change = np.diff(f, axis=1, prepend=0)
        change = (change if weight is None else change * weight)[key < 1]
        steps = np.bincount(step[key < 1], change, minlength=BINS + 1)
        return {"steps": torch.from_numpy(steps), "known": rows}

    def curve(self, state: State) -> Array:
        mean: Array = _falling(state["steps"]) / max(float(state["known"]), 1e-300)
        return mean


def _steps(p: Array) -> Array:
    """The step that each probability lies in, 0 to BINS."""
    return (p * np.float32(BINS)).astype(np.int16)


class _Macro(_Measure):
    """The mean over classes of each class's F1, with a threshold per class."""

    def state(self, p: Array, truth: Any) -> State:
        return {"kept": Kept(torch.from_numpy(p), truth, truth.row_weights)}

    def best(self, state: State) -> float:
        p, labels, weight = state["kept"].together()
        ranks = positive_ranks(p, labels, by_class=True, weight=weight)
        f = 2 * ranks.on_at_least / (ranks.at_least + ranks.on[ranks.line])
        each = torch.zeros(labels.n, dtype=f.dtype).scatter_reduce(0, ranks.line, f, "amax")
        return float(each[known_counts(labels, by_class=True) > 0].mean())

    def judged(self, chosen: State, own: State) -> float:
        p, labels, _ = own["kept"].together()
        rule = decide.tuned_for("f1-macro").fit(*chosen["kept"].together()[:2])
        try:
            return self.metric(rule(p), labels)
        except ValueError:
            return math.nan


def _measure(metric: str) -> _Measure:
    known = build(metric)
    own: dict[str, Callable[[Metric], _Measure]] = {
        "f1-micro": _Micro,
        "f1-samples": _Samples,
        "f1-macro": _Macro,
    }
    if known.takes != "label sets":
        return _Entries(known) if isinstance(known, EntryMean) else _Plain(known)
    if metric not in own:
        raise ValueError(
            f"a blend of label sets is chosen for {', '.join(own)}, got {metric!r}; any metric of "
            "scores or probabilities will do as well"
        )
    return own[metric](known)
