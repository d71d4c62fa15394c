"""What rows that belong together do to a test: folds by row beside folds by group.

    python benchmarks/groups.py [--rows N] [--csv TABLE.csv]

On the built-in icons, whose names say what belongs together: `account`, `account-outline`,
`account-box` and 60 more are one drawing with something added. Labels are the other words of a
name. Five folds are dealt twice, by row, and with all icons of a first word in one fold; a model
is fitted to four and judged on the fifth. The truth is what it does for drawings that it has never
met, which is what the second way measures. The same with made data: rows of a group lie close
together, and labels lean with the group, or do not.
"""

from __future__ import annotations

import argparse
import csv
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier

from labelset import data, metrics
from labelset.sklearn import MultiLabelStratifiedKFold

MODELS = {
    "logistic regression": lambda: OneVsRestClassifier(LogisticRegression(C=0.01, max_iter=200)),
    "extra trees": lambda: ExtraTreesClassifier(100, n_jobs=-1, random_state=0),
    "5 nearest neighbours": lambda: KNeighborsClassifier(5, weights="distance"),
}


def main() -> None:
    """A line per data set and model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3000, help="of the icons, at most")
    parser.add_argument("--csv")
    options = parser.parse_args()
    lines = []
    print(f"{'data, model':40} mAP by row  by group   micro-AP by row  by group")
    for name, (x, y, groups) in {
        "icons": icons(options.rows),
        "made, 10 rows a group": made(0.5),
        "made, groups without effect": made(0.0),
    }.items():
        for model, make in MODELS.items():
            found = [folded(make, x, y, by) for by in (None, groups)]
            line = [name, model, *(round(f[at], 4) for at in (0, 1) for f in found)]
            print(f"{name + ', ' + model:48}", *(f"{v:.3f}" for v in line[2:]), flush=True)
            lines.append(line)
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            head = ("data", "model", "map by row", "map by group", "micro by row", "micro by group")
            csv.writer(file, lineterminator="\n").writerows([head, *lines])


def icons(most: int) -> tuple[Any, Any, Any]:
    """Pictures as vectors, words of names but the first, and the first words."""
    font = data.load("icons")
    keep = np.sort(np.random.default_rng(0).permutation(len(font))[:most])
    pictures = font.images[:].numpy()[keep].reshape(len(keep), -1) / 255.0
    first = np.array([str(font.ids[at]).split("-")[0] for at in keep])
    y = font.labels.dense().numpy()[keep] == 1
    for at, word in enumerate(font.names):
        y[first == word, at] = False  # what defines the group is no label
    often = y.sum(0) >= 30
    return pictures, y[:, often], first


def made(effect: float, rows: int = 2000, each: int = 10) -> tuple[Any, Any, Any]:
    """20 features, 6 labels, groups of `each` rows, whose labels lean by `effect` times noise."""
    r = np.random.default_rng(0)
    groups = np.repeat(np.arange(rows // each), each)
    centre = r.normal(size=(rows // each, 20))
    x = centre[groups] + 0.5 * r.normal(size=(rows, 20))
    lean = 4 * effect * r.normal(size=(rows // each, 6))
    y = x[:, :6] + lean[groups] + r.normal(size=(rows, 6)) > 1.5
    return x, y, groups


def folded(make: Any, x: Any, y: Any, groups: Any) -> tuple[float, float]:
    """mAP by class and micro-averaged, of all rows by models that have not seen them."""
    scores = np.zeros(y.shape)
    for fit, test in MultiLabelStratifiedKFold(5, shuffle=True, random_state=0).split(x, y, groups):
        model = make()
        both = y[fit].any(0)
        p = model.fit(x[fit], y[fit][:, both]).predict_proba(x[test])
        columns = np.flatnonzero(both)
        scores[np.ix_(test, columns)] = (
            np.stack([1 - each[:, 0] for each in p], 1) if isinstance(p, list) else p
        )
    return metrics.build("map@class")(scores, y), metrics.build("map-micro")(scores, y)


if __name__ == "__main__":
    main()
