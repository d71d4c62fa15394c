"""Sums, multiples, epochs, devices: what losses do together."""

import copy
import pickle

import pytest
import torch

from labelset import NoLink, losses


@pytest.fixture
def batch():
    g = torch.Generator().manual_seed(0)
    return torch.randn(6, 4, generator=g, dtype=torch.float64), torch.rand(6, 4, generator=g) < 0.4


def test_sums_and_multiples(batch):
    a, b = losses.build("bce"), losses.build("two-way")
    total = a + 0.5 * b
    torch.testing.assert_close(total(*batch), a(*batch) + 0.5 * b(*batch))
    torch.testing.assert_close((2 * total + a)(*batch), 3 * a(*batch) + b(*batch))
    torch.testing.assert_close((a * 0)(*batch), 0 * a(*batch))


def test_unreduced_sums_need_one_shape(batch):
    none = {"reduction": "none"}
    a, b = losses.build("bce", **none), losses.build("hill", **none)
    torch.testing.assert_close((a + b)(*batch), a(*batch) + b(*batch))
    with pytest.raises(ValueError, match="one shape"):
        (a + losses.build("softmax", **none))(*batch)
    with pytest.raises(ValueError, match="share their reduction"):
        a + losses.build("bce")


def test_bad_factors_and_terms():
    bce = losses.build("bce")
    for factor in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="factor"):
            factor * bce
    with pytest.raises(TypeError):
        bce + 1
    with pytest.raises(TypeError, match="factor"):
        bce * "2"


def test_link_of_a_regularised_loss_is_its_own(batch):
    for name in ("bce", "spa", "focal"):
        loss = losses.build(name)
        both = loss + 0.5 * losses.build("lpr", of=name)
        torch.testing.assert_close(both.link(batch[0]), loss.link(batch[0]))
    both = losses.build("spa+lpr") + losses.build("spa")
    torch.testing.assert_close(both.link(batch[0]), losses.build("spa").link(batch[0]))


def test_link_of_separable_sums_is_derived(batch):
    """3 bce + 1 spa: at the minimum of the summed risk the link gives the posterior."""
    loss = 3 * losses.build("bce") + losses.build("spa")
    v = torch.linspace(-15, 15, 300001, dtype=torch.float64)[:, None]
    for eta in (0.1, 0.6):
        risk = eta * loss_of(loss, v, 1.0) + (1 - eta) * loss_of(loss, v, 0.0)
        best = v[risk.argmin()]
        assert float(loss.link(best)) == pytest.approx(eta, abs=1e-3)


def loss_of(loss, v, y):
    parts = [(w, copy.copy(part)._with(reduction="none")) for w, part in loss.parts]
    return sum(w * part(v, torch.full_like(v, y)) for w, part in parts)[:, 0]


@pytest.mark.parametrize(
    "other", [losses.build("two-way"), losses.build("hill"), losses.build("lpr", of="spa")]
)
def test_links_that_do_not_exist(other):
    with pytest.raises(NoLink, match="calibrator"):
        (losses.build("bce") + other).link(torch.zeros(1, 2))


def test_falling_pairs_have_no_link():
    with pytest.raises(NoLink, match="does not always mean"):
        losses.build("mix", pos="bce", neg="hill").link(torch.zeros(1))
    with pytest.raises(NoLink, match="margin of 10"):
        losses.build("focal-margin", margin=10).link(torch.zeros(1))
    with pytest.raises(ValueError, match="loss with a link"):
        losses.build("lpr", of="two-way")


def test_epochs_reach_inner_losses(batch):
    splc = losses.build("splc", base="bce", start_epoch=2)
    total = 0.5 * splc + losses.build("mse")
    early = 0.5 * losses.build("bce")(*batch) + losses.build("mse")(*batch)
    torch.testing.assert_close(total.at(1)(*batch), early)
    torch.testing.assert_close(total.at(2)(*batch), total(*batch))
    assert losses.build("asl").at(3) == losses.build("asl")
    for epoch in (-1, 0.5, True):
        with pytest.raises((TypeError, ValueError), match="epoch"):
            splc.at(epoch)


def test_nested_losses_by_object_name_or_mapping(batch):
    given = {"name": "asl", "gamma_neg": 2.0}
    by_mapping = losses.build("splc", base=given)
    by_object = losses.build("splc", base=losses.build("asl", gamma_neg=2.0))
    torch.testing.assert_close(by_mapping(*batch), by_object(*batch))
    with pytest.raises(TypeError, match="base must be a Separable"):
        losses.build("splc", base="two-way")
    with pytest.raises(TypeError, match="pos must be a Separable"):
        losses.build("mix", pos=3, neg="bce")


def test_losses_can_be_pickled_and_copied(batch):
    for name in losses.names():
        loss = losses.build(name, **losses.catalog.get(name).examples[-1])
        value = loss(*batch)  # what it keeps of a call is neither copied nor in the way
        for twin in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss)):
            torch.testing.assert_close(twin(*batch), value)
            assert twin == loss


def test_to_moves_tensors():
    loss = losses.build("splc", base=losses.build("bce", pos_weight=[1.0, 2.0]))
    assert loss.to("meta").base.pos_weight.device.type == "meta"
    assert loss.base.pos_weight.device.type == "cpu"
    weight = (losses.build("bce", pos_weight=[1.0, 2.0]) * 2).to("meta").parts[0][1].pos_weight
    assert weight.device.type == "meta"


@pytest.mark.slow
def test_inductor_compiles_a_loss_with_its_gradient(batch):
    """One real compilation; the law tries every loss with a backend that only traces."""
    loss = losses.build("spa")
    v = batch[0].requires_grad_()
    fast = torch.compile(loss, fullgraph=True)
    torch.testing.assert_close(fast(*batch), loss(*batch))
    torch.testing.assert_close(
        torch.autograd.grad(fast(*batch), v), torch.autograd.grad(loss(*batch), v)
    )


def test_equality_sums_and_moves_of_losses_that_hold_tensors():
    a, b = (losses.build("bce", pos_weight=[1.0, 2.0]) for _ in range(2))
    assert a == b
    assert a != losses.build("bce", pos_weight=[1.0, 3.0])
    assert losses.build("bce") != losses.build("mse")
    assert sum([a, b]) == a + b
    learnt = losses.build("sigmoid-f1", beta=torch.nn.Parameter(torch.ones(3)))
    assert len(list(learnt.to("meta").parameters())) == 1


def test_what_is_derived_follows_a_change(batch):
    mixed = losses.build("mix", pos="bce", neg=losses.build("splc", base="bce"))
    with pytest.raises(NoLink):
        mixed.link(batch[0])
    torch.testing.assert_close(mixed.at(0).link(batch[0]), torch.sigmoid(batch[0]))
    total = losses.build("spa+lpr", reduction="sum")
    torch.testing.assert_close(
        losses.build("spa+lpr")._with(reduction="sum")(*batch), total(*batch)
    )


def test_numpy_numbers_are_numbers():
    import numpy as np

    assert losses.build("focal", gamma=np.float32(2)).gamma == 2
    assert losses.build("splc").at(np.int64(0)) == losses.build("focal-margin")
