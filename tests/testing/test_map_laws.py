"""Every law over every map, and a planted bug for every law."""

from dataclasses import dataclass

import pytest
import torch

from labelset import calibrate, losses
from labelset.calibrate.curves import Histogram, Isotonic
from labelset.calibrate.scaling import Platt, Temperature
from labelset.testing import LawBroken
from labelset.testing.calibrator_laws import MAP_LAWS, check_map

WEIGHTED = losses.build("bce", pos_weight=[1.0, 2.0, 5.0], smoothing=0.1)
SOUND = {
    **{name: (name, {}) for name in calibrate.names()},
    **{f"{name} per {per}": (name, {"per": per}) for name in ("temperature", "platt", "vector",
       "isotonic", "histogram") for per in ("label", "pool", "shrunk")},
    **{f"{name} of {loss}": (name, {"loss": loss}) for name in ("temperature", "platt", "isotonic",
       "histogram") for loss in ("spa", "asl", "hill", "wan")},
    "link of spa": ("link", {"loss": "spa"}),
    "link of weighted": ("link", {"loss": WEIGHTED}),
    "platt of weighted": ("platt", {"loss": WEIGHTED}),
    "platt of a sum": ("platt", {"loss": losses.build("spa") + 0.5 * losses.build("focal")}),
    "phi of focal": ("phi", {"loss": "focal"}),
    "histogram by width": ("histogram", {"binning": "width", "bins": 8}),
}  # fmt: skip


def sound(key):
    name, settings = SOUND[key]
    return lambda: calibrate.build(name, **settings)


@pytest.mark.parametrize("law", MAP_LAWS)
@pytest.mark.parametrize("key", SOUND)
def test_every_map_keeps_every_law(key, law):
    check_map(sound(key), laws=[law])


PLAIN = {"kw_only": True, "eq": False}


@dataclass(**PLAIN)
class Overflows(Platt):
    """1 / (1 + exp(-x)) by way of exp(x): NaN once that overflows."""

    def _map(self, u):
        e = torch.exp(self.found("slope") * u + self.found("offset"))
        return e / (1 + e)


@dataclass(**PLAIN)
class ClaimsToRise(Histogram):
    rises = True


@dataclass(**PLAIN)
class MovesByTheBatch(Platt):
    def _map(self, u):
        return super()._map(u - 0.01 * u.mean())


@dataclass(**PLAIN)
class TakesUnknownForOff(Platt):
    def fit(self, scores, labels, **how):
        y = torch.as_tensor(labels)
        return super().fit(torch.nan_to_num(torch.as_tensor(scores)), torch.nan_to_num(y), **how)


@dataclass(**PLAIN)
class TrustsTheFirstRows(Isotonic):
    def _learn(self, u, y):
        return super()._learn(u[:-20], y[:-20])


@dataclass(**PLAIN)
class Remembers(Temperature):
    """Half of what it knew stays."""

    def fit(self, scores, labels, **how):
        old = self.learnt.get("slope")
        super().fit(scores, labels, **how)
        if old is not None:
            self.learnt["slope"] = (self.learnt["slope"] + old) / 2
        return self


@dataclass(**PLAIN)
class RoundsInJson(Platt):
    def as_json(self):
        saved = super().as_json()
        for part in saved["learnt"].values():
            part["values"] = [round(value, 6) for value in part["values"]]
        return saved


@dataclass(**PLAIN)
class DoublesTheSlope(Platt):
    def _learn(self, u, y):
        learnt = super()._learn(u, y)
        return learnt | {"slope": 2 * learnt["slope"]}


@dataclass(**PLAIN)
class LearnsNothing(Platt):
    def _learn(self, u, y):
        learnt = super()._learn(u, y)
        return {"slope": learnt["slope"] * 0 + 1, "offset": learnt["offset"] * 0}


