"""Every law of rules catches a planted bug, and a sound rule of one's own passes them all."""

from dataclasses import dataclass

import pytest
import torch

from labelset import Labels
from labelset.decide import Rule, build, names
from labelset.decide.expected_f1 import ExpectedF1
from labelset.decide.thresholds import Averaging, Cuts, Fixed, Global, PerClass
from labelset.decide.top_k import TopK
from labelset.testing import LawBroken
from labelset.testing.rule_laws import RULE_LAWS, WORKED, check_rule

MADE = {"kw_only": True, "eq": False}


@dataclass(**MADE)
class Mean(Rule):
    """A sound rule of a user's own: on where p is above the mean of what was positive."""

    name = "mean"

    def learn(self, p, on, known):
        return {"mean": p[on].sort().values.mean()}

    def decide(self, p):
        return p >= self.found("mean")


class Soft(TopK):
    def __call__(self, probs):
        y = super().__call__(probs)
        return Labels(y.indptr, y.indices, y.n, torch.full((len(y.indices),), 0.5))


class Tensors(TopK):
    def __call__(self, probs):
        return super().__call__(probs).dense()


class FirstRowMissing(TopK):
    def __call__(self, probs):
        return super().__call__(probs)[1:]


class Unsorted(TopK):
    """Label numbers by falling probability, not ascending."""

    def __call__(self, probs):
        order = torch.topk(torch.as_tensor(probs).double(), self.k, dim=1).indices
        indptr = torch.arange(0, order.numel() + 1, self.k)
        return Labels(indptr, order.flatten().int(), probs.shape[1])


class Random(Fixed):
    def decide(self, p):
        return p + 0.1 * torch.rand(p.shape) >= self.thresholds


class Spoils(Fixed):
    """Works in place on what it was given."""

    def fit(self, probs, labels):
        super().fit(probs, labels)
        probs[0, 0] = 0.5
        return self


class RandomFit(Averaging):
    def learn(self, p, on, known):
        return {"thresholds": torch.rand((), dtype=torch.float64)}


class RelativeToBatch(Fixed):
    """Divides by the largest probability of the batch."""

    def decide(self, p):
        return p / p.max() >= self.thresholds if p.numel() else p > 1


class RowNumber(Fixed):
    def decide(self, p):
        return p >= self.thresholds + 0.01 * torch.arange(len(p))[:, None]


class FirstRows(Averaging):
    """Learns from the first half only."""

    def learn(self, p, on, known):
        half = len(p) // 2
        return super().learn(p[:half], on[:half], known[:half])


class Band(Fixed):
    """Off again when all but certain."""

    def decide(self, p):
        return (p >= self.thresholds) & (p < 0.95)


class LeastProbable(TopK):
    def decide(self, p):
        return super().decide(1 - p)


class UnknownAreOff(Global):
    def fit(self, probs, labels):
        y = Labels.from_dense(labels).dense().nan_to_num(0.0)
        return super().fit(probs, y)


class CountsUnknown(Averaging):
    """Rows of which nothing is known bring a threshold of 0."""

    def learn(self, p, on, known):
        mean = super().learn(p, on, known)["thresholds"]
        return {"thresholds": mean * known.any(1).double().mean()}


class ReadsUnknown(Global):
    """Multiplies what is unknown by 0: NaN stays NaN."""

    def fit(self, probs, labels):
        known = ~Labels.from_dense(labels).dense().isnan()
        super().fit(probs, labels)
        self.learnt["seen"] = (torch.as_tensor(probs) * known).sum()
        return self


class ForgetsLearnt(Global):
    def as_json(self):
        return {**super().as_json(), "learnt": {}}


class Rounds(Global):
    """Saves two digits."""

    def as_json(self):
        saved = super().as_json()
        for part in saved["learnt"].values():
            part["values"] = round(part["values"], 2)
        return saved


class NeverSays(Global):
    """Takes a half before it was fitted."""

    def found(self, name):
        return self.learnt.get(name, torch.tensor(0.5, dtype=torch.float64))


class NeedsFit(Fixed):
    """Says that it needs no fit, and does."""

    def decide(self, p):
        return p >= self.found("thresholds")

    def learn(self, p, on, known):
        return {"thresholds": p.mean()}


class ReturnsNothing(Global):
    def fit(self, probs, labels):
        super().fit(probs, labels)


class InFloat32(Global):
    """Compares with another threshold in float32."""

    def __call__(self, probs):
        p = torch.as_tensor(probs)
        low = p >= (self.found("thresholds") * (1 if p.dtype == torch.float64 else 1.05)).to(p)
        return Labels.from_dense(low)


class FitsInFloat32(Averaging):
    def fit(self, probs, labels):
        super().fit(probs, labels)
        if probs.dtype == torch.float32:
            self.learnt["thresholds"] = self.learnt["thresholds"].float().double()
        return self


class Grid(Global):
    """The best of ten thresholds, not of all."""

    def learn(self, p, on, known):
        y = on.double().masked_fill(~known, torch.nan)
        grid = [i / 10 for i in range(11)]
        best = max(grid, key=lambda t: self.score(build("fixed", threshold=t)(p), y))
        return {"thresholds": torch.tensor(best, dtype=torch.float64)}


