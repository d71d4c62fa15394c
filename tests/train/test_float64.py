"""precision="float64": the same training, with less rounding."""

import pytest
import torch
from scipy.sparse import csr_matrix
from torch import nn

from labelset import train as tr
from labelset.data import Dataset
from labelset.train._state import Training
from labelset.train.task import Task

FEW = {"epochs": 2, "monitor": None, "lr": 0.01}


def task(kind):
    """Data, and an encoder where a module of one's own is tried."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(200, 64, generator=g)
    y, split = x[:, :4] > 0.5, torch.arange(200) % 3
    if kind == "dense":
        return Dataset.from_arrays(x, y, split=split), None
    if kind == "sparse":
        return Dataset.from_arrays(csr_matrix((x * (x > 1)).numpy()), y, split=split), None
    pictures = x.view(-1, 1, 8, 8)
    if kind == "pictures":
        return Dataset.from_arrays(images=pictures, labels=y, split=split), None
    pictures = (40 * pictures + 120).clamp(0, 255).byte()
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8))
    return Dataset.from_arrays(images=pictures, labels=y, split=split), net


@pytest.mark.parametrize("kind", ["dense", "sparse", "pictures", "bytes"])
def test_it_is_the_same_training(kind):
    data, encoder = task(kind)
    plain = tr.train(data, tr.Settings(**FEW), encoder=encoder)
    wide = tr.train(data, tr.Settings(**FEW, precision="float64"), encoder=encoder)
    assert not torch.equal(wide.scores["test"], plain.scores["test"])
    torch.testing.assert_close(wide.scores["test"], plain.scores["test"], atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("kind", ["dense", "pictures"])
def test_what_comes_out_is_float32(kind):
    data, encoder = task(kind)
    found = tr.train(data, tr.Settings(**FEW, precision="float64"), encoder=encoder)
    held = [*found.head.parameters(), *found.encoder.state().values(), *found.scores.values()]
    assert {t.dtype for t in held if t.is_floating_point()} == {torch.float32}


def test_the_finished_model_takes_float32():
    data, encoder = task("bytes")
    settings = tr.Settings(**FEW, precision="float64")
    work = Task.of(data, settings, encoder, None)
    run = Training(work, work.resolved(settings))
    run.best = run.weights()
    assert run.model(torch.zeros(2, 64)).dtype == torch.float64
    assert run.finished()(torch.zeros(2, 64)).dtype == torch.float32


def test_it_goes_on_where_it_stopped(tmp_path):
    def stop(news):
        if news.epoch == 1:
            raise InterruptedError

    data, _ = task("pictures")
    settings = tr.Settings(epochs=3, precision="float64", ema=0.9)
    with pytest.raises(InterruptedError):
        tr.train(data, settings, tmp_path, progress=stop, save_seconds=0)
    again = tr.train(data, settings, tmp_path, resume=True)
    assert torch.equal(again.scores["test"], tr.train(data, settings).scores["test"])
