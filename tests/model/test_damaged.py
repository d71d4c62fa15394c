"""Runs that were damaged on disk, and verbs that were killed while they wrote."""

import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from labelset.cli import main
from labelset.model import SavedModel

BARE = re.compile(r"Errno|Traceback|object at 0x|codec can't|char \d+|Expecting|zip file")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Rows, and a comparison of two losses."""
    folder = tmp_path_factory.mktemp("made")
    g = torch.Generator().manual_seed(0)
    x = torch.randn(240, 6, generator=g)
    y = x[:, :3] + 0.5 * torch.randn(240, 3, generator=g) > 0.3
    np.savez(folder / "d.npz", X=x.numpy(), Y=y.numpy(), split=torch.arange(240) % 3)
    assert called(compare(folder / "d.npz", folder / "run"))[0] == 0
    return folder


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Rows, and a search among them, which small networks win."""
    folder = tmp_path_factory.mktemp("searched")
    g = torch.Generator().manual_seed(0)
    x = torch.randn(90, 4, generator=g)
    y = torch.stack([x[:, 0] > 0.3, x[:, 0] * x[:, 1] > 0, x[:, 2] * x[:, 3] > 0], dim=1)
    np.savez(folder / "d.npz", X=x.numpy(), Y=y.numpy(), split=2 * (torch.arange(90) % 3 > 1))
    plan = ["--losses", "bce", "--quiet", "--out", folder / "run"]
    assert called(["compare", folder / "d.npz", *plan])[0] == 0
    return folder


def compare(source, out, *more):
    plan = ["--epochs", "2", "--losses", "bce", "spa", "--seeds", "1", "--quiet"]
    return ["compare", source, *plan, "--out", out, *more]


def called(argv):
    """Exit status, output and errors."""
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        status = main(list(map(str, argv)))
    return status, out.getvalue(), said.getvalue()


def verbs(made, run):
    """Verbs that read a run, by name."""
    return {
        "evaluate": ["evaluate", run, "--json"],
        "predict": ["predict", run, made / "d.npz"],
        "decide": ["decide", run, "--json"],
        "calibrate": ["calibrate", run, "--json"],
        "report": ["report", run],
        "doctor": ["doctor", run, "--json"],
        "export": ["export", run, "--safetensors", made / "head.safetensors"],
        "query": ["query", run, "0"],
        "resume": compare(made / "d.npz", run, "--resume"),
    }


