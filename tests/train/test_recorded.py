"""Steps that are played back on a GPU; without one there is nothing to record."""

import pytest
import torch
from torch import nn

from labelset.data import Dataset
from labelset.train import Settings, train

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def pictures(rows=330, labels=5):
    g = torch.Generator().manual_seed(0)
    images = torch.rand(rows, 3, 8, 8, generator=g)
    y = images.mean((2, 3)) @ torch.randn(3, labels, generator=g) > 0
    return Dataset.from_arrays(None, y, images=images, split=[i % 11 // 9 for i in range(rows)])


def network():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(192, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2)
    )


def settings(**changes):
    usual = {"epochs": 12, "batch": 32, "lr": 0.01, "device": "cuda", "optimiser": "adamw"}
    return Settings(**(usual | changes))


def trained(module, **changes):
    return train(pictures(), settings(**changes), encoder=module)


class Counting(nn.Module):
    """What is played back runs no Python."""

    def __init__(self, then):
        super().__init__()
        self.inner, self.then, self.calls = network(), then, 0

    def forward(self, x):
        if self.training:
            self.then(x)
            Counting.seen += 1
        return self.inner(x)


def calls(then, **changes):
    Counting.seen = 0
    torch.manual_seed(0)
    done = trained(Counting(then), **changes)
    return Counting.seen, done.scores["valid"]


STEPS = 12 * 9


@pytest.mark.parametrize("loss", ["bce", "two-way", "splc"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_what_is_played_back_is_the_step_itself(loss, precision, monkeypatch):
    from labelset.train import _state

    count, scores = calls(lambda x: None, loss=loss, precision=precision)
    assert count < STEPS / 2
    monkeypatch.setattr(_state, "WORTH", 1 << 60)
    count, usual = calls(lambda x: None, loss=loss, precision=precision)
    assert count == STEPS
    torch.testing.assert_close(scores, usual, atol=1e-3, rtol=1e-3)  # dense labels, not stored ones


@pytest.mark.parametrize("then", [lambda x: float(x.sum()), lambda x: torch.rand(1)])
def test_networks_that_cannot_be_recorded_are_trained_as_usual(then, monkeypatch):
    from labelset.train import _state

    count, scores = calls(then)
    assert count >= STEPS
    monkeypatch.setattr(_state, "WORTH", 1 << 60)
    torch.testing.assert_close(scores, calls(then)[1], atol=1e-3, rtol=1e-3)


def test_a_killed_training_goes_on_to_the_same_result(tmp_path, monkeypatch):
    from labelset.train import network as loop

    class Killed(Exception):
        pass

    saved, save = [], loop._save

    def save_and_die(*given, **keys):
        save(*given, **keys)
        saved.append(None)
        if len(saved) == STEPS // 2 + 3:
            raise Killed

    torch.manual_seed(0)
    module = network()
    whole = train(pictures(), settings(), encoder=module)
    monkeypatch.setattr(loop, "_save", save_and_die)
    with pytest.raises(Killed):
        train(pictures(), settings(), tmp_path, encoder=module, save_seconds=0.0)
    monkeypatch.setattr(loop, "_save", save)
    rest = train(pictures(), settings(), tmp_path, True, encoder=module)
    assert torch.equal(whole.scores["valid"], rest.scores["valid"])
