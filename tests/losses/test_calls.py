"""A loss remembers what a kind of call needs: never more than that kind, and never too much."""

import copy

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from labelset import losses

NAMES = ("bce", "sigmoid-f1", "two-way")
G = torch.Generator().manual_seed(0)
V, Y = torch.randn(9, 40, generator=G), torch.rand(9, 40, generator=G) < 0.2


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
@pytest.mark.parametrize("name", NAMES)
def test_labels_that_are_converted_are_so_each_time(name, dtype):
    loss = losses.build(name)
    values = [loss(V, y) for y in (Y, Y.to(dtype), Y.to(dtype), Y)]
    assert len(set(map(float, values))) == 1


def test_a_bounded_number_of_kinds_is_remembered():
    loss = losses.build("bce")
    for rows in range(1, 300):
        loss(torch.zeros(rows, 1), torch.zeros(rows, 1))
    assert 0 < len(loss._kernels) <= 256


@pytest.mark.parametrize("name", ["bce", "spa+lpr"])
def test_a_copy_is_compiled_as_a_whole(name):
    loss = losses.build(name)
    value = loss(V, Y)
    twin = copy.deepcopy(loss)
    whole = torch.compile(lambda v, y: twin(v, y), fullgraph=True, backend="eager")
    torch.testing.assert_close(whole(V, Y), value)


@pytest.mark.parametrize("name", NAMES)
def test_tensors_without_memory_go_by_the_formula(name):
    loss = losses.build(name)
    value = loss(V, Y)
    traced = make_fx(loss, tracing_mode="symbolic")(V, Y)
    torch.testing.assert_close(traced(V, Y), value)
    with FakeTensorMode() as mode:
        assert loss(mode.from_tensor(V), mode.from_tensor(Y)).shape == ()
    torch.testing.assert_close(torch.vmap(loss, (None, 0))(V, Y[None]), value[None])


@pytest.mark.parametrize("name", NAMES)
def test_soft_labels_get_their_gradient(name):
    found = []
    for impl in ("auto", "eager"):
        y = Y.float().mul(0.7).requires_grad_()
        losses.build(name, impl=impl)(V, y).backward()
        found.append(y.grad)
    assert found[0].abs().max() > 0
    assert torch.equal(*found)


def test_a_hyperparameter_may_begin_to_learn_after_a_call():
    weight = torch.full((40,), 2.0)
    loss = losses.build("bce", pos_weight=weight)
    value = loss(V, Y)
    loss.pos_weight.requires_grad_()
    learning = loss(V, Y)
    learning.backward()
    torch.testing.assert_close(learning, value)
    assert loss.pos_weight.grad.abs().max() > 0
    with pytest.raises(RuntimeError, match="no kernel"):
        loss._with(impl="compiled")(V, Y)


def test_what_is_compiled_checks_its_labels_too():
    loss = losses.build("bce", impl="compiled")
    for wrong in (2.0, -1.0, torch.inf):
        with pytest.raises(ValueError, match=r"\[0, 1\]"):
            loss(V, torch.full_like(V, wrong))
