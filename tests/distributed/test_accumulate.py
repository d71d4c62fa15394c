"""accumulate leaves what one backward over the full batch leaves."""

import copy

import pytest
import torch
from torch import nn

import labelset as ls
from labelset.testing.cases import random_batch

SETTINGS = [
    pytest.param(name, example, id=f"{name}-{i}")
    for name in ls.losses.names()
    for i, example in enumerate(ls.losses.catalog.get(name).examples)
]


def network(*extra, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 16), *extra, nn.Tanh(), nn.Linear(16, 5)).double()


def batch(rows=23, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 6, generator=g, dtype=torch.float64)
    return x, random_batch(rows, 5, seed, unknown=True)[1]


def pairs(x, y, size=5):
    return list(zip(x.split(size), y.split(size), strict=True))


def same(model, other, tolerance=1e-10):
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=tolerance, atol=tolerance)


def in_one(model, batches, loss):
    """The same forwards, all their graphs kept, then one backward."""
    v = torch.cat([model(x) for x, _ in batches])
    value = loss(v, torch.cat([y for _, y in batches]))
    value.backward()
    return value.detach()


@pytest.mark.parametrize(("name", "example"), SETTINGS)
def test_every_loss_has_the_gradient_of_the_full_batch(name, example):
    loss, model, (x, y) = ls.losses.build(name, **example), network(), batch()
    other = copy.deepcopy(model)
    value = ls.accumulate(model, pairs(x, y), loss)
    want = loss(other(x), y)
    want.backward()
    torch.testing.assert_close(value, want.detach(), rtol=1e-10, atol=1e-10)
    assert not value.requires_grad
    same(model, other)


def test_gradients_are_added_to_those_that_are_there():
    model, (x, y), loss = network(), batch(), ls.losses.build("sigmoid-f1")
    ls.accumulate(model, pairs(x, y), loss)
    once = [p.grad.clone() for p in model.parameters()]
    ls.accumulate(model, iter(pairs(x, y, size=7)), loss)
    for p, g in zip(model.parameters(), once, strict=True):
        torch.testing.assert_close(p.grad, 2 * g)


def test_dropout_is_replayed_and_the_random_state_moves_as_in_one_pass():
    model, (x, y), loss = network(nn.Dropout(0.5)), batch(), ls.losses.build("two-way")
    other = copy.deepcopy(model)
    torch.manual_seed(9)
    value = ls.accumulate(model, pairs(x, y), loss)
    after = torch.rand(3)
    torch.manual_seed(9)
    want = in_one(other, pairs(x, y), loss)
    torch.testing.assert_close(value, want, rtol=1e-10, atol=1e-10)
    same(model, other)
    torch.testing.assert_close(after, torch.rand(3), rtol=0, atol=0)


