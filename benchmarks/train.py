"""Training a head: memory at scale, speed, and what sparse features need; in one run.

    python benchmarks/train.py [memory] [speed] [quality]

memory   one epoch on a 150,000 x 50,000 sparse matrix, 60 numbers per row, 200 labels, in a process
         of its own: its time and its peak resident memory.
speed    the same linear head by labelset, by a plain PyTorch loop (the same batches and epochs,
         AdamW), and by scikit-learn's OneVsRestClassifier(LogisticRegression), which trains until
         it converges; how well each ranks test rows says whether the time was well spent.
quality  sparse texts-like features: AdamW as it is against one second moment per output.
Writes benchmarks/train.csv: one row per task and implementation. All on one thread.
"""

import argparse
import csv
import json
import platform
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from scipy import sparse

import labelset as ls
from labelset import train as tr
from labelset.data import Dataset
from labelset.train import task as _task

EPOCHS = 10


def words(rows, columns, each, labels, seed=0):
    """Rows of words with a long tail; a label makes its own 20 words more likely."""
    rng = np.random.default_rng(seed)
    weight = 1 / (np.arange(columns) + 20.0)
    edges = np.cumsum(weight / weight.sum())
    drawn = np.searchsorted(edges, rng.random((rows, each)))
    share = 1 / (np.arange(labels) + 5.0)
    y = rng.random((rows, labels)) < 2 * share / share.sum()
    own = rng.integers(columns // 100, columns, (labels, 20))
    row, label = y.nonzero()
    for _ in range(4):
        place = rng.integers(0, each, len(row))
        drawn[row, place] = own[label, rng.integers(0, 20, len(row))]
    ones = np.ones(rows * each, dtype=np.float32)
    x = sparse.csr_matrix((ones, drawn.ravel(), np.arange(0, rows * each + 1, each)))
    x.resize(rows, columns)
    x.sum_duplicates()
    return x, y


def numbers(rows, columns, labels, seed=0):
    """Dense features and labels that a linear head can partly tell."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, columns), dtype=np.float32)
    score = x @ rng.standard_normal((columns, labels), dtype=np.float32) / np.sqrt(columns)
    noise = rng.standard_normal(score.shape, dtype=np.float32)
    return x, score + noise > 2


def dataset(x, y):
    """Two thirds train, one third test; the last epoch is taken."""
    return Dataset.from_arrays(x, y, split=2 * (np.arange(len(y)) % 3 == 2))


def memory_child():
    """Train, and print time and memory."""
    x, y = words(150_000, 50_000, 60, 200)
    data = Dataset.from_arrays(x, y, split=np.arange(len(y)) % 10 // 8)
    del x, y
    start = time.perf_counter()
    done = tr.train(data, tr.Settings(epochs=1))
    took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    value = done.history[-1]["valid"]
    print(json.dumps({"seconds": took, "peak": peak, "rows": 120_000, "value": value}))


def memory():
    """One row."""
    child = subprocess.run(
        [sys.executable, __file__, "--child"], check=True, capture_output=True, text=True
    )
    found = json.loads(child.stdout)
    return [row("memory 150000x50000x200", "labelset", found, peak_gb=found["peak"] / 1e9)]


def row(task, what, found, **more):
    """One line of the table."""
    return {
        "task": task,
        "what": what,
        "seconds": round(found["seconds"], 3),
        "row_epochs_per_s": round(found["rows"] / found["seconds"]),
        "map@class": round(found["value"], 4),
        "peak_gb": round(more["peak_gb"], 2) if more else "",
    }


def judged(scores, data):
    """Mean average precision on test rows."""
    return ls.metrics.build("map@class")(torch.as_tensor(scores), data.part("test").labels)


def by_labelset(data, **settings):
    """Fixed epochs of the default loop."""
    start = time.perf_counter()
    done = tr.train(data, tr.Settings(epochs=EPOCHS, monitor=None, **settings))
    took = time.perf_counter() - start
    rows = EPOCHS * int((data.split == 0).sum())
    return {"seconds": took, "rows": rows, "value": judged(done.scores["test"], data)}, done


def by_torch(data, x, settings):
    """What one writes by hand: a linear layer, BCE, AdamW, shuffled batches of the same size."""
    y, train = data.labels.dense(), (data.split == 0).nonzero().flatten()
    if sparse.issparse(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inputs = [torch.from_numpy(part) for part in (x.indptr, x.indices, x.data)]
            x = torch.sparse_csr_tensor(*(inputs[:2]), inputs[2], x.shape, check_invariants=False)
            x = x.to_sparse_coo()
    else:
        x = torch.from_numpy(x)
    layer = torch.nn.Linear(x.shape[1], y.shape[1])
    step = torch.optim.AdamW(layer.parameters(), lr=settings.lr)
    start = time.perf_counter()
    for _ in range(EPOCHS):
        for rows in train[torch.randperm(len(train))].split(settings.batch):
            batch = x.index_select(0, rows)
            logits = (
                torch.sparse.mm(batch, layer.weight.T) + layer.bias if x.is_sparse else layer(batch)
            )
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, y[rows])
            step.zero_grad()
            loss.backward()
            step.step()
    took = time.perf_counter() - start
    test = x.index_select(0, (data.split == 2).nonzero().flatten())
    with torch.no_grad():
        scores = torch.sparse.mm(test, layer.weight.T) + layer.bias if x.is_sparse else layer(test)
    return {"seconds": took, "rows": EPOCHS * len(train), "value": judged(scores, data)}


def by_sklearn(data, x):
    """Until it converges; its rows per second count as one pass."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    train, test = (np.flatnonzero(data.split.numpy() == part) for part in (0, 2))
    y = data.labels.dense().numpy()
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = OneVsRestClassifier(LogisticRegression()).fit(x[train], y[train])
    took = time.perf_counter() - start
    value = judged(np.nan_to_num(model.decision_function(x[test])), data)
    return {"seconds": took, "rows": len(train), "value": value}


def speed():
    """Three rows per task."""
    tasks = {
        "dense 1500x103x14": numbers(2250, 103, 14),
        "dense 20000x300x50": numbers(30_000, 300, 50),
        "sparse 20000x20000x100": words(30_000, 20_000, 60, 100),
    }
    for name, (x, y) in tasks.items():
        data = dataset(x, y)
        found, done = by_labelset(data)
        yield row(name, "labelset", found)
        yield row(name, "PyTorch by hand", by_torch(data, x, done.settings))
        yield row(name, "scikit-learn", by_sklearn(data, x))


def quality():
    """AdamW as it is, for the same features."""
    x, y = words(12_000, 20_000, 60, 100)
    data = dataset(x, y)
    yield row("quality 8000x20000x100", "one second moment per output", by_labelset(data)[0])
    for lr in (0.003, 0.01, 0.03, 0.1):
        found, _ = by_labelset(data, lr=lr, optimiser="adamw")
        yield row("quality 8000x20000x100", f"AdamW, lr {lr}", found)
    kept = _task.start_at_frequencies
    _task.start_at_frequencies = lambda head, labels: None
    for lr in (0.03, 0.1):
        found, _ = by_labelset(data, lr=lr, optimiser="adamw")
        yield row("quality 8000x20000x100", f"AdamW, lr {lr}, random bias", found)
    _task.start_at_frequencies = kept


def main():
    """Measure what is asked for, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["memory", "speed", "quality"])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.child:
        memory_child()
        return
    tr.train(dataset(*numbers(60, 4, 3)), tr.Settings(epochs=1))  # what torch loads at first use
    measures = {"memory": memory, "speed": speed, "quality": quality}
    about = {"machine": platform.machine(), "torch": torch.__version__}
    rows = []
    for name in args.what:
        for line in measures[name]():
            rows.append(line | about)
            print(*line.values(), sep="  ", flush=True)
    with Path(__file__).with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
