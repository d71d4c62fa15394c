"""Every metric keeps the laws, and every law catches a planted bug."""

import pytest
import torch

from labelset.metrics import Metric, Result, build, catalog
from labelset.metrics._stream import Kept
from labelset.metrics.counts import F1Macro, Hamming
from labelset.metrics.ranking import MAPSample
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
        part, _ = state["kept"].parts[-1]
        return Result(float(part.nan_to_num(0.0).mean()))


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


class LooksAtScores(MAPSample):
    def rows(self, given, labels):
        return super().rows(given, labels) + 1e-3 * given.mean(1)


class NeverRefuses(MAPSample):
    def __call__(self, given, labels):
        try:
            return super().__call__(given, labels)
        except ValueError:
            return float("nan")


PLANTED = {
    "streams": LastBatch,
    "orders": FirstLabelFirst,
    "unknown": UnknownIsOff,
    "containers": InHalf,
    "perfect": AddsOne,
    "improves": CountsWrong,
    "order_only": LooksAtScores,
    "refuses": NeverRefuses,
}


def test_every_law_has_a_planted_bug():
    assert set(PLANTED) == set(METRIC_LAWS)


@pytest.mark.parametrize(("law", "bug"), PLANTED.items(), ids=lambda x: getattr(x, "__name__", x))
def test_a_law_catches_its_bug(law, bug):
    assert issubclass(bug, Metric)
    with pytest.raises(LawBroken, match=law):
        check_metric(bug(), [law])
