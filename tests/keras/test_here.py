"""Losses and links for Keras in this process: what they refuse, and losses of one's own."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

import labelset.keras as lk
from labelset import NoLink, losses
from labelset.losses import Separable


@dataclass(frozen=True, kw_only=True, eq=False)
class Own(Separable):
    """Neither slopes nor link are stated: they are derived."""

    def pos(self, v):
        return torch.nn.functional.softplus(-2 * v).pow(1.5)

    def neg(self, v):
        return torch.nn.functional.softplus(v - 1)


def numbers(t):
    return np.array(t.tolist() if hasattr(t, "tolist") else t)


def test_a_loss_and_a_link_of_ones_own():
    v = np.array([[-100.0, -3.0, 0.0, 2.0, 100.0]], dtype="float32")
    y = np.array([[1.0, 0.0, 0.3, np.nan, 0.0]], dtype="float32")
    due = Own().eager(torch.from_numpy(v).double(), torch.from_numpy(y))
    assert float(lk.of(Own())(y, v)) == pytest.approx(float(due), rel=1e-6)
    linked = numbers(lk.Link(Own())(v))
    assert np.allclose(linked, Own().link(torch.from_numpy(v).double()).numpy(), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", ["asl", "bce", "focal", "spa"])
def test_links_of_infinite_scores(name, dtype):
    v = np.array([[-np.inf, np.inf]], dtype=dtype)
    due = losses.build(name).link(torch.from_numpy(v)).numpy()
    assert np.allclose(numbers(lk.link(name)(v)), due, atol=1e-3 if dtype == "float16" else 1e-6)


def test_a_loss_that_no_formula_is_known_of():
    @dataclass(frozen=True, kw_only=True, eq=False)
    class Odd(Own):
        def neg(self, v):
            return torch.erf(v)

    with pytest.raises(TypeError, match="cannot be carried over"):
        lk.of(Odd())(np.zeros((1, 2)), np.zeros((1, 2)))


def test_sample_weights_weigh_rows():
    y, v = np.array([[1.0, np.nan], [0.0, 1.0]]), np.array([[0.5, 0.0], [1.0, 2.0]])
    each = numbers(lk.build("bce", reduction="none")(y, v))
    got = float(lk.build("bce")(y, v, np.array([2.0, 1.0])))
    assert got == pytest.approx((2 * each[0].sum() + each[1].sum()) / 3, rel=1e-6)
    entries = np.array([[2.0, 1.0], [0.0, 3.0]])
    got = float(lk.build("bce")(y, v, entries))
    assert got == pytest.approx((entries * each).sum() / 3, rel=1e-6)
    import keras  # after labelset.keras, which chooses a back end where nobody has

    x = np.ones((2, 3))
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(optimizer="sgd", loss=lk.build("bce"))
    model.fit(x, y, sample_weight=np.array([2.0, 1.0]), verbose=0)
    with pytest.raises(ValueError, match="sample_weight"):
        lk.build("sigmoid-f1")(y, v, np.array([2.0, 1.0]))


def test_lists_are_taken_as_by_the_losses_of_keras():
    y, v, w = [[1, 0], [0, 0]], [[0.5, -1.0], [2.0, 0.0]], [1.0, 3.0]
    keras = pytest.importorskip("keras")
    due = keras.losses.BinaryCrossentropy(from_logits=True)
    arrays = [np.array(each, "float32") for each in (y, v, w)]  # older kerases take no lists
    assert float(lk.build("bce")(y, v)) == pytest.approx(float(due(*arrays[:2])))
    assert float(lk.build("bce")(y, v, w)) == pytest.approx(float(due(*arrays)))
    assert float(lk.build("sigmoid-f1")(y, v)) > 0


def test_nothing_known_costs_nothing():
    y, v = np.full((2, 2), np.nan), np.full((2, 2), np.nan)
    for name in lk.names():
        settings = {"pos": "bce", "neg": "asl"} if name == "mix" else {}
        assert float(lk.build(name, **settings)(y, v)) == 0


@pytest.mark.parametrize("name", ["two-way", "softmax", "lpr", "multi-similarity"])
def test_losses_that_compare_scores_stay_with_torch(name):
    with pytest.raises(TypeError, match="torch only"):
        lk.build(name)


def test_what_is_refused():
    with pytest.raises(ValueError, match="did you mean 'asl'"):
        lk.build("asll")
    with pytest.raises(TypeError, match="gamma_neg"):
        lk.build("asl", gamma=2)
    with pytest.raises(NoLink, match="calibrator"):
        lk.link("hill")
    with pytest.raises(ValueError, match="rows, labels"):
        lk.build("bce")(np.zeros((2, 3)), np.zeros((2, 2)))
    learnt = losses.build("sigmoid-f1", beta=torch.nn.Parameter(torch.ones(1)))
    with pytest.raises(TypeError, match="give numbers"):
        lk.of(learnt)


def test_configurations_go_round():
    for name in lk.names():
        for settings in losses.catalog.get(name).examples:
            loss = lk.build(name, **settings)
            again = type(loss).from_config(loss.get_config())
            assert again.loss == loss.loss
            assert again.get_config() == loss.get_config()
    layer = lk.link("asl", gamma_neg=2)
    assert lk.Link.from_config(layer.get_config()).loss.gamma_neg == 2


def test_the_mean_in_half_precision_is_not_rounded_to_half():
    v = np.array([[-100.0, 3.0, 88.0]], dtype="float16")
    assert float(lk.build("asl")(np.ones((1, 3)), v)) == pytest.approx(
        float(losses.build("asl")(torch.from_numpy(v).float(), torch.ones(1, 3))), rel=1e-6
    )
