"""Two ranks against one process on this machine: are the results the same, and how much quicker?

    python benchmarks/ranks.py                            -> benchmarks/ranks.csv

Every verb is timed as a user starts it, imports and start-up included, and by the work alone where
it says so itself (seconds of training). One thread per rank, since torchrun gives each one.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from labelset.model import SavedModel

HERE = Path(__file__).parent
TRAINED = {"train (linear head)": "train", "train (conv)": "conv", "train (conv, float64)": "wide"}


def write_data(folder, rows, features, labels, seed=0):
    """Features, and labels that depend on them; weights and label sets to verify."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, features, generator=g)
    y = x @ torch.randn(features, labels, generator=g) / features**0.5 > 1.5
    np.savez(folder / "data.npz", X=x.numpy(), Y=y.numpy())
    np.savez(folder / "small.npz", X=x[:12_000].numpy(), Y=y[:12_000, :100].numpy())
    np.save(folder / "x.npy", x.numpy())
    weight = torch.randn(1500, 40, generator=g).double()
    np.save(folder / "weight.npy", weight.numpy())
    points = torch.randn(6000, 40, generator=g).double()
    np.save(folder / "sets.npy", (points @ weight.T > 0).numpy())


def commands(folder, out):
    """Verb -> its command line; new rows are predicted by the model of one process."""
    given, short = str(folder / "data.npz"), ["--epochs", "12", "--batch", "1024", "--quiet"]
    many = ["--losses", "bce", "focal", "asl", "two-way", "--seeds", "2"]
    deep = ["train", "digits", "--encoder", "conv", *short, "--out"]
    return {
        "train (linear head)": ["train", given, *short, "--out", f"{out}/train"],
        "train (conv)": [*deep, f"{out}/conv"],
        "train (conv, float64)": [*deep, f"{out}/wide", "--train", "precision=float64"],
        "compare": ["compare", f"{folder}/small.npz", *short, *many, "--out", f"{out}/compare"],
        "predict": ["predict", f"{folder}/1/train", f"{folder}/x.npy", "--out", f"{out}/p.jsonl"],
        "verify": ["verify", f"{folder}/weight.npy", f"{folder}/sets.npy", "--json"],
    }


def run(ranks, command):
    """Seconds, and what was printed."""
    start = [sys.executable, "-m", "labelset"]
    if ranks > 1:
        spread = ["--standalone", "--nproc-per-node", str(ranks), "-m", "labelset"]
        start = [sys.executable, "-m", "torch.distributed.run", *spread]
    more = ["--jobs", "1"] if command[0] == "compare" and ranks == 1 else []
    began = time.perf_counter()
    done = subprocess.run(
        [*start, *command, *more],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    return time.perf_counter() - began, done.stdout


def far(one, two):
    """The largest difference of two runs' scores."""
    a, b = SavedModel.open(one).splits["test"].scores, SavedModel.open(two).splits["test"].scores
    return float((a - b).abs().max())


def work(name, out, said):
    """Seconds of the work itself, where the result tells."""
    if name.startswith("train"):
        return sum(
            epoch["seconds"] for epoch in SavedModel.open(out / TRAINED[name]).about["history"]
        )
    return json.loads(said)["seconds"] if name == "verify" else float("nan")


def difference(name, one, two, said):
    """How far the results are apart: of scores, or 0.0 where all bytes agree, else infinite."""
    if name.startswith("train"):
        return far(one / TRAINED[name], two / TRAINED[name])
    if name == "verify":
        a, b = ({**json.loads(text), "seconds": 0} for text in said)
        return 0.0 if a == b else float("inf")
    file = "compare/results.csv" if name == "compare" else "p.jsonl"
    return 0.0 if (one / file).read_bytes() == (two / file).read_bytes() else float("inf")


def rows(folder, ranks):
    """A line per verb."""
    one, two = folder / "1", folder / str(ranks)
    one.mkdir()
    two.mkdir()
    for name, command in commands(folder, one).items():
        alone, said = run(1, command)
        together, again = run(ranks, commands(folder, two)[name])
        yield {
            "verb": name,
            "ranks": ranks,
            "one_s": round(alone, 2),
            "ranks_s": round(together, 2),
            "ratio": round(alone / together, 2),
            "one_work_s": round(work(name, one, said), 2),
            "ranks_work_s": round(work(name, two, again), 2),
            "difference": f"{difference(name, one, two, (said, again)):.1e}",
        }


def main():
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--features", type=int, default=400)
    parser.add_argument("--labels", type=int, default=500)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder, args.rows, args.features, args.labels)
        with open(HERE / "ranks.csv", "w", newline="") as file:
            writer = None
            for row in rows(folder, args.ranks):
                writer = writer or csv.DictWriter(file, list(row), lineterminator="\n")
                if file.tell() == 0:
                    writer.writeheader()
                writer.writerow(row)
                file.flush()
                print(row, flush=True)


if __name__ == "__main__":
    main()
