"""Does another calibrator or rule do harm? Found by cross-validation before one is saved.

The rows that choose (validation rows, or all by out-of-fold scores; never test rows) are judged in
folds: for each, calibrator and rule are fitted on the others, with their own settings, those in
force and those that would take their place. So none is judged by rows that it was fitted to.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from labelset import decide
from labelset.calibrate import ProbMap
from labelset.decide import Rule
from labelset.labels import Labels
from labelset.metrics import Metric, build
from labelset.model.folder import SavedModel, Split
from labelset.model.predictor import Predictor
from labelset.terminal import table

MAIN = ("f1-micro", "f1-macro", "subset-accuracy")
"""Judged besides the metric that the run is for."""
FOLDS = 5
ENTRIES = 4_000_000  # judged; of more a sample of the rows
OWN, OTHER = 0.03, 0.10  # shares of its value that a metric may lose: the run's own, the others
LEAST = 0.01  # what is lost without being called sharp, however small the metric is
NOISE = 0.1  # what may be lost where so few rows judge that it may be chance


def purpose(run: SavedModel) -> str:
    """The metric that a run is for: the one it remembers, else its rule's, else micro-F1."""
    metric = str(run.about.get("optimise") or getattr(run.rule, "metric", None))
    try:
        build(metric)
    except ValueError:  # none, or one that rules alone know
        return "f1-micro"
    return metric


def learns(part: ProbMap | Rule) -> bool:
    """Whether there is anything to fit; a budget may be left unfitted."""
    return part.needs_fit or bool(part.learnt)


@dataclass(frozen=True)
class Change:
    """The main metrics of what is in force, and of what would take its place."""

    purpose: str
    """The metric that the run is for."""
    before: dict[str, float]
    after: dict[str, float]
    error: dict[str, float]
    """Half the 95% interval of the difference, by leaving out each fold in turn."""

    @property
    def falls(self) -> list[str]:
        """Sharp ones, the worst first: `f1-micro 0.869 -> 0.474`."""
        lost = {name: self._lost(name) for name in self.before}
        worst = sorted((name for name, share in lost.items() if share > 1), key=lambda n: -lost[n])
        return [f"{name} {self.before[name]:.3f} -> {self.after[name]:.3f}" for name in worst]

    def _lost(self, name: str) -> float:
        """What a metric loses, in units of what it may lose."""
        own, lost = {self.purpose, self.decides_for}, self._loss(name)
        if name not in own:  # no fall where what decisions are for gains as much
            lost -= max(0.0, -self._loss(self.decides_for))
        limit = max(LEAST, abs(self.before[name]) * (OWN if name in own else OTHER))
        return lost / max(limit, min(self.error[name], NOISE))

    def __str__(self) -> str:
        rows = [[name, f"{v:.4f}", f"{self.after[name]:.4f}"] for name, v in self.before.items()]
        return table([["by cross-validation", "before", "after"], *rows])

    def as_json(self) -> dict[str, Any]:
        """Everything, as plain data; None for what is not defined."""
        sides = {"before": self.before, "after": self.after}
        finite = {
            side: {name: v if math.isfinite(v) else None for name, v in values.items()}
            for side, values in sides.items()
        }
        return {"purpose": self.purpose, **finite, "falls": self.falls}

    @property
    def decides_for(self) -> str:
        """What its decisions are for: macro F1 where its own metric is not one of theirs."""
        return self.purpose if self.purpose in decide.TUNED else "f1-macro"

    def _loss(self, name: str) -> float:
        """By how much a metric gets worse; 0 where it is not defined, or infinite as before."""
        rise = self.after[name] - self.before[name]
        worse = -rise if build(name).higher_is_better else rise
        return 0.0 if math.isnan(worse) else worse

    def refuse(self, verb: str) -> None:
        """ValueError where a metric would fall sharply."""
        if self.falls:
            raise ValueError(
                f"{verb} would make the run worse, by cross-validation: {', '.join(self.falls)}; "
                "nothing was saved; --force saves it all the same"
            )


