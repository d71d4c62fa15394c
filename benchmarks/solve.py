"""Seconds and quality of solved heads beside scikit-learn's, on features of one's own.

    python benchmarks/solve.py FILE.npz [--unit] [--loss squared-hinge=0.5 --loss bce=10 ...]

The file has features as CSR (X_indptr, X_indices, X_shape, X_data; no X_data: all ones) or dense
(X), labels as CSR (Y_indptr, Y_indices, Y_shape; U_indptr, U_indices: unknown) and split (0 or 1:
training rows, 2: test rows). Seconds are those of the processor, so that another program on the
machine does not count; quality is micro-F1 at the threshold that is best on scores that the rows'
labels have not touched, and the mean average precision.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from torch import Tensor

from labelset import Labels, losses, metrics
from labelset.data import SparseRows, deal_folds
from labelset.train.fitted import Failed
from labelset.train.solve import Problem, solve

FOLDS = 5
RIVALS = {
    "squared-hinge": lambda strength: LinearSVC(C=strength),
    "bce": lambda strength: LogisticRegression(C=strength, max_iter=1000),
}


def main() -> None:
    """Print a line for each loss and strength."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--unit", action="store_true", help="scale rows to length 1")
    parser.add_argument("--loss", action="append", metavar="NAME=C", default=[])
    parser.add_argument("--rivals", action="store_true", help="fit scikit-learn's as well")
    options = parser.parse_args()
    x, y, split = read(options.file, options.unit)
    train, test = (split < 2).nonzero()[:, 0], (split == 2).nonzero()[:, 0]
    folds = deal_folds(y[train], FOLDS)
    print(f"{'':24} {'s, 5 folds and all':>18} {'s, all':>8} {'micro-F1':>8} {'mAP':>6}  residual")
    for setting in options.loss or ["squared-hinge=0.5", "bce=10"]:
        name, strength = setting.split("=")
        problem = [Problem(losses.build(name), float(strength))]
        together, (made,) = timed(solve, x[train], y[train], folds, problem)
        alone, _ = timed(solve, x[train], y[train], torch.full_like(folds, -1), problem)
        if isinstance(made, Failed):
            print(f"{setting:24} {together:18.2f} {alone:8.2f}  failed: {made.reason}")
            continue
        level = best_threshold(made.scores, y[train])
        shown = quality(made.model(x[test]), y[test], level)
        residual = f"{made.about['residual']:.3f} after {made.about['passes']}"
        print(f"{setting:24} {together:18.2f} {alone:8.2f} {shown}  {residual}")
        if options.rivals and name in RIVALS:
            seconds, v = timed(rival, RIVALS[name], float(strength), x, y, train, test)
            print(f"{'  of scikit-learn':24} {'':18} {seconds:8.2f} {quality(v, y[test], level)}")


def read(path: str, unit: bool) -> tuple[Any, Labels, Tensor]:
    """Features, labels and split."""
    file = np.load(path)
    free = (file["U_indptr"], file["U_indices"]) if "U_indptr" in file else None
    y = Labels.from_csr(file["Y_indptr"], file["Y_indices"], int(file["Y_shape"][1]), unknown=free)
    split = torch.from_numpy(file["split"].astype(np.int64))
    if "X_indptr" not in file:
        x = torch.from_numpy(file["X"].astype(np.float32))
        train = x[split < 2]
        return (x - train.mean(0)) / train.std(0).clamp(min=1e-6), y, split
    values = file.get("X_data")
    rows = SparseRows.from_csr(file["X_indptr"], file["X_indices"], int(file["X_shape"][1]), values)
    if unit:
        lengths = torch.zeros(len(rows)).index_add_(0, rows.rows(), rows.filled().square()).sqrt()
        values = rows.filled() / lengths[rows.rows()]
        rows = SparseRows(rows.indptr, rows.indices, rows.width, values)
    return rows, y, split


def timed(job: Callable[..., Any], *inputs: Any) -> tuple[float, Any]:
    """Seconds of all the process's threads, and what came."""
    began = time.process_time()
    result = job(*inputs)
    return time.process_time() - began, result


def rival(
    new: Callable[[float], Any], strength: float, x: Any, y: Labels, train: Tensor, test: Tensor
) -> Tensor:
    """Scores of the test rows by one estimator for each label, fitted to what is known of it."""
    matrix = x.numpy() if isinstance(x, Tensor) else as_scipy(x)
    own, other, known = matrix[train.numpy()], matrix[test.numpy()], y[train].dense().numpy()
    out = torch.zeros(len(test), y.n)
    for label in range(y.n):
        rows = np.isfinite(known[:, label])
        if len(np.unique(known[rows, label])) < 2:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = new(strength).fit(own[rows], known[rows, label])
        out[:, label] = torch.from_numpy(fitted.decision_function(other)).float()
    return out


def as_scipy(x: SparseRows) -> Any:
    """The same rows."""
    return csr_matrix((x.filled().numpy(), x.indices.numpy(), x.indptr.numpy()), shape=x.shape)


def best_threshold(v: Tensor, y: Labels) -> float:
    """The score above which taking labels for positive gives the highest micro-F1."""
    known = y.dense()
    v, known = v[~known.isnan()], known[~known.isnan()]
    order = v.argsort(descending=True)
    hits = known[order].cumsum(0)
    f1 = 2 * hits / (torch.arange(1, len(v) + 1) + known.sum())
    return float(v[order][f1.argmax()])


def quality(v: Tensor, y: Labels, level: float) -> str:
    """micro-F1 and mAP as columns."""
    f1 = metrics.build("f1-micro")(v >= level, y)
    return f"{f1:8.4f} {metrics.build('map@class')(v, y):6.4f}"


if __name__ == "__main__":
    main()
