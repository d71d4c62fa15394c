"""The loop: against one written by hand, the best epoch, reproducibility, sparse and dense."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse

import labelset as ls
from labelset import train as tr
from labelset.data import Dataset, SparseRows, load
from labelset.encode import Encoder, build
from labelset.train.task import mixed, shuffled


def task(rows=240, features=6, labels=4, seed=0, unknown=0.0, thin=False):
    """A task that a linear head can learn."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features)).astype(np.float32)
    if thin:
        x *= rng.random(x.shape) < 0.4
    y = (
        x @ rng.normal(size=(features, labels)) + 0.3 * rng.normal(size=(rows, labels)) > 0.8
    ) * 1.0
    y[rng.random(y.shape) < unknown] = np.nan
    split = np.arange(rows) % 4 // 2 + (np.arange(rows) % 4 == 3)  # half train
    given = sparse.csr_matrix(x) if thin else x
    return Dataset.from_arrays(given, y, split=split)


def same(one, two):
    return all(torch.equal(one.scores[part], two.scores[part]) for part in one.scores)


class SharedMoments:
    """(labels, features) weights by AdamW with one second moment per label, written plainly."""

    def __init__(self):
        self.t = self.m = self.v = 0

    def moved(self, w, g, lr, decay):
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * g
        self.v = 0.99 * self.v + 0.01 * (g**2).mean(1, keepdim=True)
        m, v = self.m / (1 - 0.9**self.t), self.v / (1 - 0.99**self.t)
        return (1 - lr * decay) * w - lr * m / v.sqrt()


def standardised(x, train):
    return (x - x[train].mean(0)) / x[train].std(0, correction=0)


