"""Killed and resumed: the same numbers as if nothing had happened."""

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest
import torch

from labelset import train as tr
from labelset.data import Dataset
from labelset.train._over_ranks import Parallel

ROWS = 300


def dataset(kind="dense"):
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 8, generator=rng)
    y = x[:, :5] + 0.5 * torch.randn(ROWS, 5, generator=rng) > 0.5
    split = torch.arange(ROWS) % 3
    if kind == "sparse":
        from scipy.sparse import csr_matrix

        x = csr_matrix((x * (x > 0)).numpy())
    if kind == "images":
        return Dataset.from_arrays(images=x.repeat(1, 8).view(ROWS, 1, 8, 8), labels=y, split=split)
    return Dataset.from_arrays(x, y, split=split)


SETTINGS = tr.Settings(loss="asl", epochs=6, ema=0.9, batch=32, seed=5)


class Killed(Exception):
    """Stands for whatever ends a process."""


def killed_at(epoch):
    def stop(news):
        if news.epoch_over and news.epoch == epoch:
            raise Killed

    return stop


def same(one, two):
    for part in one.scores:
        assert torch.equal(one.scores[part], two.scores[part]), part
    strip = [[{**epoch, "seconds": 0} for epoch in run.history] for run in (one, two)]
    assert strip[0] == strip[1]
    assert (one.best_epoch, one.stopped) == (two.best_epoch, two.stopped)


@pytest.mark.parametrize("kind", ["dense", "sparse", "images"])
@pytest.mark.parametrize("optimiser", ["shared-adamw", "sgd"])
def test_resumed_runs_end_alike(kind, optimiser, tmp_path):
    data, settings = dataset(kind), replace(SETTINGS, optimiser=optimiser)
    whole = tr.train(data, settings)
    for epoch in (1, 3):
        with pytest.raises(Killed):
            tr.train(data, settings, tmp_path, epoch > 1, killed_at(epoch), save_seconds=0)
    again = tr.train(data, settings, tmp_path, resume=True, save_seconds=0)
    same(whole, again)
    same(whole, tr.train(data, settings, tmp_path, resume=True))  # nothing is left to do


def test_dropout_is_resumed_as_well(tmp_path):
    data, module = dataset(), torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout())
    whole = tr.train(data, SETTINGS, encoder=module)
    with pytest.raises(Killed):
        tr.train(data, SETTINGS, tmp_path, False, killed_at(2), module, save_seconds=0)
    torch.rand(5)
    same(whole, tr.train(data, SETTINGS, tmp_path, resume=True, encoder=module))


class Dropping(torch.nn.Linear):
    """Ends the process in the middle of an epoch, where it is told to."""

    def __init__(self, stop_at=None):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            super().__init__(8, 8)
        self.stop_at = stop_at

    def forward(self, x):
        if self.training and self.stop_at is not None:
            self.stop_at -= 1
            if not self.stop_at:
                raise Killed
        return torch.nn.functional.dropout(super().forward(x), 0.5, self.training)


def test_random_numbers_follow_from_the_step(tmp_path, monkeypatch):
    """Neither an interruption within an epoch nor what others draw meanwhile changes them."""
    monkeypatch.setattr("labelset.train.network.PAUSE", 0.0)
    data, drawn = dataset(), []
    whole = tr.train(data, SETTINGS, encoder=Dropping())
    with pytest.raises(Killed):
        tr.train(data, SETTINGS, tmp_path, encoder=Dropping(7), save_seconds=0)
    seen = {"progress": lambda news: drawn.append(torch.rand(5))}
    same(whole, tr.train(data, SETTINGS, tmp_path, resume=True, encoder=Dropping(), **seen))
    assert len(drawn) > SETTINGS.epochs  # within epochs as well


def test_generators_are_left_as_they_were():
    before = torch.get_rng_state()
    tr.train(dataset(), replace(SETTINGS, epochs=1), encoder=Dropping())
    assert torch.equal(torch.get_rng_state(), before)