class Changes:
    """What other calibrators and rules would change in a run.

    >>> y = [[1, 0], [0, 1]] * 50
    >>> run = SavedModel(["a", "b"], {"valid": (y, 4 * torch.tensor(y) - 2.0)}, loss="bce")
    >>> Changes(run).to(run.calibrator, decide.build("fixed", threshold=0.1)).falls
    ['f1-micro 1.000 -> 0.667', 'subset-accuracy 1.000 -> 0.000', 'f1-macro 1.000 -> 0.667']
    """

    def __init__(self, run: SavedModel, on: str = "valid") -> None:
        """`on`: the rows that judge where there are no validation rows."""
        self.run, self.purpose = run, purpose(run)
        self.on, self.part = "", Split(Labels.from_lists([], n=len(run.names)))
        for name in (on, "valid"):
            part = run.splits.get(name)
            if name != "test" and part is not None and part.scores is not None:
                self.on, self.part = name, part.sample(ENTRIES)

    def to(
        self, calibrator: ProbMap | None, rule: Rule | None, kept: Sequence[object] = ()
    ) -> Change:
        """With another calibrator, rule, or both; those of `kept` are judged as they are, such as
        a rule that was given, or fitted to other rows."""
        before, after = self._before, self._judged(calibrator, rule, kept)
        error = {name: _error(before[name], after[name]) for name in before}
        whole = [{name: values[0] for name, values in each.items()} for each in (before, after)]
        return Change(self.purpose, whole[0], whole[1], error)

    def to_calibrator(
        self, calibrator: ProbMap, kept: Sequence[object] = ()
    ) -> tuple[Rule | None, Change]:
        """With another calibrator and the rule for its probabilities: by the settings of the one
        in force, or, where that would do harm, the one for the metric that the run is for.

        The rule still has to be fitted to all rows.
        """
        rule, change = self.run.rule, self.to(calibrator, self.run.rule, kept)
        if change.falls:
            rule = decide.tuned_for(self.purpose)
            change = self.to(calibrator, rule, kept)
        return rule, change

    @cached_property
    def _before(self) -> dict[str, list[float]]:
        return self._judged(self.run.calibrator, self.run.rule, ())

    def _judged(
        self, calibrator: ProbMap | None, rule: Rule | None, kept: Sequence[object]
    ) -> dict[str, list[float]]:
        """The metrics of rows that calibrator and rule were not fitted to: of all of them, and of
        all but each fold."""
        if len(self.part) < FOLDS:
            return {}
        labels, order = self.part.labels, []
        p: list[Tensor] = []
        sets: list[Labels] = []
        fold = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0)) % FOLDS
        for number in range(FOLDS):
            judged = (fold == number).nonzero().flatten()
            taught = (fold != number).nonzero().flatten()
            order.append(judged)
            found = self._in_fold(calibrator, rule, kept, judged, taught)
            p.append(found[0])
            sets.append(found[1])
        rows = torch.cat(order)
        given: dict[str, Any] = {"probabilities": torch.cat(p), "label sets": Labels.stack(sets)}
        truth, without = labels[rows], [(fold[rows] != k).nonzero().flatten() for k in range(FOLDS)]
        return {
            name: [_value(metric, given[metric.takes], truth)]
            + [_value(metric, given[metric.takes][some], truth[some]) for some in without]
            for name in dict.fromkeys((self.purpose, *MAIN))
            if (metric := build(name)).takes in given  # rankings are by scores, which stay
        }

    def _in_fold(
        self,
        calibrator: ProbMap | None,
        rule: Rule | None,
        kept: Sequence[object],
        judged: Tensor,
        taught: Tensor,
    ) -> tuple[Tensor, Labels]:
        v, labels = self.part.known_scores, self.part.labels[taught]
        predictor = Predictor.of(self.run.loss, calibrator, rule).or_sigmoid()
        own = predictor.calibrator
        if own is not None and _learns(own, kept):
            try:
                own = copy.copy(own).fit(v[taught], labels, folds=0)
            except ValueError:  # the other folds have nothing on, or nothing off: as it is
                own = predictor.calibrator
        assert own is not None
        decision = predictor.rule
        if _learns(decision, kept):
            decision = copy.copy(decision).fit(own(v[taught]), labels)
        p = own(v[judged]).cpu()
        return p, decision(p)


def _value(metric: Metric, given: Any, truth: Labels) -> float:
    """NaN where it is not defined for these labels."""
    try:
        return float(metric(given, truth))
    except ValueError:
        return math.nan


def _error(before: list[float], after: list[float]) -> float:
    """Half its 95% interval (t, of five folds), by the jackknife; 0 where it is not known."""
    each = torch.tensor(after[1:]) - torch.tensor(before[1:])
    error = 2.78 * float(((each - each.mean()).square().sum() * (FOLDS - 1) / FOLDS).sqrt())
    return error if math.isfinite(error) else 0.0


def _learns(part: Any, kept: Sequence[object]) -> bool:
    """Whether it is fitted again: it learns, and is to be judged by its settings."""
    return learns(part) and not any(part is one for one in kept)
