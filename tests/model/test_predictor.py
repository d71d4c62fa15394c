"""What scores mean, by calibrator and rule."""

import pytest
import torch

from labelset import NoLink, calibrate, decide, losses, metrics
from labelset.model import Predictor

V = torch.tensor([[2.0, -1.0, 0.2], [-0.3, 0.4, 1.5], [0.1, -2.0, -0.4], [1.0, 0.5, -1.0]])
Y = [[1, 0, 0], [0, 1, 1], [1, 0, 0], [1, 0, 0]]


def test_probabilities_are_those_of_calibrator_then_link_then_sigmoid():
    platt = calibrate.build("platt").fit(V, Y)
    assert torch.equal(Predictor.of("spa", platt).probabilities(V), platt(V))
    linked = losses.build("spa").link(V.double()).float()
    assert torch.equal(Predictor.of("spa").probabilities(V), linked)
    assert torch.equal(Predictor.of().probabilities(V), torch.sigmoid(V.double()).float())


def test_without_a_link_there_are_none_unless_the_sigmoid_is_asked_for():
    made = Predictor.of("hill", remedy="; do this")
    with pytest.raises(NoLink, match="; do this"):
        made.probabilities(V)
    with pytest.raises(NoLink, match="; do this"):
        made.require(metrics.build("ece"))
    made.require(metrics.build("map@class"))
    shown = made.or_sigmoid()
    assert torch.equal(shown.probabilities(V), torch.sigmoid(V.double()).float())
    assert shown.or_sigmoid() is shown


def test_sets_are_decided_by_the_rule_or_at_a_half():
    p = Predictor.of("bce").probabilities(V)
    rule = decide.build("per-class").fit(p, Y)
    assert Predictor.of("bce", rule=rule).sets(V) == rule(p)
    assert Predictor.of("bce").sets(V) == decide.build("fixed", threshold=0.5)(p)
    assert Predictor.of("bce", rule="expected-f1").sets(V) == decide.build("expected-f1")(p)


def test_metrics_get_what_they_take():
    made = Predictor.of("bce")
    named = made.metrics(["map@class", "ece", "f1-micro"])
    due = {"map@class": V, "ece": made.probabilities(V), "f1-micro": made.sets(V)}
    for name, metric in named.items():
        assert metric(made.metric_input(metric, V), Y) == metric(due[name], Y)
    with pytest.raises(ValueError, match="called 'ece'"):
        made.metrics(["ece", "ece"])
    with pytest.raises(ValueError, match="at least one"):
        made.metrics([])
    with pytest.raises(TypeError, match="list of names"):
        made.metrics("ece")


def test_json_gives_the_same_predictor_and_the_digest_tells_others_apart():
    platt = calibrate.build("platt", loss="spa").fit(V, Y, folds=0)
    rule = decide.build("per-class").fit(platt(V), Y)
    every = [
        Predictor.of("spa"),
        Predictor.of("bce"),
        Predictor.of("hill"),
        Predictor.of("spa", platt),
        Predictor.of("spa", platt, rule),
        Predictor.of("spa", None, "expected-f1"),
    ]
    assert len({made.digest() for made in every}) == len(every)
    for made in every:
        again = Predictor.from_json(made.as_json())
        assert again.digest() == made.digest()
        assert again.lacking == made.lacking
        if made.calibrator is not None:
            assert again.sets(V) == made.sets(V)
    with pytest.raises(ValueError, match="calibrator, rule and lacking"):
        Predictor.from_json({"rule": None})