@dataclass(**PLAIN)
class TooHigh(Platt):
    def _learn(self, u, y):
        learnt = super()._learn(u, y)
        return learnt | {"offset": learnt["offset"] + 0.15}


@dataclass(**PLAIN)
class OneLabelTooLow(Platt):
    def _learn(self, u, y):
        learnt = super()._learn(u, y)
        learnt["offset"][1] -= 0.15
        return learnt


@dataclass(**PLAIN)
class StuckTemperature(Temperature):
    def _learn(self, u, y):
        learnt = super()._learn(u, y)
        return learnt | {"slope": torch.ones_like(learnt["slope"])}


@dataclass(**PLAIN)
class ClaimsToShift(Temperature):
    shifts = True


@dataclass(**PLAIN)
class AlwaysSingle(Platt):
    def __call__(self, scores):
        return super().__call__(scores).float()


@dataclass(**PLAIN)
class RoundsHalves(Platt):
    def __call__(self, scores):
        p = super().__call__(scores)
        return p.bfloat16().float() if scores.dtype == torch.bfloat16 else p


@dataclass(**PLAIN)
class ReadsUnknownScores(Platt):
    """Scores are centred by all of them, known or not."""

    def _learn(self, u, y):
        return super()._learn(u - self.given.nan_to_num(0.0, 9.0, -9.0).mean(), y)

    def fit(self, scores, labels, **how):
        self.given = torch.as_tensor(scores).double()
        return super().fit(scores, labels, **how)


@dataclass(**PLAIN)
class GuessesBeforeFit(Platt):
    def found(self, name):
        return self.learnt.get(name, torch.ones(1, dtype=torch.float64))


@dataclass(**PLAIN)
class LosesItselfOnError(Platt):
    def fit(self, scores, labels, **how):
        self.learnt = {"slope": torch.ones(1).double(), "offset": torch.zeros(1).double()}
        return super().fit(scores, labels, **how)


PLANTED = [
    ("bounded", Overflows),
    ("rising", ClaimsToRise),
    ("entrywise", MovesByTheBatch),
    ("unknown", TakesUnknownForOff),
    ("unknown", ReadsUnknownScores),
    ("rows", TrustsTheFirstRows),
    ("refit", Remembers),
    ("round_trip", RoundsInJson),
    ("honest", DoublesTheSlope),
    ("corrects", LearnsNothing),
    ("corrects", TooHigh),
    ("corrects", OneLabelTooLow),
    ("corrects", StuckTemperature),
    ("corrects", ClaimsToShift),
    ("precision", AlwaysSingle),
    ("precision", RoundsHalves),
    ("refusals", GuessesBeforeFit),
    ("refusals", LosesItselfOnError),
]


def test_every_law_has_a_planted_bug():
    assert {law for law, _ in PLANTED} == set(MAP_LAWS)


@pytest.mark.parametrize(("law", "bug"), PLANTED)
def test_the_law_catches_its_bug(law, bug):
    with pytest.raises(LawBroken, match=f"breaks the law '{law}'"):
        check_map(bug, laws=[law])


def test_a_map_of_ones_own_passes():
    """Written from scratch: the frequency of each label, whatever the score."""

    @dataclass(**PLAIN)
    class Prior(calibrate.ProbMap):
        def _learn(self, u, y):
            return {"p": y.nanmean(0)}

        def _map(self, u):
            return self.found("p").expand_as(u)

    check_map(Prior, laws=[law for law in MAP_LAWS if law != "honest"])


def test_wrong_law_names_are_told():
    with pytest.raises(ValueError, match="did you mean 'rising'"):
        check_map(sound("platt"), laws=["risin"])


def test_what_maps_claim_to_correct():
    claims = {name: sound(name)() for name in calibrate.names()}
    assert {n for n, m in claims.items() if m.scales} == set(claims) - {"link", "phi"}
    assert {n for n, m in claims.items() if m.shifts} == set(claims) - {
        "link",
        "phi",
        "temperature",
    }
