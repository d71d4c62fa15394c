"""The command line killed, doubled, asked to end, out of space, with damaged files."""

import json
import logging
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from labelset.cli import main
from labelset.files import folder_lock
from labelset.model import SavedModel
from labelset.runs import judgement_of


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(600, 8, generator=g)
    y = x[:, :5] + 0.5 * torch.randn(600, 5, generator=g) > 0.5
    path = tmp_path_factory.mktemp("data") / "d.npz"
    np.savez(path, X=x.numpy(), Y=y.numpy(), split=torch.arange(600) % 3)
    return path


def contents(folder):
    """Every file below a folder, by its name."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


class Child:
    """A forked process, since starting Python takes seconds; what it says goes into a pipe."""

    def __init__(self, argv, prepare=lambda: None):
        self.pipe, self.end = os.pipe()
        self.process = multiprocessing.get_context("fork").Process(
            target=self._run, args=(argv, prepare)
        )
        self.process.start()
        os.close(self.end)
        self.pid = self.process.pid

    def _run(self, argv, prepare):
        for number in (1, 2):
            os.dup2(self.end, number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        logging.getLogger().handlers.clear()  # of pytest
        prepare()
        try:
            status = main(argv)
        except SystemExit as error:
            status = error.code
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    @property
    def alive(self):
        return self.process.exitcode is None

    def kill(self):
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
        self.process.join()
        os.close(self.pipe)

    def ended(self, within=60):
        """Exit status and what was said."""
        self.process.join(within)
        if self.alive:
            self.kill()
            pytest.fail("it hangs")
        with open(self.pipe) as said:
            return self.process.exitcode, said.read()


def train_command(file, out, *more):
    return ["train", str(file), "--epochs", "12", "--batch", "20", "--out", str(out), *more]


def wait_for(found, seconds=60):
    until = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < until
        time.sleep(0.005)


def spoil(path, how="changed"):
    """Change one byte near the end, or cut it in two."""
    good = path.read_bytes()
    changed = good[:-30] + bytes([good[-30] ^ 4]) + good[-29:]
    path.write_bytes(good[: len(good) // 2] if how == "short" else changed)


# ---- the command line, killed ------------------------------------------------------------------


@pytest.fixture(scope="module")
def undisturbed(file, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "r"
    assert main(train_command(file, out)) == 0
    return out


RESULTS = ("results.csv", "summary.csv", "best/head.safetensors", "best/test.npz")


def same_results(out, whole):
    for name in RESULTS:
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name
    assert not list(out.rglob(".*"))


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on_to_the_same_end(file, undisturbed, tmp_path):
    out, draw, kills = tmp_path / "r", random.Random(time.time_ns()), 0
    command = train_command(file, out, "--checkpoint-every", "0.001s", "--resume")
    for _ in range(12):
        child = Child(command)
        child.process.join(draw.uniform(0, 0.25))
        kills += child.alive
        child.kill()
    assert kills
    assert main(command) == 0
    same_results(out, undisturbed)


def half_done(file, out):
    """A training that was killed with two checkpoints on disk; their folder."""
    child = Child(train_command(file, out, "--checkpoint-every", "0.001s"))
    folder = out / "work/bce+linear/0/checkpoint"
    wait_for(lambda: len(list(folder.glob("checkpoint*"))) > 1)
    child.kill()
    return folder


@pytest.mark.slow
def test_damage_on_the_command_line(file, undisturbed, tmp_path):
    out = tmp_path / "r"
    folder, keep = half_done(file, out), tmp_path / "keep"
    newest = sorted(folder.glob("checkpoint*"))[-1]
    shutil.copytree(out, keep)
    spoil(newest)
    command = train_command(file, out, "--resume")
    status, said = Child(command).ended()
    assert status == 0
    assert said.startswith(f"{newest}: is damaged: its checksum is not that of its content; going")
    same_results(out, undisturbed)
    shutil.rmtree(out)
    keep.rename(out)
    for path in folder.glob("checkpoint*"):
        spoil(path, "short")
    before = contents(out)
    status, said = Child(command).ended()
    assert status == 2
    assert said.count("\n") == 1
    before = {name: held for name, held in before.items() if "/." not in f"/{name}"}
    assert contents(out) == before
    shutil.rmtree(folder)
    assert main(command) == 0
    same_results(out, undisturbed)


def test_damage_to_what_is_done(file, undisturbed, tmp_path):
    out = tmp_path / "r"
    shutil.copytree(undisturbed, out)
    command = train_command(file, out, "--resume")
    for name in ("done.json", "judged.npz", "head.safetensors"):
        path = out / "work/bce+linear/0" / name
        spoil(path)
        status, said = Child(command).ended()
        assert status == 0
        assert said.startswith(f"{path}: is damaged")
        same_results(out, undisturbed)
    spoil(out / "plan.json")
    before = contents(out)
    status, said = Child(command).ended()
    assert status == 2
    assert "plan.json: is damaged: start again with --force" in said
    assert contents(out) == before
    (out / "plan.json").unlink()  # then nobody knows of which data these models are
    before = contents(out)
    for how in ("--resume", "--force", "--quiet"):
        status, said = Child(train_command(file, out, how)).ended()
        assert status == 2
        assert "plan.json: is missing" in said
        assert contents(out) == before


def test_a_damaged_model_is_not_used(undisturbed, tmp_path):
    judged = "judgement.npz"
    for path in [
        p for p in (undisturbed / "best").iterdir() if p.name not in ("model.json", judged)
    ]:
        shutil.copytree(undisturbed / "best", tmp_path, dirs_exist_ok=True)
        spoil(tmp_path / path.name)
        with pytest.raises(ValueError, match=f"damaged run: {path.name} is not as it was saved"):
            SavedModel.open(tmp_path)
    shutil.copytree(undisturbed / "best", tmp_path, dirs_exist_ok=True)
    whole = judgement_of(SavedModel.open(tmp_path))
    spoil(tmp_path / judged)
    again = judgement_of(SavedModel.open(tmp_path))  # it can be found again, and is
    assert again.digest == whole.digest
    assert again.probabilities.equal(whole.probabilities)
    assert again.findings == whole.findings


def test_asked_to_end_it_ends(file, undisturbed, tmp_path):
    out = tmp_path / "r"
    command = train_command(file, out, "--checkpoint-every", "0.001s")
    child = Child(command)
    wait_for(lambda: list(out.glob("work/*/0/checkpoint/check*")))
    os.kill(child.pid, signal.SIGTERM)
    assert child.ended() == (143, "labelset: stopped by SIGTERM; go on with --resume\n")
    assert not list(out.rglob(".*"))
    assert main([*command, "--resume"]) == 0
    same_results(out, undisturbed)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent(file, tmp_path, number):
    out = tmp_path / "r"
    command = ["compare", str(file), "--losses", "bce", "asl", "--seeds", "1", "--jobs", "2"]
    command += ["--epochs", "100000", "--quiet", "--out", str(out)]
    child = Child(command)
    wait_for(lambda: len(list(out.glob("work/*/0/checkpoint/check*"))) >= 2)
    workers = [int(p.read_text()) for p in out.glob("work/*/0/checkpoint/.lock")]
    assert len(workers) == 2
    os.kill(child.pid, number)
    assert child.ended()[0] == (143 if number == signal.SIGTERM else -9)
    wait_for(lambda: not any(map(running, workers)), 5)
    with folder_lock(out):
        pass
    if number == signal.SIGTERM:
        assert not list(out.rglob(".*"))


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


# ---- a full disk -------------------------------------------------------------------------------


@pytest.mark.slow
def test_files_that_may_not_grow(file, undisturbed, tmp_path):
    """Each limit stops another file: checkpoints, scores, the report."""
    out, seen = tmp_path / "r", set()
    command = ["compare", str(file), "--losses", "bce", "--seeds", "1", "--jobs", "1", "--batch"]
    command += ["20", "--epochs", "12", "--resume", "--quiet", "--out", str(out)]

    def limited(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    for size in (100, 1000, 4000, 8000, 20_000, 60_000):
        before = contents(out) if out.exists() else {}
        status, said = Child(command, lambda size=size: limited(size)).ended()
        if status == 0:
            break
        assert status == 2, said
        assert said.count("\n") == 1
        name = re.fullmatch(r"labelset: cannot write \S*/(\S+): File too large; .*\n", said)[1]
        seen.add(name)
        assert not list(out.rglob(".*"))
        assert {k: v for k, v in contents(out).items() if k in before and "checkp" not in k} == {
            k: v for k, v in before.items() if "checkp" not in k
        }
    assert len(seen) >= 3, seen
    assert main(command) == 0
    same_results(out, undisturbed)


@pytest.fixture
def small(tmp_path):
    """A file system of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_file_system(file, undisturbed, tmp_path, small):
    out, ballast = small / "r", small / "ballast"
    command = train_command(file, out, "--checkpoint-every", "0.001s", "--resume")
    for room in (4, 12, 24, 36):
        ballast.write_bytes(bytes(1024 * (64 - room) - sum(map(len, contents(small).values()))))
        status, said = Child(command).ended()
        assert status == 2
        assert re.fullmatch(r"labelset: .*No space left on device.*\n", said)
        assert not list(out.rglob(".*"))
        ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=4m", str(small)], check=True)
    assert main(command) == 0
    same_results(out, undisturbed)


