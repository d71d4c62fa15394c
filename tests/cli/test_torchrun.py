"""Verbs under torchrun: what one process writes and prints, from several ranks."""

import io
import json
import os
import re
import socket
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
import torch

from labelset.cli import main
from labelset.model import SavedModel
from labelset.runs import Task

pytestmark = pytest.mark.slow

WORKER = Path(__file__).with_name("torchrun_worker.py")
LOSSES = ["--losses", "bce", "two-way", "--heads", "linear", "dft:k=1", "--seeds", "1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Data: features of 2,500 rows, so that there are three batches to predict."""
    folder = tmp_path_factory.mktemp("data")
    g = torch.Generator().manual_seed(0)
    x = torch.randn(2500, 6, generator=g)
    y = (x[:, :4] + 0.5 * torch.randn(2500, 4, generator=g)) > 0.7
    np.savez(folder / "d.npz", X=x[:400].numpy(), Y=y[:400].numpy())
    np.save(folder / "x.npy", x.numpy())
    with open(folder / "x.jsonl", "w") as file:
        file.writelines(json.dumps({"features": row.tolist()}) + "\n" for row in x[:1100])
    np.save(folder / "scores.npy", torch.randn(1300, 4, generator=g).numpy())
    np.save(folder / "weight.npy", torch.randn(30, 4, generator=g).double().numpy())
    sets = torch.rand(25, 30, generator=g) < 0.5
    sets[:12] = torch.randn(12, 4, generator=g) @ torch.randn(4, 30, generator=g) > 0
    np.save(folder / "sets.npy", sets.numpy())
    np.save(folder / "one.npy", sets[:1].numpy())  # fewer label sets than ranks
    return folder


def commands(place, out):
    """All verbs that know ranks. New rows are predicted by the model of one process."""
    short = ["--epochs", "2", "--batch", "64"]
    compare = ["compare", f"{place}/d.npz", *short, *LOSSES, "--quiet", "--out"]
    predict, verify = ["predict", f"{place}/alone/train"], ["verify", f"{place}/weight.npy"]
    return {
        "train": ["train", f"{place}/d.npz", *short, "--loss", "two-way", "--out", f"{out}/train"],
        "models": [*compare, f"{out}/models"],
        "ddp": [*compare, f"{out}/ddp", "--parallel", "ddp"],
        "resumed": [*compare, f"{out}/models", "--resume"],
        "npy": [*predict, f"{place}/x.npy", "--out", f"{out}/npy.jsonl"],
        "csv": [*predict, f"{place}/x.jsonl", "--to", "csv"],
        "scores": [*predict, f"{place}/scores.npy", "--scores", "--out", f"{out}/scores.jsonl"],
        "verify": [*verify, f"{place}/sets.npy", "--check", "--out", f"{out}/proofs.json"],
        "verify one": [*verify, f"{place}/one.npy", "--check", "--out", f"{out}/one.json"],
        "there already": [*compare, f"{out}/models"],  # the last: only the first rank looks
    }


def torchrun(ranks, *command):
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return subprocess.run(
        [*start, "--nproc-per-node", str(ranks), *map(str, command)],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )


@pytest.fixture(scope="module")
def alone(place):
    """Everything in this process: what was said, and how it ended."""
    (place / "alone").mkdir()
    found = {}
    for name, command in commands(place, place / "alone").items():
        with redirect_stdout(io.StringIO()) as said:
            found[name] = main(command), said.getvalue()
    return found


@pytest.fixture(scope="module")
def two(place, alone, tmp_path_factory):
    """Everything by two ranks, in one start of torchrun."""
    out = tmp_path_factory.mktemp("two")
    listed = commands(place, out)
    (out / "commands.json").write_text(json.dumps([*listed.values()]))
    ended = torchrun(2, WORKER, out / "commands.json", out)
    assert ended.returncode == 0, ended.stderr[-3000:]
    said = re.split(r"^=== \w+\n", ended.stdout, flags=re.M)[1:]
    status = [json.loads((out / f"{rank}.json").read_text()) for rank in (0, 1)]
    return out, dict(zip(listed, zip(*status, said, strict=True), strict=True)), ended.stderr


def far(one, two):
    """The largest difference of the weights and scores of two runs."""
    a, b = SavedModel.open(one), SavedModel.open(two)
    pairs = [(a.splits[p].scores, b.splits[p].scores) for p in ("valid", "test")]
    pairs.append((a.head.matrix()[0].detach(), b.head.matrix()[0].detach()))
    return max(float((x - y).abs().max()) for x, y in pairs)


def test_one_model_is_trained_together(place, two):
    out, found, _ = two
    assert far(place / "alone" / "train", out / "train") < 1e-5
    assert found["train"][:2] == (0, 0)
    assert found["train"][2].count("model: ") == 1
    assert not list(out.rglob("checkpoint*"))


def test_models_are_dealt_out_and_no_byte_differs(place, two, alone):
    out, found, _ = two
    for name in ("results.csv", "summary.csv", "compare.json"):
        mine = (place / "alone" / "models" / name).read_bytes()
        assert (out / "models" / name).read_bytes() == mine, name
    said = alone["models"][1].replace(str(place / "alone"), str(out))
    assert found["models"][2] == found["resumed"][2] == said


def test_each_model_is_trained_together_where_that_is_asked_for(place, two):
    out = two[0]
    # no slope of two-way along the first column of dft: Adam steps by its rounding alone
    for loss, head in (("bce", "linear"), ("bce", "dft:k=1"), ("two-way", "linear")):
        where = Path("ddp", Task(loss, head, 0).folder)
        assert far(place / "alone" / where, out / where) < 1e-5, where


def test_predictions_are_the_same_bytes(place, two, alone):
    out, found, _ = two
    for name in ("npy.jsonl", "scores.jsonl"):
        assert (out / name).read_bytes() == (place / "alone" / name).read_bytes(), name
    assert len((out / "npy.jsonl").read_text().splitlines()) == 2500
    assert found["csv"] == (0, 0, alone["csv"][1])


def test_verdicts_and_proofs_are_the_same_bytes(place, two, alone):
    out, found, _ = two
    for name in ("proofs.json", "one.json"):
        assert (out / name).read_bytes() == (place / "alone" / name).read_bytes(), name
    assert found["verify"][0] == found["verify"][1] == alone["verify"][0]
    assert found["verify"][2].count("every proof checked again") == 1


def test_what_only_the_first_rank_finds_wrong_is_said_once(two):
    _, found, err = two
    assert found["there already"][:2] == (2, 2)
    assert err.count("labelset: ") == err.count("--resume, or --force") == 1


def test_what_all_find_wrong_is_said_once(place, alone):
    ended = torchrun(2, "-m", "labelset", "predict", place / "alone" / "train", "-")
    assert ended.returncode != 0
    assert ended.stderr.count("labelset: ") == ended.stderr.count("give a file") == 1
    assert not ended.stdout


def test_ranks_of_two_machines(place, alone, tmp_path):
    """Two starts of torchrun, one rank each, that find one another over the network."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nnodes",
        "2",
        "--nproc-per-node",
        "1",
    ]
    start += ["--master-addr", "127.0.0.1", "--master-port", str(port), "--node-rank"]
    command = commands(place, tmp_path)["train"]
    nodes = [
        subprocess.Popen(
            [*start, str(node), "-m", "labelset", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        for node in (0, 1)
    ]
    said = [node.communicate(timeout=200)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    assert [text.count("model: ") for text in said] == [1, 0]
    assert far(place / "alone" / "train", tmp_path / "train") < 1e-5
