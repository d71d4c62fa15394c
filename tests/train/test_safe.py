"""Checkpoints that are whole, seen to be damaged, taken in time; and losses that are no numbers."""

import os
import random
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from labelset import train as tr
from labelset.data import Dataset
from labelset.files import (
    Busy,
    CannotWrite,
    folder_lock,
    share,
    write_all,
    write_bytes,
    write_with,
)
from labelset.losses.asl import ASL
from labelset.runs import Plan, compare
from labelset.train import _checkpoint
from labelset.train._checkpoint import Unreadable, read_state, write_state

SETTINGS = tr.Settings(loss="asl", epochs=5, ema=0.9, batch=20, seed=5)  # 4 steps per epoch


def dataset():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(240, 8, generator=g)
    y = x[:, :5] + 0.5 * torch.randn(240, 5, generator=g) > 0.5
    return Dataset.from_arrays(x, y, split=torch.arange(240) % 3)


def same(one, two):
    for part in one.scores:
        assert torch.equal(one.scores[part], two.scores[part])
    assert all(map(torch.equal, one.head.state_dict().values(), two.head.state_dict().values()))
    strip = [[{**epoch, "seconds": 0} for epoch in run.history] for run in (one, two)]
    assert strip[0] == strip[1]


def contents(folder):
    """Every file below a folder, by its name."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# ---- files -------------------------------------------------------------------------------------


def test_several_files_are_replaced_together_or_not_at_all(tmp_path):
    def fail(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    write_bytes(tmp_path / "a", b"old")
    with pytest.raises(CannotWrite, match=r"cannot write .*/b: No space left on device; what was"):
        write_all({tmp_path / "a": lambda f: f.write(b"new"), tmp_path / "b": fail})
    assert contents(tmp_path) == {"a": b"old"}


def test_an_archive_on_a_full_disk_says_so(tmp_path):
    """zipfile raises errors of its own while it gives up."""

    def write(file):
        np.savez(Full(file), x=np.zeros(100_000))

    with pytest.raises(CannotWrite, match="No space"):
        write_with(tmp_path / "x.npz", write)
    assert not contents(tmp_path)


class Full:
    """A file on a disk with room for 1000 bytes."""

    def __init__(self, file):
        self.file = file

    def write(self, content):
        if self.file.tell() + len(content) > 1000:
            raise OSError(28, "No space left on device")
        return self.file.write(content)

    def __getattr__(self, name):
        return getattr(self.file, name)


# ---- checkpoints -------------------------------------------------------------------------------


def test_a_state_comes_back_as_it_was(tmp_path):
    turned = torch.arange(6.0).view(2, 3).T
    images = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    held = {
        "tensors": [turned, images, torch.tensor(7), torch.zeros(0, 3), torch.tensor([True])],
        3: (1, 0.1, None, "ä"),
        "narrow": torch.randn(3).bfloat16(),
        "number": np.float32(2),
    }
    write_with(tmp_path / "x", lambda f: write_state(f, held))
    again = read_state(tmp_path / "x")
    for one, two in zip(held["tensors"], again["tensors"], strict=True):
        assert torch.equal(one, two)
        assert (one.dtype, one.shape) == (two.dtype, two.shape)
        assert one.stride() == two.stride() or one.numel() == 0
    assert again[3] == held[3]
    assert torch.equal(again["narrow"], held["narrow"])
    assert again["number"] == 2.0


def newest(folder):
    return max(folder.glob("checkpoint*"))


def test_a_checkpoint_is_a_safetensors_file(tmp_path):
    from safetensors.torch import load_file

    done = tr.train(dataset(), SETTINGS, tmp_path)
    path = newest(tmp_path)
    held = load_file(path).values()
    assert any(torch.equal(t.T, done.head.classifier.weight) for t in held if t.ndim == 2)


def test_every_changed_byte_is_seen(tmp_path):
    tr.train(dataset(), SETTINGS, tmp_path)
    path = newest(tmp_path)
    good, draw = path.read_bytes(), random.Random(0)
    header = 8 + int.from_bytes(good[:8], "little")
    places = [*range(100), *(draw.randrange(header) for _ in range(300))]
    places += [*(draw.randrange(header, len(good)) for _ in range(200)), header, len(good) - 1]
    for at in places:
        bad = bytearray(good)
        bad[at] ^= 1 << draw.randrange(8)
        path.write_bytes(bad)
        with pytest.raises(Unreadable):
            read_state(path)
    for length in (
        0,
        1,
        7,
        8,
        9,
        header - 1,
        header,
        *(draw.randrange(len(good)) for _ in "12345"),
    ):
        path.write_bytes(good[:length])
        with pytest.raises(Unreadable):
            read_state(path)
    for bad in (good + b"x", b"\xff" * 100, bytes(1000), b"nonsense"):
        path.write_bytes(bad)
        with pytest.raises(Unreadable):
            read_state(path)
    path.write_bytes(good)
    read_state(path)


def test_another_version_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("labelset.train._checkpoint.FORMAT", "9")
    write_with(tmp_path / "x", lambda f: write_state(f, {}))
    monkeypatch.undo()
    with pytest.raises(Unreadable, match="has format 9, and this labelset reads 2"):
        read_state(tmp_path / "x")


@pytest.fixture
def clock(monkeypatch):
    """A clock for checkpoints by which every look takes a second; there is one look per step."""

    class Clock:
        now = 0.0

        def perf_counter(self):
            self.now += 1
            return self.now

    monkeypatch.setattr(_checkpoint, "time", Clock())


class Killed(Exception):
    """Stands for whatever ends a process."""


def killed_after(steps, every, folder, settings=SETTINGS, **more):
    """Train until so many steps are done."""
    from labelset.train._state import Training

    taken = []

    class Dying(Training):
        def step(self, *args):
            if len(taken) == steps:
                raise Killed
            taken.append(1)
            return super().step(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labelset.train.network.Training", Dying)
        with pytest.raises(Killed):
            tr.train(dataset(), settings, folder, save_seconds=every, **more)


def steps_of(folder):
    return sorted(int(p.stem.split("-")[1]) for p in folder.glob("checkpoint*"))


def test_checkpoints_are_taken_within_epochs(tmp_path, clock):
    killed_after(19, 3, tmp_path)
    first, second = steps_of(tmp_path)
    assert second - first <= 3
    assert 19 - second <= 3  # at most the interval is lost


def test_by_default_writing_takes_a_small_share(tmp_path, clock):
    file = _checkpoint.Checkpoint(tmp_path, {}, None)
    file.save(1, dict)
    assert file._wait == 20  # saving has taken one second of this clock


@pytest.mark.parametrize("dropout", [False, True])
@pytest.mark.parametrize("steps", [1, 3, 4, 6, 11, 19])
def test_killed_after_any_step_it_ends_alike(tmp_path, steps, dropout):
    parts = (torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout())
    module = torch.nn.Sequential(*parts) if dropout else None
    whole = tr.train(dataset(), SETTINGS, encoder=module)
    killed_after(steps, 0, tmp_path, encoder=module)
    assert steps_of(tmp_path)[-1] == steps
    torch.rand(3)
    same(whole, tr.train(dataset(), SETTINGS, tmp_path, resume=True, encoder=module))


def spoil(path, how):
    good = path.read_bytes()
    at = {"head": 40, "tensors": len(good) - 30}.get(how, 0)
    changed = bytes([good[at] ^ 4])
    bad = {"empty": b"", "short": good[: len(good) // 2], "old": b"PK\3\4 a pickle"}
    path.write_bytes(bad.get(how, good[:at] + changed + good[at + 1 :]))


@pytest.mark.parametrize("how", ["head", "tensors", "empty", "short", "old"])
def test_the_last_good_checkpoint_is_used(tmp_path, how, caplog):
    killed_after(10, 0, tmp_path)
    spoil(tmp_path / "checkpoint-000000010.safetensors", how)
    killed_after(0, 0, tmp_path, resume=True)
    assert steps_of(tmp_path) == [9, 10]  # nothing is removed before there is something better
    again = tr.train(dataset(), SETTINGS, tmp_path, resume=True, save_seconds=0)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert re.search(r"checkpoint-0+10\.safetensors: (is|has) .*going on from .*-0+9\.", lines[1])
    same(tr.train(dataset(), SETTINGS), again)
    assert steps_of(tmp_path) == [19, 20]


def test_without_any_good_one_nothing_is_touched(tmp_path):
    killed_after(10, 0, tmp_path)
    for path in tmp_path.glob("checkpoint*"):
        spoil(path, "tensors")
    before = contents(tmp_path)
    with pytest.raises(tr.BadCheckpoint, match="no checkpoint is left to go on from: delete"):
        tr.train(dataset(), SETTINGS, tmp_path, resume=True)
    assert contents(tmp_path) == before


def test_what_a_killed_process_was_writing_is_removed(tmp_path):
    killed_after(6, 0, tmp_path)
    (tmp_path / ".checkpoint-000000007.safetensors.123.part").write_bytes(b"half")
    tr.train(dataset(), SETTINGS, tmp_path, resume=True)
    assert not list(tmp_path.glob(".*"))


# ---- losses and weights that are no numbers ----------------------------------------------------


class Bad(ASL):
    """Turns the value, or only its gradient, into `made` at the last step of epoch 2."""

    calls, made, gradient = 0, float("nan"), False

    def at(self, epoch):
        return self

    def __call__(self, logits, labels):
        value = super().__call__(logits, labels)
        Bad.calls += 1
        if Bad.calls != 8:
            return value
        if not self.gradient:
            return value * self.made
        return torch.where(value > 0, value, value) + 0 * torch.sqrt((logits - logits).sum())


@pytest.mark.parametrize(
    ("made", "gradient", "says"),
    [
        (float("nan"), False, "the loss became nan in epoch 2 of 5 .*at step 4 of 4, after a mean"),
        (float("inf"), False, "the loss became inf in epoch 2"),
        (0, True, "the weights became infinite or NaN by their gradient in epoch 2 .*step 4 of 4"),
    ],
)
def test_what_is_no_number_stops_training(tmp_path, monkeypatch, made, gradient, says):
    for name, value in {"calls": 0, "made": made, "gradient": gradient}.items():
        monkeypatch.setattr(Bad, name, value)
    settings = replace(SETTINGS, loss=Bad(), monitor=None)
    with pytest.raises(tr.Diverged, match=says) as caught:
        tr.train(dataset(), settings, tmp_path, save_seconds=0)
    assert "lower learning rate" in str(caught.value)
    assert "huge values among the inputs" in str(caught.value)
    assert str(caught.value).endswith(f"{tmp_path}/checkpoint-000000007.safetensors")
    assert steps_of(tmp_path) == [6, 7]
    for path in tmp_path.glob("checkpoint*"):
        held = read_state(path)["state"]["model"].values()
        assert all(bool(t.isfinite().all()) for t in held)


# ---- one at a time -----------------------------------------------------------------------------


def test_two_at_once_are_refused_and_a_stale_lock_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr("labelset.files.PATIENCE", 0.1)
    plan = Plan(losses=("bce",), seeds=1, training={"epochs": 1})
    with folder_lock(tmp_path), pytest.raises(Busy, match=f"its id is {os.getpid()}"):
        tr.train(dataset(), SETTINGS, tmp_path)
    with folder_lock(tmp_path), pytest.raises(Busy, match="another process is at work here"):
        compare(dataset(), plan, tmp_path, resume=True)
    assert not list(tmp_path.iterdir())
    (tmp_path / ".lock").write_text("1")  # of a process that was killed
    tr.train(dataset(), SETTINGS, tmp_path)
    assert steps_of(tmp_path)[-1] == 20
    assert not (tmp_path / ".lock").exists()


def test_files_that_are_alike_are_one_until_one_is_written_anew(tmp_path):
    for name, content in (("a/x.bin", b"123"), ("b/x.bin", b"123"), ("c/x.bin", b"124")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(content)
    share(tmp_path, "x*.bin")
    a, b, c = (tmp_path / name / "x.bin" for name in "abc")
    assert a.samefile(b)
    assert not a.samefile(c)
    assert sorted(path.name for path in tmp_path.rglob("*.bin*")) == ["x.bin"] * 3
    share(tmp_path, "x*.bin")
    write_bytes(b, b"9")
    assert (a.read_bytes(), b.read_bytes(), c.read_bytes()) == (b"123", b"9", b"124")
