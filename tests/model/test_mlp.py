"""Small networks: the mean of their members, the same dense and sparse; crafted files refused."""

import json

import pytest
import torch
from safetensors.torch import load, save

from labelset.data import SparseRows
from labelset.losses import build
from labelset.model import Mlp

FEATURES, MEMBERS, UNITS, LABELS, ROWS = 7, 3, 8, 5, 40
LOSSES = {
    "log-odds": None,
    "weighted": build("bce", pos_weight=torch.arange(1.0, LABELS + 1), smoothing=0.1),
    "asl": build("asl"),
    "mixed": build("mix", pos="asl", neg="bce"),
    "two-way": build("two-way"),
}


def networks(loss=None, layers=2, seed=0):
    g = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(shape, generator=g)

    return Mlp(
        draw(FEATURES),
        draw(FEATURES, MEMBERS, UNITS),
        draw(layers - 1, MEMBERS, UNITS, UNITS),
        draw(layers, MEMBERS, UNITS),
        draw(MEMBERS, UNITS, LABELS),
        draw(MEMBERS, LABELS),
        loss,
    )


@pytest.fixture(scope="module")
def rows():
    g = torch.Generator().manual_seed(1)
    return torch.randn(ROWS, FEATURES, generator=g) * (
        torch.rand(ROWS, FEATURES, generator=g) < 0.4
    )


def sparse(x):
    filled = x != 0
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), filled.sum(1).cumsum(0)])
    return SparseRows.from_csr(starts, filled.nonzero()[:, 1], x.shape[1], x[filled])


def by_hand(net, k, x):
    """Member k in float64, one row after another."""
    out = []
    for row in x.double():
        h = row - net.centre
        for layer in range(len(net.shift)):
            weight = net.first[:, k] if layer == 0 else net.inner[layer - 1, k]
            z = h @ weight.double() + net.shift[layer, k]
            z = (z - z.mean()) / (z.var(correction=0) + 1e-5).sqrt()
            h = z.clamp(min=0)
        out.append(h @ net.last[k].double() + net.bias[k])
    return torch.stack(out)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_logits_are_what_the_formula_says(rows, layers):
    net = networks(layers=layers)
    expected = torch.stack([by_hand(net, k, rows) for k in range(MEMBERS)]).float()
    torch.testing.assert_close(net.logits(rows), expected, rtol=1e-4, atol=1e-4)
    for k in range(MEMBERS):
        torch.testing.assert_close(net.member(k).scores(rows), expected[k], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", LOSSES)
def test_scores_are_the_mean_over_members(rows, name):
    net = networks(LOSSES[name])
    logits = net.logits(rows).double()
    if not net.linked:
        assert name == "two-way"
        torch.testing.assert_close(net.scores(rows).double(), logits.mean(0), rtol=1e-5, atol=1e-5)
        return
    link = torch.sigmoid if net.loss is None else net.loss.link
    mean = torch.stack([link(v) for v in logits]).clamp(1e-13, 1 - 1e-13).mean(0)
    torch.testing.assert_close(net.scores(rows).double(), mean.logit(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        pytest.param(name, layers, marks=pytest.mark.slow if i and layers == 2 else ())
        for i, name in enumerate(LOSSES)
        for layers in (1, 2)
    ],
)
def test_kept_and_exported(rows, name, layers):
    net = networks(LOSSES[name], layers)
    again = Mlp.from_tensors(load(save(net.tensors())))
    assert torch.equal(again.scores(rows), net.scores(rows))
    assert (again.width, again.labels, len(again)) == (FEATURES, LABELS, MEMBERS)
    assert again.nbytes == net.nbytes > 0
    some = torch.export.Dim("rows")
    program = torch.export.export(net.module(), (rows,), dynamic_shapes=({0: some},))
    torch.testing.assert_close(program.module()(rows[:9]), net.scores(rows[:9]))


def test_a_row_has_the_same_scores_alone_and_sparse(rows):
    net = networks()
    together = net.scores(rows)
    alone = torch.cat([net.scores(row[None]) for row in rows])
    assert torch.equal(alone, together)
    assert torch.equal(net.scores(sparse(rows)), together)
    assert net.scores(rows[:0]).shape == (0, LABELS)
    with pytest.raises(ValueError, match=r"take \(rows, 7\) features, got \(40, 6\)"):
        net.scores(rows[:, :6])


def test_scores_are_finite_where_a_link_gives_0_or_1():
    net = networks(build("bce", smoothing=0.5))
    scores = net.scores(torch.full((2, FEATURES), 1e6))
    assert bool(scores.isfinite().all())


def text(described):
    return torch.frombuffer(bytearray(json.dumps(described).encode()), dtype=torch.uint8)


def put(value):
    def change(t):
        t.view(-1)[0] = value
        return t

    return change


CRAFTED = {
    "centre of small networks must have shape": {"centre": lambda t: t[:-1]},
    "centre of small networks must be finite": {"centre": put(torch.nan)},
    "first of small networks must be 3-D": {"first": lambda t: t[0]},
    "first of small networks must be 3-D float32": {"first": lambda t: t.double()},
    "must have shape": {"first": lambda t: t[:, :2]},
    "need a feature": {"first": lambda t: t[:0], "centre": lambda t: t[:0]},
    "inner of small networks must have shape": {"inner": lambda t: t[:0]},
    "inner of small networks must be finite": {"inner": put(torch.inf)},
    "shift of small networks": {"shift": lambda t: t[..., :-1]},
    "need a feature, a member, a layer": {"shift": lambda t: t[:0], "inner": lambda t: t[:0]},
    "last of small networks": {"last": lambda t: t[:, :-1]},
    "bias of small networks must have shape": {"bias": lambda t: t[:, :-1]},
    "loss of small networks must be": {"loss": lambda t: t.float()},
    "at most 64 KiB": {"loss": lambda t: torch.zeros(1 << 17, dtype=torch.uint8)},
    "the loss of small networks is no JSON": {"loss": lambda t: t[:0]},
    "the loss of small networks: ": {"loss": lambda t: text({"name": "os.system"})},
    "loss must be a loss": {"loss": lambda t: text(5)},
    "smoothing": {"loss": lambda t: text({"name": "bce", "smoothing": 7})},
    "loss of small networks is no JSON": {
        "loss": lambda t: torch.full((60000,), ord("["), dtype=torch.uint8)
    },
    "with 5 labels": {"loss": lambda t: text({"name": "bce", "pos_weight": [1.0, 2.0]})},
}


@pytest.mark.parametrize("message", CRAFTED)
def test_crafted_files_are_refused(message):
    tensors = networks(build("asl")).tensors()
    crafted = tensors | {k: change(tensors[k].clone()) for k, change in CRAFTED[message].items()}
    with pytest.raises(ValueError, match=message):
        Mlp.from_tensors(crafted)


def test_missing_tensors_are_refused():
    tensors = networks().tensors()
    del tensors["last"]
    with pytest.raises(ValueError, match="have the tensors centre, first"):
        Mlp.from_tensors(tensors)
