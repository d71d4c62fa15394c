"""Every metric keeps the laws, and every law catches a planted bug."""

from dataclasses import replace

import pytest
import torch

from labelset.metrics import Kept, Metric, Result, build, catalog, positive_ranks
from labelset.metrics.calibration import ACE, Brier
from labelset.metrics.counts import F1Macro, Hamming
from labelset.metrics.ranking import MAPClass, MAPSample, average_precision
from labelset.testing import METRIC_LAWS, LawBroken, check_metric

CASES = [(name, kw) for name, cls in catalog.classes.items() for kw in cls.examples]


@pytest.mark.parametrize("law", METRIC_LAWS)
@pytest.mark.parametrize(("name", "kw"), CASES, ids=str)
def test_every_metric_keeps_every_law(name, kw, law):
    check_metric(build(name, **kw), [law])


class LastBatch(Hamming):
    def state(self, given, labels):
        return {**super().state(given, labels), "kept": Kept(labels.dense(), labels)}

    def result(self, state):
        part, *_ = state["kept"].parts[-1]
        return Result(float(part.nan_to_num(0.0).mean()))


class LosesCount(MAPSample):
    """How many rows were left out is known for whole arrays only."""

    def result(self, state):
        return Result(super().result(state).value)

    def report(self, given, labels, sample_weight=None):
        return Result(super().report(given, labels).value, left_out=int(state_of(self, labels)))


def state_of(metric, labels):
    return metric.state(*metric.checked(labels.nan_to_num(0.0), labels))["left_out"]


class LastEach(F1Macro):
    """The value is right, those of the classes are of the last batch."""

    def state(self, given, labels):
        return {**super().state(given, labels), "kept": Kept(labels.dense(), labels)}

    def result(self, state):
        whole = super().result(state)
        return Result(whole.value, state["kept"].parts[-1][0][0].double(), whole.left_out)


class Squared(MAPClass):
    def result(self, state):
        whole = super().result(state)
        return Result(whole.value**2, whole.each, whole.left_out)


class EmptyClassIsZero(MAPClass):
    def result(self, state):
        each = super().result(state).each
        return Result(float(each.nan_to_num(0.0).mean()), each)


class NothingLeftOut(MAPSample):
    def result(self, state):
        return Result(super().result(state).value)


class HalfWrong(Hamming):
    def result(self, state):
        return Result(super().result(state).value / 2)


class HalfGap(ACE):
    def result(self, state):
        whole = super().result(state)
        return Result(whole.value / 2, left_out=whole.left_out)


class Absolute(Brier):
    def entries(self, p, y):
        return (p - y).abs()


class HarmonicOfMeans(F1Macro):
    """F1 of mean precision and mean recall."""

    def result(self, state):
        tp, fp, fn = state["counts"][:, state["known"] > 0].double()
        p, r = (tp / (tp + fp).clamp(min=1)).mean(), (tp / (tp + fn).clamp(min=1)).mean()
        return Result(float(2 * p * r / (p + r)), left_out=int((state["known"] == 0).sum()))


class FirstLabelFirst(MAPSample):
    def rows(self, given, labels):
        return super().rows(given + 0.3 * torch.arange(labels.n), labels)


class UnknownIsOff(Hamming):
    def checked(self, given, labels):
        given, y = super().checked(given, labels)
        return given, type(y).from_dense(y.dense().nan_to_num(0.0))


class InHalf(MAPSample):
    def checked(self, given, labels):
        given = torch.as_tensor(given)
        if given.dtype == torch.bfloat16:
            given = given * torch.linspace(1, -1, len(given))[:, None]
        return super().checked(given, labels)


class AddsOne(F1Macro):
    def result(self, state):
        return Result(1.1 * super().result(state).value)


class CountsWrong(Hamming):
    """Right entries, called wrong ones."""

    def result(self, state):
        return Result(1 - super().result(state).value)


class WeightOfOne(Hamming):
    """Weights are asked for and not used."""

    def state(self, given, labels, weight=None):
        return super().state(given, labels)


class WeightOfTheLine(MAPClass):
    """Positives weigh, what is ranked above them does not."""

    def each(self, given, labels, weight):
        found = positive_ranks(given, labels, by_class=True)
        if weight is None:
            return average_precision(found)
        return average_precision(
            replace(
                positive_ranks(given, labels, by_class=True, weight=weight),
                at_least=found.at_least,
                on_at_least=found.on_at_least,
            )
        )


class LooksAtScores(MAPSample):
    def rows(self, given, labels):
        return super().rows(given, labels) + 1e-3 * given.mean(1)


class NeverRefuses(MAPSample):
    def __call__(self, given, labels, sample_weight=None):
        try:
            return super().__call__(given, labels, sample_weight)
        except ValueError:
            return float("nan")


PLANTED = [
    *(("streams", bug) for bug in (LastBatch, LosesCount, LastEach)),
    *(("worked", bug) for bug in (Squared, EmptyClassIsZero, NothingLeftOut, HalfWrong)),
    *(("worked", bug) for bug in (HalfGap, Absolute, HarmonicOfMeans)),
    ("orders", FirstLabelFirst),
    ("unknown", UnknownIsOff),
    ("containers", InHalf),
    ("perfect", AddsOne),
    ("improves", CountsWrong),
    *(("weights", bug) for bug in (WeightOfOne, WeightOfTheLine)),
    ("order_only", LooksAtScores),
    ("refuses", NeverRefuses),
]


def test_every_law_has_a_planted_bug():
    assert {law for law, _ in PLANTED} == set(METRIC_LAWS)


@pytest.mark.parametrize(("law", "bug"), PLANTED, ids=lambda x: getattr(x, "__name__", x))
def test_a_law_catches_its_bug(law, bug):
    assert issubclass(bug, Metric)
    with pytest.raises(LawBroken, match=law):
        check_metric(bug(), [law])


def test_every_metric_of_the_catalogue_states_cases_worked_by_hand():
    assert [name for name, cls in catalog.classes.items() if not cls.worked] == []


def test_a_metric_of_ones_own_need_not_state_any():
    class Own(Hamming):
        worked = ()

    check_metric(Own())