def test_every_step_draws_other_numbers():
    masks = []

    class Seen(Dropping):
        def forward(self, x):
            if self.training:
                masks.append(torch.rand(4))
            return super().forward(x)

    tr.train(dataset(), replace(SETTINGS, epochs=2), encoder=Seen())
    assert len({tuple(mask.tolist()) for mask in masks}) == len(masks) == 8


def test_patience_is_resumed(tmp_path):
    data = dataset()
    noise = data.labels[torch.randperm(ROWS, generator=torch.Generator().manual_seed(1))]
    data = replace(data, labels=noise)
    settings = replace(SETTINGS, patience=2, epochs=40, lr=0.3, ema=0.0)
    whole = tr.train(data, settings)
    assert whole.stopped == "patience"
    with pytest.raises(Killed):
        tr.train(
            data, settings, tmp_path, progress=killed_at(len(whole.history) - 2), save_seconds=0
        )
    same(whole, tr.train(data, settings, tmp_path, resume=True))


CHILD = """
    import os, signal, sys
    sys.path.insert(0, {tests!r})
    import torch
    torch.set_num_threads(1)
    import test_resume as t
    def die(news):
        if news.epoch_over and news.epoch == 2:
            os.kill(os.getpid(), signal.SIGKILL)
    t.tr.train(t.dataset(), t.SETTINGS, {folder!r}, progress=die, save_seconds=0)
"""


@pytest.mark.slow
def test_a_process_killed_by_force(tmp_path):
    code = textwrap.dedent(CHILD.format(tests=os.path.dirname(__file__), folder=str(tmp_path)))
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == [".lock", *(f"checkpoint-0000000{n}.safetensors" for n in (11, 12))]
    seen = []
    again = tr.train(dataset(), SETTINGS, tmp_path, resume=True, progress=seen.append)
    assert min(news.epoch for news in seen) == 3
    same(tr.train(dataset(), SETTINGS), again)


def test_without_resume_training_starts_anew(tmp_path):
    tr.train(dataset(), SETTINGS, tmp_path)
    seen = []
    tr.train(dataset(), replace(SETTINGS, seed=1), tmp_path, progress=seen.append)
    assert min(news.epoch for news in seen) == 0


def test_few_epochs_need_few_checkpoints(tmp_path, monkeypatch):
    times = []
    monkeypatch.setattr(
        "labelset.train._checkpoint.write_with", lambda path, write: times.append(path)
    )
    tr.train(dataset(), SETTINGS, tmp_path, save_seconds=1000)
    assert len(times) == 1  # the last


def test_checkpoints_of_another_training_are_refused(tmp_path):
    data = dataset()
    tr.train(data, SETTINGS, tmp_path)
    other = replace(data, labels=dataset().labels[torch.arange(ROWS).flip(0)])
    with pytest.raises(tr.BadCheckpoint, match="epochs = 6, not 7"):
        tr.train(data, replace(SETTINGS, epochs=7), tmp_path, resume=True)
    with pytest.raises(tr.BadCheckpoint, match="its data is not the same"):
        tr.train(other, SETTINGS, tmp_path, resume=True)
    with pytest.raises(tr.BadCheckpoint, match="encoder name = 'features', not 'module'"):
        tr.train(data, SETTINGS, tmp_path, resume=True, encoder=torch.nn.Linear(8, 3))
    assert len(list(tmp_path.iterdir())) == 1


class Evil:
    def __reduce__(self):
        return (os.system, ("touch evil",))


def test_a_checkpoint_cannot_run_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(Evil(), tmp_path / "checkpoint.pt")
    with pytest.raises(tr.BadCheckpoint):
        tr.train(dataset(), SETTINGS, tmp_path, resume=True)
    assert not (tmp_path / "evil").exists()


def test_the_best_weights_go_where_the_model_is():
    """Those of an epoch before the interruption are judged again at the end, on its device."""
    held, like = {"bias": torch.ones(3)}, {"bias": torch.ones(3, device="meta")}
    assert Parallel().cut(held, like)["bias"].device.type == "meta"
    assert Parallel().cut(held, held)["bias"] is held["bias"]
