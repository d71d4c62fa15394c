"""Small networks as fold members beside a forest: seconds, and quality on test rows.

    python benchmarks/members.py FILE ... [--losses bce asl] [--folds 8] [--trees 300]

Each FILE is a data set with test rows. Networks are fitted with the settings that suit its shape;
processor time is also given as a multiple of what scikit-learn's extra trees take in the same run,
which are fitted once, not once per fold. The threshold of micro-F1 comes from out-of-fold scores
(of the forest: 0.5); test rows decide nothing.
"""

import argparse
import time

import numpy as np
import torch
from sklearn.ensemble import ExtraTreesClassifier

import labelset as ls
from labelset.data import SparseRows, deal_folds
from labelset.train import MlpSettings, fit_members

HEADER = (
    f"{'data':12} {'what':12} {'seconds':>8} {'cpu':>8} {'x trees':>8} {'oof f1':>8} {'oof map':>8}"
)


def quality(scores, labels, threshold):
    """Micro-F1 of what is above the threshold, and mAP over labels."""
    known = labels.known()
    decided = scores > threshold
    if known is not None:
        decided &= known
    f1 = ls.metrics.build("f1-micro")(decided, labels)
    return f1, ls.metrics.build("map@class")(scores, labels)


def best_threshold(scores, labels):
    """By micro-F1, over all known entries together."""
    truth, known = labels.dense().flatten(), scores.flatten()
    known, truth = known[~truth.isnan()], truth[~truth.isnan()]
    order = known.argsort(descending=True)
    hits = (truth[order] > 0.5).cumsum(0)
    f1 = 2 * hits / (torch.arange(1, len(order) + 1) + hits[-1])
    return float(known[order[f1.argmax()]]) - 1e-6


def forest(x, y, x_test, trees):
    """Seconds and processor time to fit, and the scores of the test rows."""
    labels = np.nan_to_num(y.dense().numpy())  # an unknown label counts as negative here
    x, x_test = (t.dense() if isinstance(t, SparseRows) else t for t in (x, x_test))
    began, busy = time.perf_counter(), time.process_time()
    fitted = ExtraTreesClassifier(trees, n_jobs=-1, random_state=0).fit(x.numpy(), labels)
    took, spent = time.perf_counter() - began, time.process_time() - busy
    each = fitted.predict_proba(x_test.numpy())
    columns = [p[:, -1] if p.shape[1] == 2 else 0 * p[:, 0] for p in each]
    return took, spent, torch.from_numpy(np.stack(columns, axis=1)).float()


def measure(file, args):
    """One line for the forest, one for each loss."""
    data = ls.data.load(file)
    fit, test = (data.split < 2).nonzero()[:, 0], (data.split == 2).nonzero()[:, 0]
    x, y, x_test, y_test = (
        data.features[fit],
        data.labels[fit],
        data.features[test],
        data.labels[test],
    )
    name = file.rsplit("/", 1)[-1].split(".")[0]
    took, spent, scores = forest(x, y, x_test, args.trees)
    f1, mean = quality(scores, y_test, 0.5)
    line = f"{name:12} {'extra trees':12} {took:8.2f} {spent:8.2f} {1.0:8.2f} {'':8} {'':8}"
    print(f"{line} {f1:8.4f} {mean:8.4f}", flush=True)
    folds = deal_folds(y, args.folds)
    for loss in args.losses:
        busy = time.process_time()
        (done,) = fit_members(x, y, folds, [MlpSettings(loss=loss)])
        busy = time.process_time() - busy
        threshold = best_threshold(done.scores, y)
        own, seen = (
            quality(done.scores, y, threshold),
            quality(done.model.scores(x_test), y_test, threshold),
        )
        line = f"{name:12} {loss:12} {done.seconds:8.2f} {busy:8.2f} {busy / spent:8.2f}"
        print(f"{line} {own[0]:8.4f} {own[1]:8.4f} {seen[0]:8.4f} {seen[1]:8.4f}", flush=True)


def main():
    """Measure every file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--losses", nargs="+", default=["bce", "asl"])
    parser.add_argument("--folds", type=int, default=8)
    parser.add_argument("--trees", type=int, default=300)
    args = parser.parse_args()
    print(f"{HEADER} {'test f1':>8} {'test map':>8}")
    for file in args.files:
        measure(file, args)


if __name__ == "__main__":
    main()
