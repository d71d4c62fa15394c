"""Folders that training leaves: a run, a run of a blend, and a training that was killed."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import torch

from labelset import calibrate, data, decide
from labelset.files import file_sum
from labelset.model import Blend, Forest, KernelMachine, Mlp, Part, SavedModel, Split

Called = Callable[[list[str]], object]
EPOCHS = 6


def resume(source: Path, run: Path) -> list[str]:
    """What was killed, and goes on."""
    steps = ["--epochs", str(EPOCHS), "--batch", "2", "--checkpoint-every", "0.001s"]
    return ["train", str(source), *steps, "--quiet", "--resume", "--out", str(run)]


def halted(source: Path, run: Path, called: Called) -> Path:
    """A training that was killed as soon as there were two checkpoints."""
    child = os.fork()
    if child == 0:
        called(resume(source, run))
        os._exit(1)
    until = time.monotonic() + 60
    while len(list(run.rglob("checkpoint-*"))) < 2 and time.monotonic() < until:
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "it ended before it was killed"
    return run


def blended(source: Path, run: Path, out: Path) -> Path:
    """The same with a blend of every kind of model."""
    from sklearn.ensemble import ExtraTreesRegressor

    draw = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=draw)

    saved, rows = SavedModel.open(run), data.load(source)
    z, y = saved.encoder(rows), rows.labels.dense()
    trees = ExtraTreesRegressor(3, min_samples_leaf=4, random_state=0).fit(z.numpy(), y.numpy())
    weights = drawn(3, 2, 4), drawn(1, 2, 4, 4), drawn(2, 2, 4), drawn(2, 4, 2), drawn(2, 2)
    models = {
        "head": saved.head,
        "forest": Forest.from_sklearn(trees),
        "networks": Mlp(drawn(3), *weights, None),
        "machine": KernelMachine(z, drawn(len(z), 2), drawn(2), gamma=0.3),
    }
    parts = [Part(name, 0.25, model, calibrate.build("link")) for name, model in models.items()]
    made = SavedModel(saved.names, encoder=saved.encoder, estimator=Blend(tuple(parts)))
    made.about = saved.about
    made.splits = {name: Split(rows.labels, made.score(rows)) for name in ("valid", "test")}
    made.calibrator = calibrate.build("platt").fit(made.splits["valid"].scores, rows.labels)
    p = made.predictor.probabilities(made.splits["valid"].scores)
    made.rule = decide.build("per-class").fit(p, rows.labels)
    made.save(out)
    return out


def resealed(run: Path) -> None:
    """Let the checksums of a run be those of its files, as somebody would who changed them."""
    for path in run.rglob("model.json"):
        try:
            about = json.loads(path.read_text())
            about["files"] = {name: file_sum(path.parent / name) for name in about["files"]}
            about.pop("sum", None)
            content = json.dumps(json.loads(json.dumps(about)), sort_keys=True)
            about["sum"] = hashlib.sha256(content.encode()).hexdigest()
            path.write_text(json.dumps(about))
        except (ValueError, LookupError, TypeError, AttributeError, OSError):
            pass  # what is no such file is left as it is