class SplitsTies(PerClass):
    """Cuts through equal probabilities: the best F1 of an order that no threshold gives."""

    def learn(self, p, on, known):
        noise = torch.rand(p.shape, generator=torch.Generator().manual_seed(0)).double()
        return super().learn((p + 1e-9 * noise * on).clamp(max=1), on, known)


class WrongWay(PerClass):
    """Takes the worst cut."""

    def learn(self, p, on, known):
        return super().learn(p, ~on & known, known)


class AllAlike(PerClass):
    """The global threshold for every label."""

    def learn(self, p, on, known):
        learnt = super().learn(p, on, known)
        return learnt | {"thresholds": learnt["pooled"].repeat(p.shape[1])}


class FirstIsHalf(PerClass):
    def learn(self, p, on, known):
        learnt = super().learn(p, on, known)
        learnt["thresholds"][0] = 0.5
        return learnt


class MoreThanHalf(ExpectedF1):
    def decide(self, p):
        return p >= 0.5


class Boasts(ExpectedF1):
    def expected(self, probs):
        return super().expected(probs) + 0.01


class HalfTheMean(Averaging):
    def learn(self, p, on, known):
        return {"thresholds": super().learn(p, on, known)["thresholds"] / 2}


class OneMore(TopK):
    def decide(self, p):
        return TopK(k=min(self.k + 1, p.shape[1])).decide(p)


class OwnCases(Mean):
    """States that 0.8 is the mean of 0.4 and 0.8."""

    worked = ({"fit": ([[0.4, 0.8]], [[1, 1]]), "given": [[0.7, 0.9]], "sets": [[0, 1]]},)


class Lenient(Fixed):
    """Takes anything for a probability."""

    def __call__(self, probs):
        return super().__call__(torch.as_tensor(probs).nan_to_num(0.0).clamp(0, 1))


class LenientFit(Averaging):
    def fit(self, probs, labels):
        return super().fit(torch.as_tensor(probs).clamp(0, 1), labels)


class Hardens(Global):
    """Takes soft labels for off."""

    def fit(self, probs, labels):
        y = Labels.from_dense(labels).dense()
        return super().fit(probs, torch.where(y.isnan(), y, (y == 1).float()))


PLANTED = {
    "shape": [
        *(lambda: Soft(k=2), lambda: Tensors(k=2), lambda: FirstRowMissing(k=2)),
        lambda: Unsorted(k=3),
    ],
    "deterministic": [Random, Spoils, RandomFit],
    "rows": [RelativeToBatch, RowNumber, FirstRows],
    "monotone": [Band, lambda: LeastProbable(k=2)],
    "unknown": [UnknownAreOff, CountsUnknown, ReadsUnknown],
    "round_trip": [ForgetsLearnt, Rounds],
    "not_fitted": [NeverSays, NeedsFit, ReturnsNothing],
    "precision": [InFloat32, FitsInFloat32],
    "optimal": [
        *(Grid, SplitsTies, WrongWay, AllAlike, FirstIsHalf),
        lambda: AllAlike(metric="f1-micro"),
        lambda: FirstIsHalf(metric="hamming"),
    ],
    "expectation": [MoreThanHalf, Boasts, lambda: MoreThanHalf(empty=1.0)],
    "worked": [HalfTheMean, lambda: OneMore(k=2), OwnCases],
    "refuses": [Lenient, LenientFit, Hardens],
}


def test_every_law_has_a_planted_bug():
    assert set(PLANTED) == set(RULE_LAWS)


@pytest.mark.parametrize(
    ("law", "make"), [(law, make) for law, each in PLANTED.items() for make in each]
)
def test_laws_catch_planted_bugs(law, make):
    with pytest.raises(LawBroken, match=f"breaks the law '{law}'"):
        check_rule(make, laws=[law])


def test_a_sound_rule_of_ones_own_passes():
    check_rule(Mean)


def test_every_rule_of_the_catalogue_has_cases_worked_by_hand():
    assert sorted(WORKED) == names()
    assert all(WORKED.values())


def test_missing_cut_points_are_caught(monkeypatch):
    """The cut points themselves: without the low ones the optimum is missed."""
    whole = Cuts.of.__func__

    def fewer(cls, ranked):
        cuts = whole(cls, ranked)
        keep = cuts.threshold > 0.4
        keep[cuts.start] = True
        parts = {f: getattr(cuts, f)[keep] for f in ("label", "threshold", "on", "hits")}
        start = (keep.cumsum() - 1)[cuts.start]
        return Cuts(**parts, start=start, order=cuts.order, positive=cuts.positive)

    monkeypatch.setattr(Cuts, "of", classmethod(fewer))
    with pytest.raises(LawBroken, match="'optimal'"):
        check_rule(PerClass, laws=["optimal"])


def test_wrong_law_names_are_told():
    with pytest.raises(ValueError, match="did you mean 'monotone'"):
        check_rule(Global, laws=["monoton"])
