"""Speed of exact average precision against scikit-learn and torchmetrics, in one run.

    python benchmarks/metrics.py [--shapes 40000x80 5000x20000]

Scores are random with the labels that are on a little higher; a row of 80 labels has 2.9 on (as in
COCO), a row of 20,000 has 10, both with a long tail. Every class and row has a positive, as the
others want it. Every call is repeated until two seconds are over, and its best time counts.
Writes benchmarks/metrics.csv: one row per shape, metric and implementation.
"""

import argparse
import csv
import platform
import time
from pathlib import Path

import numpy as np
import sklearn
import torch
import torchmetrics
from sklearn.metrics import average_precision_score
from torchmetrics.functional.classification import (
    multilabel_average_precision,
    multilabel_ranking_average_precision,
)

import labelset as ls

SHAPES = ("40000x80", "5000x20000")


def batch(rows, n, seed=0):
    """Probabilities and 0 / 1 labels."""
    rng = np.random.default_rng(seed)
    share = 1 / (np.arange(n) + 10.0)
    share *= (2.9 if n < 1000 else 10) / share.sum()
    y = rng.random((rows, n), dtype=np.float32) < share
    y[rng.integers(rows, size=n), np.arange(n)] = True
    y[np.arange(rows), rng.integers(n, size=rows)] = True
    v = rng.standard_normal((rows, n), dtype=np.float32) + 1.5 * y
    return torch.from_numpy(v).sigmoid(), torch.from_numpy(y.astype(np.int64))


def seconds(call):
    """The best time, and what was returned."""
    best, end = float("inf"), time.perf_counter() + 2
    while best == float("inf") or time.perf_counter() < end:
        start = time.perf_counter()
        value = call()
        best = min(best, time.perf_counter() - start)
    return best, float(value)


def measure(shape):
    """One row per metric and implementation."""
    rows, n = (int(x) for x in shape.split("x"))
    p, y = batch(rows, n)
    scores, truth = p.numpy(), y.numpy()
    calls = {
        "map@class": {
            "scikit-learn": lambda: average_precision_score(truth, scores, average="macro"),
            "torchmetrics": lambda: multilabel_average_precision(p, y, num_labels=n),
        },
        "map@sample": {
            "scikit-learn": lambda: average_precision_score(truth, scores, average="samples"),
            "torchmetrics": lambda: multilabel_ranking_average_precision(p, y, num_labels=n),
        },
    }
    for metric, others in calls.items():
        ours, value = seconds(lambda metric=metric: ls.metrics.build(metric)(p, y))
        yield row(shape, metric, "labelset", ours, 1.0, value)
        for name, call in others.items():
            theirs, other = seconds(call)
            assert abs(value - other) < 1e-6, (metric, name, value, other)
            yield row(shape, metric, name, theirs, theirs / ours, other)


def row(shape, metric, what, took, ratio, value):
    """A line of the table, also printed."""
    print(f"{shape} {metric:10} {what:12} {took:8.3f} s {ratio:8.1f} x  {value:.8f}", flush=True)
    versions = {"torch": torch.__version__, "sklearn": sklearn.__version__}
    versions["torchmetrics"] = torchmetrics.__version__
    about = {"threads": torch.get_num_threads(), "machine": platform.machine(), **versions}
    found = {"shape": shape, "metric": metric, "what": what, "seconds": took}
    return {**found, "times_labelset": ratio, "value": value, **about}


def main():
    """Measure every shape and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", default=SHAPES)
    parser.add_argument("--out", default=str(Path(__file__).with_suffix(".csv")))
    args = parser.parse_args()
    rows = [line for shape in args.shapes for line in measure(shape)]
    with open(args.out, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
