"""Should one over-sample? Class weights, cloned rows and MLSMOTE beside thresholds, on test rows.

    python benchmarks/oversample.py yeast scene.npz ... [--seeds N] [--csv TABLE.csv]

Two of scikit-learn's models, logistic regression (C of 1 or 30, by mAP on the fifth that is left)
and extra trees, are fitted to four fifths of the training rows, as they are or after a treatment:
`class_weight="balanced"`; ML-ROS (rows with a label that is rarer than the mean imbalance are
cloned, until there are a quarter more rows); MLSMOTE (such rows are interpolated with one of five
neighbours, with the labels that most of them have). Both are those of Charte et al., 2015. Each is
judged at the threshold 0.5, and with Platt's calibrator and thresholds from that fifth, where
nothing is treated: for macro-F1 one per label, for micro-F1 one for all. Means over seeds, each
with a fifth of its own.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from quality import matrices
from scipy.sparse import csr_matrix, issparse, vstack
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import NearestNeighbors

from labelset import calibrate, data, decide, metrics
from labelset.data import ensure_split

SHARE, NEIGHBOURS = 0.25, 5
TREATMENTS = ("nothing", "class weights", "ML-ROS", "MLSMOTE")
SHOWN = ("f1-macro at 0.5", "f1-macro", "f1-micro at 0.5", "f1-micro", "map@class", "ece")


def main() -> None:
    """A line per file, model and treatment."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--csv")
    options = parser.parse_args()
    lines = []
    print("  ".join(["data, model, treatment".ljust(48), *SHOWN]))
    for file in options.files:
        dataset = ensure_split(data.load(file), (0.8, 0.0, 0.2), seed=0)
        part = dataset.split
        fitted, tested = (dataset.rows(at.nonzero()[:, 0]) for at in (part < 2, part == 2))
        x, z = matrices(fitted, tested)
        y = fitted.labels.dense().nan_to_num(0.0).numpy() == 1
        for model in MODELS:
            for treatment in TREATMENTS:
                found = [
                    judged(model, treatment, x, y, z, tested.labels, seed)
                    for seed in range(options.seeds)
                ]
                name = Path(file).name.split(".")[0]
                line = [name, model, treatment, *np.mean(found, 0).round(4).tolist()]
                print(", ".join(line[:3]).ljust(48), *(f"{v:8.3f}" for v in line[3:]), flush=True)
                lines.append(line)
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([("data", "model", "treatment", *SHOWN), *lines])


def judged(
    model: str, treatment: str, x: Any, y: Any, z: Any, truth: Any, seed: int
) -> list[float]:
    """The figures of a model fitted after a treatment."""
    held = np.random.default_rng(seed).permutation(len(y)) < len(y) // 5
    kept = y[~held].any(0) & ~y[~held].all(0)
    more, their = x[~held], y[~held]
    if treatment == "ML-ROS":
        more, their = cloned(more, their, seed)
    elif treatment == "MLSMOTE":
        more, their = interpolated(more, their, seed)
    weight = "balanced" if treatment == "class weights" else None
    found = []
    for make in MODELS[model]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = make(weight, seed).fit(more, their[:, kept])
        found.append([probabilities(made, rows, kept) for rows in (x[held], z)])
    choosing, last = max(found, key=lambda p: metrics.build("map@class")(p[0], y[held]))
    log_odds = [torch.logit(p, eps=1e-6) for p in (choosing, last)]
    m = calibrate.build("platt").fit(log_odds[0], torch.from_numpy(y[held]), folds=0)
    true = [m(each) for each in log_odds]
    at_half = decide.build("fixed", threshold=0.5)
    out = []
    for metric, rule in (("f1-macro", "per-class"), ("f1-micro", "global")):
        given = {"metric": metric} | ({"shrink": 10} if rule == "per-class" else {})
        tuned = decide.build(rule, **given).fit(true[0], torch.from_numpy(y[held]))
        out += [metrics.build(metric)(sets, truth) for sets in (at_half(last), tuned(true[1]))]
    return [*out, metrics.build("map@class")(last, truth), metrics.build("ece")(last, truth)]


def probabilities(model: Any, rows: Any, kept: Any) -> torch.Tensor:
    """(rows, labels); 0 for a label that the model has not met."""
    p = model.predict_proba(rows)
    out = np.zeros((rows.shape[0], len(kept)))
    out[:, kept] = np.stack([each[:, 1] for each in p], 1) if isinstance(p, list) else p
    return torch.from_numpy(out)


def _linear(strength: float) -> Any:
    return lambda weight, seed: OneVsRestClassifier(
        LogisticRegression(C=strength, max_iter=300, class_weight=weight)
    )


def _trees(weight: Any, seed: int) -> Any:
    return ExtraTreesClassifier(100, n_jobs=-1, random_state=seed, class_weight=weight)


MODELS = {"logistic regression": [_linear(1.0), _linear(30.0)], "extra trees": [_trees]}
"""Of several the one that ranks the held-out rows best."""


def minority(y: Any) -> tuple[Any, list[int]]:
    """The imbalance of each label, and the labels that are rarer than the mean of that says."""
    counts = y.sum(0)
    imbalance = np.where(counts, counts.max() / np.maximum(counts, 1), 0.0)
    return imbalance, np.flatnonzero(imbalance > imbalance[counts > 0].mean()).tolist()


def cloned(x: Any, y: Any, seed: int) -> tuple[Any, Any]:
    """ML-ROS: rows of minority labels again, one of each in turn, until there are enough."""
    r, (_, rare) = np.random.default_rng(seed), minority(y)
    if not rare:
        return x, y
    bags = [np.flatnonzero(y[:, j]) for j in rare]
    more = [r.choice(bags[at % len(bags)]) for at in range(int(SHARE * len(y)))]
    return _stacked(x, x[more]), np.vstack([y, y[more]])


def interpolated(x: Any, y: Any, seed: int) -> tuple[Any, Any]:
    """MLSMOTE with the ranking of labels: as many rows more as minority labels have positives, each
    between such a row and a neighbour with that label; at most as many as there are."""
    r, (_, rare) = np.random.default_rng(seed), minority(y)
    rows, sets = [], []
    for label in rare:
        bag = np.flatnonzero(y[:, label])
        if len(bag) < 2:
            continue
        near = NearestNeighbors(n_neighbors=min(NEIGHBOURS + 1, len(bag))).fit(x[bag])
        around = near.kneighbors(x[bag], return_distance=False)[:, 1:]
        for at, row in enumerate(bag):
            other = bag[r.choice(around[at])]
            share = r.random()
            rows.append(x[row] + (x[other] - x[row]) * share)
            sets.append(y[[row, *bag[around[at]]]].mean(0) > 0.5)
    if not rows:
        return x, y
    chosen = r.permutation(len(rows))[: len(y)]
    new = vstack(rows).tocsr()[chosen] if issparse(x) else np.stack(rows)[chosen]
    return _stacked(x, new), np.vstack([y, np.stack(sets)[chosen]])


def _stacked(x: Any, more: Any) -> Any:
    return csr_matrix(vstack([x, more])) if issparse(x) else np.vstack([x, more])


if __name__ == "__main__":
    main()