def contents(folder):
    """Every file below a folder, by its name."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def damage(path, how):
    good = path.read_bytes()
    path.unlink()
    if how == "flipped":
        at = random.Random(path.name).randrange(len(good))
        path.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
    elif how == "short":
        path.write_bytes(good[: len(good) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "a folder":
        path.mkdir()


def wrong(run, verb, argv, due):
    """What is wrong with how a verb takes the damage; nothing where it does not need the file."""
    before = contents(run)
    try:
        status, out, said = called(argv)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if BARE.search(said):
        return f"bare: {said}"
    if status != 2:
        same = status == due[0] and (verb in ("report", "resume") or out == due[1])
        return None if same else f"another answer, status {status}"
    last = said.splitlines()[-1]
    if said.count("labelset: ") != 1 or str(run) not in last:
        return f"not one line that names it: {said}"
    if verb != "resume" and contents(run) != before:
        return "something was changed"
    return None


def all_wrong(made, folder, names, hows, some=None):
    run, found, answers = folder / "run", [], {}
    for verb, argv in verbs(made, run).items():
        if not some or verb in some:
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(made / "run", run)
            answers[verb] = called(argv)
    for name in names:
        for how in hows:
            for verb, argv in verbs(made, run).items():
                if some and verb not in some:
                    continue
                shutil.rmtree(run)
                shutil.copytree(made / "run", run)
                damage(run / name, how)
                problem = wrong(run, verb, argv, answers[verb])
                found += [f"{name} {how}, {verb}: {problem}"] if problem else []
    return found


def test_a_damaged_file_is_named_or_not_needed(made, tmp_path):
    names = ["best/model.json", "best/valid.npz", "best/head.safetensors", "compare.json"]
    hows = ["flipped", "short", "gone", "a folder"]
    assert all_wrong(made, tmp_path, names, hows, ["evaluate", "predict", "decide", "report"]) == []


READING = ("evaluate", "predict", "decide", "calibrate", "report", "doctor")


def test_every_verb_reads_what_a_search_left(searched, tmp_path):
    for verb in READING:
        shutil.copytree(searched / "run", tmp_path / verb)
        status, _, said = called(verbs(searched, tmp_path / verb)[verb])
        assert status in (0, 1), said
    assert (tmp_path / "report" / "best" / "estimator.safetensors").is_file()


def test_a_damaged_file_of_a_search_is_named_or_not_needed(searched, tmp_path):
    names = ["best/estimator.safetensors", "search.json", "work/bce+linear/0/done.json"]
    assert all_wrong(searched, tmp_path, names, ["flipped", "short"], ["predict", "report"]) == []


@pytest.mark.slow
def test_every_file_damaged_in_every_way_before_every_verb(made, tmp_path):
    hows = ["flipped", "short", "gone", "a folder"]
    names = [name for name in contents(made / "run") if "spa+linear" not in name]
    assert all_wrong(made, tmp_path, names, hows) == []


def test_every_changed_letter_of_the_model_is_seen(made, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(made / "run" / "best", run)
    path, draw = run / "model.json", random.Random(0)
    good = path.read_bytes()
    SavedModel.open(run)
    for _ in range(60):
        at = draw.randrange(len(good))
        changed = good[:at] + bytes([good[at] ^ (1 << draw.randrange(7))]) + good[at + 1 :]
        path.write_bytes(changed)
        try:
            same = json.loads(changed) == json.loads(good)  # a blank more between words
        except ValueError:
            same = False
        with contextlib.nullcontext() if same else pytest.raises(ValueError, match="damaged run"):
            SavedModel.open(run)


# ---- killed ------------------------------------------------------------------------------------


def killed(argv, after):
    """Run in a process that ends itself as it is about to force or rename a file, `after` others.

    Whether it was killed, or there were not so many.
    """
    child = os.fork()
    if child == 0:
        left = [after]

        def dying(right):
            def call(*args, **given):
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1
                return right(*args, **given)

            return call

        os.fsync, Path.replace = dying(os.fsync), dying(Path.replace)
        status = 1
        with contextlib.suppress(BaseException):
            status = called(argv)[0]
        os._exit(status)
    ended = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(ended) or os.waitstatus_to_exitcode(ended) == 0
    return os.WIFSIGNALED(ended)


@pytest.mark.parametrize(
    "verb",
    [
        "decide",
        *(pytest.param(v, marks=pytest.mark.slow) for v in ("calibrate", "predict", "export")),
    ],
)
def test_killed_at_any_moment_nothing_is_lost(made, tmp_path, verb):
    run, out = tmp_path / "run", tmp_path / "out"
    argv = {
        "decide": ["decide", run, "--rule", "global"],
        "calibrate": ["calibrate", run, "--map", "platt"],
        "predict": ["predict", run, made / "d.npz", "--out", out],
        "export": ["export", run, "--onnx", out],
    }[verb]

    def fresh():
        for path in (run, out):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        shutil.copytree(made / "run" / "best", run)
        out.write_bytes(b"what was there before")

    def answers():
        return SavedModel.open(run).predictor.digest(), out.read_bytes()

    fresh()
    before = answers()
    assert called(argv)[0] == 0
    after, evaluated = answers(), called(["evaluate", run, "--json"])[1]
    moments = 0
    while True:
        fresh()
        if not killed(argv, moments):
            break
        moments += 1
        assert answers() in (before, after)
        assert called(argv)[0] == 0  # and again, to the end
        assert answers() == after
        assert called(["evaluate", run, "--json"])[1] == evaluated
        assert called(["doctor", run, "--json"])[0] in (0, 1)
    assert moments > 1