@pytest.mark.parametrize("optimiser", ["shared-adamw", "adamw", "sgd"])
def test_steps_are_those_of_a_loop_written_by_hand(optimiser):
    data = task()
    settings = tr.Settings(
        loss="focal", epochs=1, batch=40, lr=0.05, optimiser=optimiser, weight_decay=0.1,
        schedule="constant", monitor=None, seed=3,
    )  # fmt: skip
    done = tr.train(data, settings)
    train = (data.split == 0).nonzero().flatten()
    x, y = standardised(data.features, train), data.labels.dense()
    with torch.random.fork_rng():
        torch.manual_seed(mixed(3, "head"))
        layer = torch.nn.Linear(6, 4)
    share = (y[train].sum(0) + 0.5) / (len(train) + 1)
    layer.bias.data = torch.logit(share)
    rest = {"fused": False, "foreach": False, "lr": 0.05}
    groups = [{"params": [layer.weight], "weight_decay": 0.1}, {"params": [layer.bias]}]
    step = (
        torch.optim.SGD(groups, momentum=0.9, **rest)
        if optimiser == "sgd"
        else torch.optim.AdamW([groups[0], groups[1] | {"weight_decay": 0.0}], **rest)
    )
    shared = SharedMoments() if optimiser == "shared-adamw" else None
    loss, losses = ls.losses.build("focal"), []
    batches = shuffled(train, 40, mixed(3, "order 0"))
    assert len(batches) == 3
    for rows in batches:
        value = loss(layer(x[rows]), y[rows])
        step.zero_grad()
        value.backward()
        if shared is not None:
            layer.weight.data = shared.moved(layer.weight.data, layer.weight.grad, 0.05, 0.1)
            layer.weight.grad = None
        step.step()
        losses.append(value.item() * len(rows))
    torch.testing.assert_close(done.head.classifier.weight, layer.weight, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(done.head.classifier.bias, layer.bias, atol=1e-5, rtol=1e-5)
    assert done.history[0]["loss"] == pytest.approx(sum(losses) / len(train), rel=1e-5)
    want = layer(x)[data.split == 2]
    torch.testing.assert_close(done.scores["test"], want, atol=1e-4, rtol=1e-4)


def test_every_training_row_is_seen_once_an_epoch():
    rows = torch.arange(100, 203)
    parts = shuffled(rows, 20, seed=1)
    assert {len(part) for part in parts} <= {17, 18}
    assert torch.equal(torch.cat(parts).sort().values, rows)
    assert not torch.equal(torch.cat(parts), torch.cat(shuffled(rows, 20, seed=2)))


def test_the_best_epoch_is_kept():
    data = task(rows=160)
    noisy = replace(data, labels=task(rows=160, seed=9).labels)  # nothing to learn
    done = tr.train(noisy, tr.Settings(epochs=12, lr=0.3, schedule="constant", batch=16))
    values = [epoch["valid"] for epoch in done.history]
    assert done.best_epoch == int(np.argmax(values)) < 11
    assert done.monitor == "map@class"
    assert done.stopped == "epochs"
    metric = ls.metrics.build("map@class")
    assert metric(done.scores["valid"], noisy.part("valid").labels) == max(values)
    torch.testing.assert_close(done.logits(noisy.part("test")), done.scores["test"])


def test_a_metric_that_falls_is_watched_downwards():
    done = tr.train(task(), tr.Settings(epochs=6, monitor="nll", lr=1.0, schedule="constant"))
    values = [epoch["valid"] for epoch in done.history]
    assert done.best_epoch == int(np.argmin(values))
    sets = tr.train(task(), tr.Settings(epochs=3, monitor="f1-micro", loss="two-way"))
    assert sets.monitor == "f1-micro"


def test_patience():
    data = replace(task(rows=160), labels=task(rows=160, seed=9).labels)
    done = tr.train(data, tr.Settings(epochs=50, patience=3, lr=0.3, schedule="constant"))
    assert done.stopped == "patience"
    assert len(done.history) == done.best_epoch + 4 < 50
    with pytest.raises(ValueError, match="patience needs a metric"):
        tr.Settings(patience=2, monitor=None)


def test_without_validation_rows_the_last_epoch_is_taken():
    data = task()
    data = replace(data, split=torch.where(data.split == 1, 0, data.split).to(torch.int8))
    done = tr.train(data, tr.Settings(epochs=3))
    assert (done.monitor, done.best_epoch, done.history[0]["valid"]) == (None, 2, None)
    assert done.scores["valid"].shape == (0, 4)
    off = Dataset.from_arrays(data.features, torch.zeros(240, 2), split=task().split)
    assert tr.train(off, tr.Settings(epochs=2)).monitor is None  # its mAP is not defined


@pytest.mark.parametrize("thin", [False, True])
def test_the_same_seed_gives_the_same_numbers(thin):
    data, settings = task(thin=thin), tr.Settings(epochs=4, ema=0.9, seed=1)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one = tr.train(data, settings)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)
    assert same(one, tr.train(data, settings))
    assert not same(one, tr.train(data, replace(settings, seed=2)))


@pytest.mark.parametrize("head", [("linear", {}), ("linear", {"rank": 3}), ("dft", {"k": 1})])
@pytest.mark.parametrize("optimiser", ["shared-adamw", "adamw", "sgd"])
def test_sparse_equals_dense(head, optimiser):
    class Plain(Encoder):
        name = "plain"

        def fit(self, train):
            self.facts = {"fitted": True}
            return self

        def prepare(self, dataset):
            x = dataset.features
            return x.dense() if self.densely else x

    data = task(thin=True, features=9, labels=5)
    assert isinstance(data.features, SparseRows)
    settings = tr.Settings(
        head=head[0], head_settings=head[1], epochs=3, lr=0.1, optimiser=optimiser, weight_decay=0.1
    )
    found = []
    for densely in (False, True):
        encoder = Plain()
        encoder.densely = densely
        found.append(tr.train(data, settings, encoder=encoder))
    for part in ("train", "valid", "test"):
        torch.testing.assert_close(*(f.scores[part] for f in found), atol=1e-5, rtol=1e-5)


