"""Schedules, averages, optimiser, settings and pseudo-labels, each by its own oracle."""

import json
from dataclasses import replace

import pytest
import torch

import labelset as ls
from labelset import train as tr
from labelset.data import Dataset
from labelset.train._optimiser import Average, SharedAdamW, share
from labelset.train.pseudo import relabelled


@pytest.mark.parametrize("steps", [2, 5, 10, 37, 400])
@pytest.mark.parametrize("schedule", ["one-cycle", "cosine", "constant"])
def test_schedules_are_torchs(schedule, steps):
    weight = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([weight], lr=1.0)
    makers = {
        "one-cycle": lambda: torch.optim.lr_scheduler.OneCycleLR(
            optimiser, max_lr=1.0, total_steps=steps, cycle_momentum=False
        ),
        "cosine": lambda: torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps),
        "constant": lambda: torch.optim.lr_scheduler.ConstantLR(optimiser, 1.0),
    }
    scheduler = makers[schedule]()
    for step in range(steps):
        got = share(schedule, step, steps)
        assert got == pytest.approx(scheduler.get_last_lr()[0], abs=1e-9), step
        optimiser.step()
        if step < steps - 1:
            scheduler.step()


def test_one_step_has_a_rate():
    assert all(0 < share(schedule, 0, 1) <= 1 for schedule in ("one-cycle", "cosine", "constant"))


def test_average_is_its_formula():
    model = torch.nn.BatchNorm1d(2).double()
    average = Average(model, 0.5)
    want = torch.ones(2, dtype=torch.float64)
    for t in range(1, 9):
        with torch.no_grad():
            model.weight.fill_(t)
            model.num_batches_tracked.fill_(t)
        average.update(model)
        d = min(0.5, (1 + t) / (10 + t))
        want = d * want + (1 - d) * t
    torch.testing.assert_close(average.weights["weight"], want)
    assert average.weights["num_batches_tracked"] == 8


def test_shared_adamw_is_its_formula():
    torch.manual_seed(0)
    w = torch.nn.Parameter(torch.randn(5, 3, dtype=torch.float64))
    want, m, v = w.detach().clone(), torch.zeros(5, 3).double(), torch.zeros(3).double()
    optimiser = SharedAdamW([w], lr=0.1, betas=(0.8, 0.9), weight_decay=0.5)
    for t in range(1, 6):
        g = torch.randn(5, 3, dtype=torch.float64)
        w.grad = g
        optimiser.step()
        m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * (g**2).mean(0)
        step = (m / (1 - 0.8**t)) / ((v / (1 - 0.9**t)).sqrt() + 1e-12)
        want = (1 - 0.1 * 0.5) * want - 0.1 * step
    torch.testing.assert_close(w.detach(), want)


def test_settings_through_json():
    settings = tr.Settings(
        loss="splc", loss_settings={"tau": 0.7}, head="dft", head_settings={"k": 2}, ema=0.9
    )
    assert tr.Settings.from_json(json.loads(json.dumps(settings.as_json()))) == settings
    whole = tr.Settings(loss=ls.losses.build("bce") + 0.5 * ls.losses.build("lpr", of="bce"))
    again = tr.Settings.from_json(json.loads(json.dumps(whole.as_json())))
    assert again.build_loss() == whole.build_loss()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"lr": 0.0}, "lr must be"),
        ({"lr": float("nan")}, "lr must be"),
        ({"optimiser": "adam"}, "one of 'shared-adamw', 'adamw', 'sgd'"),
        ({"schedule": "linear"}, "schedule must be one of"),
        ({"ema": 1.0}, "ema must be"),
        ({"precision": "float16"}, "precision must be one of"),
        ({"weight_decay": -1.0}, "weight_decay must be"),
        ({"monitor": "map@clas"}, "did you mean 'map@class'"),
        ({"loss": "bec"}, "did you mean 'bce'"),
        ({"head": "liner"}, "did you mean 'linear'"),
        ({"seconds": -1.0}, "seconds must be"),
        ({"device": "gpu"}, "device must be cpu or cuda"),
    ],
)
def test_wrong_settings_are_named(wrong, said):
    with pytest.raises((ValueError, TypeError), match=said):
        tr.Settings(**wrong)


def test_wrong_keys_are_named():
    with pytest.raises(TypeError, match="did you mean 'epochs'"):
        tr.Settings.from_json({"epoch": 3})
    with pytest.raises(TypeError, match="tau"):
        tr.Settings(loss="bce", loss_settings={"tau": 1})
    with pytest.raises(TypeError, match="name of a loss"):
        tr.Settings(loss=ls.losses.build("bce"), loss_settings={"smoothing": 0.1})


def test_relabelling():
    y = torch.tensor([[1, 0, float("nan")], [0, 0, 0], [0, 1, 0], [0.4, 0, 0]])
    data = Dataset.from_arrays(torch.zeros(4, 1), y, split=[0, 2, 0, 0])
    p = torch.tensor([[0.1, 0.95, 0.99], [0.9, 0.2, 0.91], [0.99, 0.89, 0.0]])
    labels, added = relabelled(data, p, 0.9)
    want = y.clone()
    want[0, 1] = want[2, 2] = 1  # not the unknown one, not the soft one, not 0.9 itself
    torch.testing.assert_close(labels.dense(), want, equal_nan=True)
    assert added == 2
    whole = Dataset.from_arrays(torch.zeros(2, 1), [[1, 0], [0, 1]], split=[0, 1])
    assert relabelled(whole, torch.zeros(1, 2), 0.9)[0] == whole.labels


def test_pseudo_labels_bring_missing_ones_back():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(900, 6, generator=rng)
    truth = x[:, :4] > 0.3
    seen = truth & (torch.rand(truth.shape, generator=rng) < 0.6)
    split = torch.arange(900) % 3
    y = torch.where(split[:, None] == 0, seen, truth)
    data = Dataset.from_arrays(x, y, split=split)
    both = tr.pseudo_label(data, tr.Settings(epochs=8, lr=0.1), threshold=0.4)
    first, second = ((t.scores["test"] > 0) for t in (both.first, both.second))
    metric, want = ls.metrics.build("f1-micro"), data.part("test").labels
    assert both.added > 60
    assert metric(second, want) > metric(first, want) + 0.02
    again = tr.train(
        replace(data, labels=relabelled(data, both.first.scores["train"].sigmoid(), 0.4)[0]),
        tr.Settings(epochs=8, lr=0.1),
    )
    assert torch.equal(again.scores["test"], both.second.scores["test"])