def test_results_on_a_full_file_system(undisturbed, small):
    (small / "ballast").write_bytes(bytes(1024 * 64))
    for command in (["verify", str(undisturbed), "--quiet"], ["predict", str(undisturbed), "test"]):
        status, said = Child([*command, "--out", str(small / "found")]).ended()
        assert status == 2
        assert f"cannot write {small / 'found'}: No space left on device" in said
        assert [path.name for path in small.iterdir()] == ["ballast"]


def test_a_diagram_on_a_full_file_system(undisturbed, small):
    """The old one stays, and so does the run, whose map would not be the one that was drawn."""
    (small / "d.svg").write_text("old")
    (small / "ballast").write_bytes(bytes(1024 * 60))
    before = contents(undisturbed)
    command = [
        "calibrate",
        str(undisturbed),
        "--map",
        "isotonic",
        "--diagram",
        str(small / "d.svg"),
    ]
    status, said = Child(command).ended()
    assert status == 2
    assert f"cannot write {small / 'd.svg'}: No space left on device" in said
    assert sorted(path.name for path in small.iterdir()) == ["ballast", "d.svg"]
    assert (small / "d.svg").read_text() == "old"
    assert contents(undisturbed) == before


# ---- a candidate that fails ------------------------------------------------------------------


def test_a_candidate_that_fails_leaves_the_others(file, tmp_path, capsys):
    out = tmp_path / "r"
    command = ["compare", str(file), "--losses", "bce", "asl", "--baseline", "asl", "--jobs", "1"]
    command += ["--seeds", "2", "--epochs", "2", "--lr", "1e38", "--train", "optimiser=sgd"]
    assert main([*command, "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert re.search(r"^bce\+linear +failed", told.out, re.M)
    assert re.search(r"^bce\+linear failed, seed 0: .* became .* in epoch \d", told.out, re.M)
    assert "bce+linear seed 1: failed: " in told.err
    rows = (out / "results.csv").read_text().splitlines()
    assert (
        sum(row.startswith("bce,linear,0,train,failed,") and "in epoch" in row for row in rows) == 1
    )
    assert sum(row.startswith("asl,") for row in rows) > 10
    assert "bce+linear failed and is not shown" in (out / "report.html").read_text()
    assert json.loads((out / "compare.json").read_text())["failed"].keys() == {"bce+linear"}
    before = contents(out)
    assert main([*command, "--out", str(out), "--resume", "--quiet"]) == 0
    assert contents(out)["results.csv"] == before["results.csv"]
    assert main(["report", str(out)]) == 0
    capsys.readouterr()
    alone = ["train", str(file), "--lr", "1e38", "--train", "optimiser=sgd"]
    assert main([*alone, "--out", str(tmp_path / "t")]) == 2
    assert "bce+linear failed, seed 0: " in capsys.readouterr().err


def test_a_wrong_interval_is_refused(file, tmp_path, capsys):
    assert main(train_command(file, tmp_path / "r", "--checkpoint-every", "often")) == 2
    assert "a time is given as 90s, 10m or 2h, got 'often'" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