def test_unknown_labels():
    whole, holes = task(rows=800), task(rows=800, unknown=0.3)
    done = tr.train(holes, tr.Settings(epochs=10))
    metric = ls.metrics.build("map@class")
    truth = whole.part("test").labels
    assert metric(done.scores["test"], truth) > 0.9
    known = holes.labels.known()
    nothing = torch.where(known, holes.labels.dense(), torch.nan)
    assert same(done, tr.train(replace(holes, labels=ls.Labels.from_dense(nothing)), done.settings))


def test_splc_gets_its_epoch():
    def losses(**settings):
        settings = {"loss": "splc", "lr": 0.5, "schedule": "constant", "epochs": 4} | settings
        return [epoch["loss"] for epoch in tr.train(task(), tr.Settings(**settings)).history]

    late = losses(loss_settings={"start_epoch": 2, "tau": 0.5})
    base = losses(loss="focal-margin")
    assert late[:2] == base[:2]
    assert late[2] < base[2]


def test_average_and_precision():
    data = task(rows=400)
    plain = tr.train(data, tr.Settings(epochs=5, monitor=None))
    mean = tr.train(data, tr.Settings(epochs=5, monitor=None, ema=0.95))
    narrow = tr.train(data, tr.Settings(epochs=5, monitor=None, precision="bfloat16"))
    assert not same(plain, mean)
    assert [e["loss"] for e in plain.history] == [e["loss"] for e in mean.history]
    assert not same(plain, narrow)
    assert narrow.scores["test"].dtype == torch.float32
    torch.testing.assert_close(narrow.scores["test"], plain.scores["test"], atol=0.1, rtol=0.1)


def test_a_loss_that_runs_away_is_named():
    with pytest.raises(tr.Diverged, match=r"epoch \d+ of 50 \(loss mine, .*1e\+30\).*lower"):
        tr.train(task(), tr.Settings(epochs=50, optimiser="sgd", lr=1e30, loss=mine()))


def mine():
    class mine(ls.losses.Separable):
        def pos(self, v):
            return v.exp()

        def neg(self, v):
            return v.exp()

    return mine()


def test_an_interrupt_keeps_what_is_done():
    def stop(news):
        if news.epoch_over and news.epoch == 2:
            raise KeyboardInterrupt

    data = task()
    done = tr.train(data, tr.Settings(epochs=9), progress=stop)
    assert (done.stopped, len(done.history)) == ("interrupted", 3)
    assert done.scores["test"].isfinite().all()
    assert done.best_epoch == int(np.argmax([epoch["valid"] for epoch in done.history]))


@pytest.mark.parametrize("monitor", ["map@class", None])
def test_an_interrupt_within_an_epoch(monitor, monkeypatch):
    monkeypatch.setattr("labelset.train.network.PAUSE", 0.0)

    def stop(news):
        if news.epoch == 2 and news.done > 2.4 / 9:
            raise KeyboardInterrupt

    before = torch.get_rng_state()
    done = tr.train(task(), tr.Settings(epochs=9, batch=20, monitor=monitor), progress=stop)
    assert (done.stopped, len(done.history), done.monitor) == ("interrupted", 2, monitor)
    assert done.scores["test"].isfinite().all()
    assert torch.equal(torch.get_rng_state(), before)
    short = tr.train(task(), tr.Settings(epochs=9, batch=20), progress=interrupt)
    assert short.scores["test"].shape == (60, 4)  # not one epoch is done


def interrupt(news):
    raise KeyboardInterrupt


def test_a_budget_of_seconds():
    done = tr.train(task(), tr.Settings(epochs=10_000, seconds=0.2))
    assert done.stopped == "seconds"
    assert 1 <= len(done.history) < 10_000
    assert len(tr.train(task(), tr.Settings(epochs=5, seconds=0.0)).history) == 1


