"""over_labels, linear_loss and shard_labels without ranks, and what they refuse."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

import labelset as ls
from labelset.testing.cases import random_batch, value_and_grad


@dataclass(frozen=True, kw_only=True, eq=False)
class Largest(ls.losses.Loss):
    """A loss of the user's that nobody else can put together."""

    def terms(self, logits, labels):
        return logits.amax(1), None


@pytest.mark.parametrize("name", [name for name in ls.losses.names() if name != "mix"])
def test_alone_it_is_the_loss(name):
    loss = ls.losses.build(name)
    v, y = random_batch(6, 4, seed=0, unknown=True)
    for wrapped in (
        ls.distributed.over_labels(name),
        ls.distributed.over_labels(ls.distributed.global_batch(loss, ddp=True)),
    ):
        for got, want in zip(
            value_and_grad(wrapped, v, y), value_and_grad(loss, v, y), strict=True
        ):
            torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_alone_the_fused_call_is_the_fused_call(reduction):
    loss = ls.losses.build("asl", reduction=reduction)
    v, y = random_batch(6, 4, seed=0, unknown=True)
    found = []
    for call in (ls.linear_loss, ls.distributed.linear_loss):
        x, w, b = (t.clone().requires_grad_() for t in (v, v[:4, :], v[0, :4]))
        value = call(x, w, y, loss, bias=b)
        value.backward()
        found.append([value.detach(), x.grad, w.grad, b.grad])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want)


def test_alone_a_layer_stays_as_it_is():
    layer, head = nn.Linear(3, 5), ls.heads.build("linear", features=3, labels=5)
    assert ls.distributed.shard_labels(layer) is layer
    assert ls.distributed.shard_labels(head) is head
    dft = ls.heads.build("dft", features=3, labels=5, k=1)
    assert ls.distributed.shard_labels(dft) is dft
    with pytest.raises(TypeError, match="Conv1d"):
        ls.distributed.shard_labels(nn.Conv1d(3, 5, 1))


def test_it_is_a_loss_like_any_other():
    splc = ls.distributed.over_labels(ls.losses.build("splc", base="bce"))
    v, y = random_batch(5, 3, seed=1)
    torch.testing.assert_close(splc.at(0)(v, y), ls.losses.build("bce")(v, y))
    wan = ls.losses.build("wan")
    torch.testing.assert_close(ls.distributed.over_labels(wan).link(v), wan.link(v))
    with pytest.raises(ls.NoLink):
        ls.distributed.over_labels("two-way").link(v)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Largest, "cannot know what to add up"),
        (torch.nn.BCEWithLogitsLoss, "must be a loss"),
        (lambda: ls.distributed.over_labels("bce"), "cannot know what to add up"),
    ],
)
def test_what_is_no_loss_of_labels_is_refused(given, words):
    with pytest.raises(TypeError, match=words):
        ls.distributed.over_labels(given())