def test_batch_norm_sees_each_micro_batch_once():
    model, (x, y) = network(nn.BatchNorm1d(16)), batch(24)
    loss, other = ls.losses.build("sigmoid-f1"), copy.deepcopy(model)
    for _ in range(2):
        ls.accumulate(model, pairs(x, y, size=8), loss)
        in_one(other, pairs(x, y, size=8), loss)
    same(model, other)
    for (name, b), c in zip(model.named_buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(b, c, msg=name)
    assert int(model[1].num_batches_tracked) == 6


def test_batch_norm_in_evaluation_is_the_full_batch():
    model, (x, y), loss = network(nn.BatchNorm1d(16)), batch(), ls.losses.build("sigmoid-f1")
    model(x)
    model.eval()
    other = copy.deepcopy(model)
    ls.accumulate(model, pairs(x, y), loss)
    loss(other(x), y).backward()
    same(model, other)


def test_other_state_is_replayed_too():
    """Spectral norm turns its vectors at every forward in training."""
    model, (x, y), loss = network(), batch(), ls.losses.build("sigmoid-f1")
    nn.utils.parametrizations.spectral_norm(model[0])
    other = copy.deepcopy(model)
    ls.accumulate(model, pairs(x, y), loss)
    in_one(other, pairs(x, y), loss)
    same(model, other)


def test_only_one_micro_batch_is_in_memory():
    model, (x, y) = network(nn.Linear(16, 16)), batch(64)
    alive, peak = 0, 0

    class Saved:
        """Counts the bytes that graphs hold on to."""

        def __init__(self, t):
            nonlocal alive, peak
            self.t, self.bytes = t, t.nbytes
            alive += self.bytes
            peak = max(peak, alive)

        def __del__(self):
            nonlocal alive
            alive -= self.bytes

    def most(work):
        nonlocal peak
        peak = 0
        with torch.autograd.graph.saved_tensors_hooks(Saved, lambda s: s.t):
            work()
        return peak

    def scoring(v, labels):  # the loss of all scores is not what is measured here
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return ls.losses.build("bce")(v, labels)

    whole = most(lambda: scoring(model(x), y).backward())
    one = most(lambda: scoring(model(x[:8]), y[:8]).backward())
    got = most(lambda: ls.accumulate(model, pairs(x, y, size=8), scoring))
    assert got <= 1.01 * one < 0.4 * whole


def test_autocast_leaves_gradients_as_without_micro_batches():
    model, (x, y) = network().float(), batch()
    x, loss, other = x.float(), ls.losses.build("sigmoid-f1", impl="eager"), copy.deepcopy(model)
    with torch.autocast("cpu", torch.bfloat16):
        value = ls.accumulate(model, pairs(x, y), loss)
        want = loss(other(x), y)
    want.backward()
    torch.testing.assert_close(value, want.detach(), rtol=1e-2, atol=1e-2)
    assert all(p.grad.abs().sum() > 0 for p in model.parameters())
    same(model, other, tolerance=2e-2)


def test_labels_of_every_kind_are_joined():
    x, y = batch()
    loss, whole = ls.losses.build("two-way"), network()
    loss(whole(x), y).backward()
    sparse = [(a, ls.Labels.from_dense(b)) for a, b in pairs(x, y)]
    mixed = [sparse[0], *pairs(x, y)[1:]]
    arrays = [(a, b.numpy()) for a, b in pairs(x, y)]
    for batches in (sparse, mixed, arrays):
        model = network()
        ls.accumulate(model, batches, loss)
        same(model, whole)


def test_inputs_of_every_kind_reach_the_model():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, a, b):
            return self.inner(a + b)

    (x, y), loss = batch(8), ls.losses.build("sigmoid-f1")
    whole = Two()
    loss(whole(x, 2 * x), y).backward()
    for given in (lambda a: (a, 2 * a), lambda a: {"b": 2 * a, "a": a}, lambda a: [a, 2 * a]):
        model = Two()
        ls.accumulate(model, [(given(a), b) for a, b in pairs(x, y, size=3)], loss)
        same(model, whole)


def test_parameters_of_the_loss_learn_too():
    x, y = batch()
    found = []
    for micro in (True, False):
        beta = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
        loss, model = ls.losses.build("sigmoid-f1", beta=beta), network()
        if micro:
            ls.accumulate(model, pairs(x, y), loss)
        else:
            loss(model(x), y).backward()
        found.append(beta.grad)
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    ("model", "batches", "loss", "message"),
    [
        (network(), [], "bce", "at least one pair"),
        (network(), [(torch.ones(2, 6).double(), torch.ones(3, 5))], "bce", "micro batch 0"),
        (network().requires_grad_(False), pairs(*batch()), "bce", "carry no gradient"),
        (lambda x: (x, x), pairs(*batch()), "bce", r"shape \(rows, labels\), got tuple"),
        (network(), pairs(*batch()), "none", "one number"),
    ],
)
def test_bad_input_is_named(model, batches, loss, message):
    built = ls.losses.build("bce", reduction="none" if loss == "none" else "mean")
    with pytest.raises((ValueError, TypeError), match=message):
        ls.accumulate(model, batches, built)