def test_news_within_epochs(monkeypatch):
    monkeypatch.setattr("labelset.train.network.PAUSE", 0.0)
    seen = []
    tr.train(task(), tr.Settings(epochs=2, batch=30), progress=seen.append)
    assert [news.done for news in seen] == pytest.approx([i / 8 for i in range(1, 9)])
    assert [news.epoch for news in seen] == [0] * 4 + [1] * 4
    assert [news.epoch_over for news in seen] == [False, False, False, True] * 2
    assert seen[0].value is None
    assert seen[4].value == seen[3].value


def test_only_the_parts_wanted_are_scored():
    assert list(tr.train(task(), tr.Settings(epochs=1), parts=["test"]).scores) == ["test"]
    with pytest.raises(ValueError, match="part must be one of"):
        tr.train(task(), parts=["tset"])


def test_news():
    seen = []
    tr.train(task(), tr.Settings(epochs=4), progress=seen.append)
    over = [news for news in seen if news.epoch_over]
    assert [news.epoch for news in over] == [0, 1, 2, 3]
    assert [news.done for news in over] == [0.25, 0.5, 0.75, 1.0]
    assert over[-1].left == 0
    assert over[0].left > 0
    assert over[-1].monitor == "map@class"
    assert all(math.isfinite(news.loss) and 0 <= news.value <= 1 for news in over)
    assert over[-1].best == max(news.value for news in over)


def test_modules_are_trained_and_left_alone():
    data = task(rows=400)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU())
    before = {name: t.clone() for name, t in module.state_dict().items()}
    done = tr.train(data, tr.Settings(epochs=5, lr=0.05), encoder=module)
    assert all(torch.equal(t, before[name]) for name, t in module.state_dict().items())
    trained = done.encoder.module.state_dict()
    assert not torch.equal(trained["inner.0.weight"], before["0.weight"])
    torch.testing.assert_close(done.logits(data.part("test")), done.scores["test"])
    assert same(done, tr.train(data, tr.Settings(epochs=5, lr=0.05), encoder=module))
    with pytest.raises(ValueError, match="flatten or pool"):
        tr.train(data, encoder=torch.nn.Unflatten(1, (2, 3)))


def test_conv_learns_digits():
    data = load("digits", train=700, valid=100, test=200)
    settings = tr.Settings(epochs=5, batch=50, lr=0.02)
    done = tr.train(data, settings, encoder=build("conv", width=32))
    metric, truth = ls.metrics.build("map@class"), data.part("test").labels
    assert metric(done.scores["test"], truth) > 2 * metric(torch.zeros(200, 10), truth)
    torch.testing.assert_close(done.logits(data.part("test")), done.scores["test"])


def test_texts_by_default():
    words = ["fork", "knife", "spoon"]
    rng = np.random.default_rng(0)
    y = rng.random((300, 3)) < 0.4
    texts = [" ".join(["the", *np.array(words)[row]]) for row in y]
    data = Dataset.from_arrays(None, y, texts=texts, split=np.arange(300) % 3)
    done = tr.train(data)
    assert done.encoder.name == "tfidf"
    assert done.history[done.best_epoch]["valid"] == 1.0


def test_bad_data_is_named():
    data = task()
    with pytest.raises(ValueError, match="ensure_split"):
        tr.train(replace(data, split=None))
    with pytest.raises(ValueError, match="no training rows"):
        tr.train(data.part("test"))
    with pytest.raises(ValueError, match="at most 1"):
        tr.train(data, tr.Settings(head="dft", head_settings={"k": 3}))


def test_dft_heads_are_sized_by_the_training_rows():
    data = task(labels=9)
    done = tr.train(
        data, tr.Settings(head="dft", epochs=1, head_settings={"order": "cooccurrence"})
    )
    most = int(data.part("train").labels.counts().max())
    assert done.settings.head_settings["k"] == min(most, 4)
    assert done.head.slack.shape == (9, 16)
    assert done.head.order.tolist() != list(range(9))
