"""The random numbers of a row do not depend on how many ranks share the batch."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from labelset.ranks import Ranks
from labelset.train._over_ranks import global_rng

ROWS, WIDTH = 29, 8  # no share of the rows is as long as a row


def recomputed(x):
    return checkpoint(lambda h: F.dropout(h.square(), 0.5), x, use_reentrant=False)


def flipped(x):
    """Pictures whose channels lie side by side in memory."""
    pictures = x.view(-1, 2, 2, 2).contiguous(memory_format=torch.channels_last)
    return F.dropout(pictures, 0.5)


torch.manual_seed(0)
ATTENTION = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True)
RECURRENT = nn.LSTM(4, 4, num_layers=2, dropout=0.5, batch_first=True)


def attention(x, **how):
    s = x.view(-1, 2, 4)
    return ATTENTION(s, s, s, **how)[0]


DRAWING = {
    "dropout": nn.Dropout(0.5),
    "in place": lambda x: F.dropout(x.clone(), 0.5, inplace=True),
    "alpha dropout": nn.AlphaDropout(0.3),
    "channels": lambda x: nn.Dropout1d(0.5)(x.view(-1, 4, 2)),
    "pictures": flipped,
    "recomputed": recomputed,
    "attention": attention,
    "attention without its weights": lambda x: attention(x, need_weights=False),
    "recurrent": lambda x: RECURRENT(x.view(-1, 2, 4))[0],
    "transposed": lambda x: F.dropout(x.T, 0.5).T,
    "like": lambda x: x * torch.rand_like(x) + torch.randn_like(x),
    "by size": lambda x: x + torch.rand(len(x), 1) + torch.randint(9, (len(x), 1)),
    "gumbel": F.gumbel_softmax,
    "by probability": lambda x: torch.bernoulli(x.sigmoid()),
    "one for all": lambda x: x * torch.rand(()),
    "two in turn": lambda x: F.dropout(F.dropout(x, 0.2) * torch.rand(3).sum(), 0.4),
}


def batch():
    return torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))


def by_one(draw):
    """Its output and gradient, and where the generator stands."""
    torch.manual_seed(4)
    return slope(draw, batch()), torch.get_rng_state()


def slope(draw, x, drawing=None):
    """Output and gradient side by side, each row's by itself."""
    x = x.clone().requires_grad_()
    with drawing or global_rng(Ranks(), len(x)):
        y = draw(x)
        if y.requires_grad:
            y.square().sum().backward()
    grad = torch.zeros_like(x) if x.grad is None else x.grad
    return torch.cat([y.detach().flatten(1), grad], dim=1)


def by_rank(draw, rank, size, plain=False):
    torch.manual_seed(4)
    ranks = Ranks(rank, size)
    x = batch()[ranks.share(torch.arange(ROWS))]
    found = slope(draw, x, global_rng(Ranks() if plain else ranks, ROWS))
    return found, torch.get_rng_state()


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("draw", DRAWING.values(), ids=DRAWING)
def test_rows_are_given_the_numbers_of_one_process(draw, size):
    want, state = by_one(draw)
    found = [by_rank(draw, rank, size) for rank in range(size)]
    assert torch.allclose(torch.cat([own for own, _ in found]), want, rtol=0, atol=1e-6)
    assert all(torch.equal(after, state) for _, after in found)


@pytest.mark.parametrize("name", [name for name in DRAWING if name != "one for all"])
def test_ranks_that_draw_for_their_own_rows_are_told_apart(name):
    found = torch.cat([by_rank(DRAWING[name], rank, 2, plain=True)[0] for rank in range(2)])
    assert not torch.allclose(found, by_one(DRAWING[name])[0], rtol=0, atol=1e-3)


def test_more_ranks_than_rows():
    torch.manual_seed(4)
    want = F.dropout(torch.ones(2, 5))
    found = []
    for rank in range(4):
        ranks = Ranks(rank, 4)
        torch.manual_seed(4)
        with global_rng(ranks, 2):
            found.append(F.dropout(torch.ones(2, 5)[ranks.share(torch.arange(2))]))
    assert torch.equal(torch.cat(found), want)


def test_numbers_whose_count_depends_on_the_rows_are_each_ranks_own():
    def leaky(x):
        return F.rrelu(-x.detach().abs() - 1, training=True)

    same = torch.ones(10, 4)  # both ranks hold equal rows, and draw different numbers for them
    found, states = [], []
    for rank in range(2):
        torch.manual_seed(4)
        with global_rng(Ranks(rank, 2), 20):
            found.append(leaky(same))
        states.append(torch.get_rng_state())
    assert not torch.equal(*found)
    assert torch.equal(*states)


def test_rows_in_random_order_are_each_ranks_own():
    states = []
    for rank, rows in ((0, 11), (1, 10)):
        torch.manual_seed(4)
        with global_rng(Ranks(rank, 2), 21):
            assert sorted(torch.randperm(rows).tolist()) == list(range(rows))
            wide = torch.randperm(7)  # of something else: the same on all ranks
        states.append((torch.get_rng_state(), wide))
    for one, two in zip(*states, strict=True):
        assert torch.equal(one, two)


def test_attention_without_dropout_draws_nothing():
    s = torch.randn(10, 2, 3, 4)
    torch.manual_seed(4)
    before = torch.get_rng_state()
    with global_rng(Ranks(1, 2), 20):
        F.scaled_dot_product_attention(s, s, s)
    assert torch.equal(torch.get_rng_state(), before)
