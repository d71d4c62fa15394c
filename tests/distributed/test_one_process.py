"""global_batch without ranks, and what it refuses."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

import labelset as ls
from labelset.testing.cases import random_batch, value_and_grad


@dataclass(frozen=True, kw_only=True, eq=False)
class Largest(ls.losses.Loss):
    """A loss of the user's that is no sum over rows."""

    def terms(self, logits, labels):
        return logits.amax(0), None


@dataclass(frozen=True, kw_only=True, eq=False)
class Squared(ls.losses.Separable):
    """A separable loss of the user's."""

    def pos(self, v):
        return (1 - v) ** 2

    def neg(self, v):
        return v**2


class OwnTerms(ls.losses.catalog.get("unbounded-f1")):
    """A smooth metric whose terms are its own."""

    def terms(self, logits, labels):
        return super().terms(logits * 2, labels)


@pytest.mark.parametrize("name", [name for name in ls.losses.names() if name != "mix"])
def test_alone_it_is_the_loss(name):
    loss = ls.losses.build(name)
    v, y = random_batch(6, 4, seed=0, unknown=True)
    for wrapped in (ls.distributed.global_batch(loss), ls.distributed.global_batch(name, ddp=True)):
        for got, want in zip(
            value_and_grad(wrapped, v, y), value_and_grad(loss, v, y), strict=True
        ):
            torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_it_is_a_loss_like_any_other():
    beta = nn.Parameter(torch.tensor(2.0))
    learnt = ls.distributed.global_batch(ls.losses.build("sigmoid-f1", beta=beta))
    assert list(learnt.parameters()) == [beta]
    summed = ls.distributed.global_batch("bce") + 0.5 * ls.distributed.global_batch("sigmoid-f1")
    v, y = random_batch(5, 3, seed=1)
    bce, f1 = ls.losses.build("bce"), ls.losses.build("sigmoid-f1")
    torch.testing.assert_close(summed(v, y), bce(v, y) + 0.5 * f1(v, y))


def test_epochs_reach_the_loss_inside():
    loss = ls.distributed.global_batch(ls.losses.build("splc", base="bce", reduction="sum"))
    v, y = random_batch(5, 3, seed=1)
    bce = ls.losses.build("bce", reduction="sum")
    torch.testing.assert_close(loss.at(0)(v, y), bce(v, y))
    assert loss.at(5) is loss


def test_links_are_those_of_the_loss():
    v = torch.tensor([[0.0, 1.0]])
    spa = ls.losses.build("spa")
    torch.testing.assert_close(ls.distributed.global_batch(spa).link(v), spa.link(v))
    with pytest.raises(ls.NoLink):
        ls.distributed.global_batch("sigmoid-f1").link(v)


def test_a_separable_loss_of_ones_own_is_taken():
    v, y = random_batch(5, 3, seed=1)
    torch.testing.assert_close(ls.distributed.global_batch(Squared())(v, y), Squared()(v, y))


@pytest.mark.parametrize("loss", [Largest(), OwnTerms(), Largest() + Squared()])
def test_what_cannot_be_added_up_is_refused(loss):
    with pytest.raises(TypeError, match="cannot know what to add up"):
        ls.distributed.global_batch(loss)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (lambda: ls.losses.build("bce", reduction="none"), ValueError),
        (lambda: torch.nn.BCEWithLogitsLoss(), TypeError),
        (lambda: ls.distributed.global_batch("bce"), TypeError),
    ],
)
def test_what_is_no_loss_of_a_batch_is_refused(given, error):
    with pytest.raises(error):
        ls.distributed.global_batch(given())
