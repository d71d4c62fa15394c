"""What `labelset compare` recommends beside four models of scikit-learn: quality, seconds, memory.

    python benchmarks/quality.py FILE ... [--optimise METRIC] [--csv TABLE.csv]

For each file the command is run as a user types it, in a process of its own, then scikit-learn's
loop in another one: a linear SVM, logistic regression, extra trees, and nearest neighbours (texts:
naive Bayes in place of the last two, TF-IDF of one and two words), each fitted to the training rows
with the defaults below, one threshold for all labels from scores of a fifth of them, and
refitted to all. All are judged on the test rows of the file. Nothing is tuned on the test rows.
`cpu` are seconds of all cores together: where others use the machine as well, their ratio says
more than that of the seconds on the clock.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import data, metrics
from labelset.data import Dataset, SparseRows, ensure_split
from labelset.labels import Labels
from labelset.model import SavedModel

SHOWN = (
    "f1-micro",
    "f1-macro",
    "map@class",
    "map-micro",
    "auroc@class",
    "precision@1",
    "precision@3",
    "precision@5",
)
RANKED = SHOWN[2:]
COLUMNS = ("data", "who", "model", "seconds", "cpu", "megabytes", *SHOWN)


def main() -> None:
    """A line for what is recommended, and one for each model of scikit-learn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--optimise", default="f1-micro")
    parser.add_argument("--csv")
    parser.add_argument("--rivals", metavar="TABLE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rivals:
        Path(options.rivals).write_text(json.dumps(list(loop(options.files[0]))))
        return
    lines = [line for file in options.files for line in compared(file, options.optimise)]
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerows([COLUMNS, *lines])


def compared(file: str, optimise: str) -> list[list[Any]]:
    """The lines of a file, printed as they come."""
    name, lines = Path(file).name.split(".")[0], []

    def show(*line: Any) -> None:
        lines.append([name, *line])
        print("  ".join(_cell(value) for value in lines[-1]), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        run, table = Path(folder) / "run", Path(folder) / "rivals.json"
        asked = ["--out", str(run), "--optimise", optimise, "--quiet"]
        used = ran("-m", "labelset", "compare", file, *asked)
        found = json.loads((run / "compare.json").read_text())
        model = SavedModel.open(run)
        part = model.splits["test"]
        assert model.rule is not None
        sets = model.predictor.sets(part.scores)
        show("labelset", found["best"], *used, *figures(part.scores, sets, part.labels))
        used = ran(__file__, file, "--rivals", str(table))
        for model_name, took, cpu, values in json.loads(table.read_text()):
            show("scikit-learn", model_name, took, cpu, used[-1], *values)
        show("scikit-learn", "all four", *used, *[np.nan] * len(SHOWN))
    return lines


def _cell(value: Any) -> str:
    return f"{value:8.3f}" if isinstance(value, float) else f"{value:14}"


def ran(*arguments: str) -> tuple[float, float, float]:
    """Seconds, those of all cores, and the most megabytes of a process of its own."""
    began = time.perf_counter()
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    waiting = os.environ | {"OMP_WAIT_POLICY": "PASSIVE"}  # as the command line has it
    child = os.posix_spawn(
        sys.executable, [sys.executable, *arguments], waiting, file_actions=quiet
    )
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{' '.join(arguments)}: failed")
    cpu = used.ru_utime + used.ru_stime
    return time.perf_counter() - began, cpu, used.ru_maxrss / 1024


def figures(scores: Tensor, sets: Labels, labels: Labels) -> list[float]:
    """The metrics of a column each."""
    two = [metrics.build(name)(sets, labels) for name in SHOWN[:2]]
    return two + [metrics.build(name)(scores, labels) for name in RANKED]


# ---- scikit-learn ------------------------------------------------------------------------------


def loop(file: str) -> Any:
    """Name, seconds, those of all cores, and figures of each of its models."""
    dataset = ensure_split(data.load(file), (0.8, 0.0, 0.2), seed=0)
    fitted, tested = (dataset.rows((dataset.split == k).nonzero()[:, 0]) for k in (0, 2))
    if len(dataset.part("valid")):
        fitted = dataset.rows((dataset.split < 2).nonzero()[:, 0])
    x, z = matrices(fitted, tested)
    y = fitted.labels.dense().nan_to_num(0.0).numpy() == 1
    held = np.random.default_rng(0).permutation(len(y)) < len(y) // 5
    for name, make in models(fitted.texts is not None).items():
        began, busy = time.perf_counter(), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            level = threshold(scored(make(), x[~held], y[~held], x[held]), y[held])
            scores = torch.from_numpy(scored(make(), x, y, z)).float()
        sets = Labels.from_dense(scores > level)
        took, cpu = time.perf_counter() - began, time.process_time() - busy
        yield name, took, cpu, figures(scores, sets, tested.labels)


def matrices(fitted: Dataset, tested: Dataset) -> tuple[Any, Any]:
    """Rows as scikit-learn takes them."""
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if fitted.texts is not None:
        count = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
        return count.fit_transform(fitted.texts), count.transform(tested.texts)
    x, z = fitted.features, tested.features
    if isinstance(x, SparseRows):
        return tuple(
            csr_matrix((f.filled().numpy(), f.indices.numpy(), f.indptr.numpy()), f.shape)
            for f in (x, z)
        )
    scale = make_pipeline(SimpleImputer(), StandardScaler())
    return scale.fit_transform(x.numpy()), scale.transform(z.numpy())


def models(texts: bool) -> dict[str, Any]:
    """Those that a table, or texts, are usually given to first."""
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.naive_bayes import ComplementNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import LinearSVC

    linear = {
        "linear SVM": lambda: OneVsRestClassifier(LinearSVC(C=0.5)),
        "logistic regression": lambda: OneVsRestClassifier(LogisticRegression(C=10, max_iter=300)),
    }
    if texts:
        return linear | {
            "ridge": lambda: OneVsRestClassifier(_ridge()),
            "naive Bayes": lambda: OneVsRestClassifier(ComplementNB()),
        }
    return linear | {
        "extra trees": lambda: ExtraTreesClassifier(300, n_jobs=-1, random_state=0),
        "nearest neighbours": lambda: KNeighborsClassifier(20, weights="distance"),
    }


def _ridge() -> Any:
    from sklearn.linear_model import RidgeClassifier

    return RidgeClassifier(solver="sparse_cg")


def scored(model: Any, x: Any, y: Any, z: Any) -> Any:
    """(rows, labels) scores of z after fitting to x and y; a label of one class has it always."""
    both = y.any(0) & ~y.all(0)
    out = np.zeros((z.shape[0], y.shape[1]))
    out[:, ~both] = np.where(y.all(0)[~both], 1e3, -1e3)
    model.fit(x, y[:, both])
    if hasattr(model, "decision_function"):
        out[:, both] = model.decision_function(z)
    else:
        p = model.predict_proba(z)
        out[:, both] = np.stack([each[:, 1] for each in p], 1) if isinstance(p, list) else p
    return out


def threshold(scores: Any, y: Any) -> float:
    """The one for all labels that is best for micro-F1."""
    order = np.argsort(-scores, axis=None)
    hits = y.ravel()[order].cumsum()
    best = (2 * hits / (np.arange(1, hits.size + 1) + y.sum())).argmax()
    return float(scores.ravel()[order[best : best + 2]].mean())


if __name__ == "__main__":
    main()
