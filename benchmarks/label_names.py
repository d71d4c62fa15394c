"""What the names of labels add where positives are few: average precision by how many there are.

    python benchmarks/label_names.py FILE [--rows 1500] [--label-text TEXTS.csv]

Models learn from some of the training rows of a file of texts, and are judged by the others; test
rows have no part in it. Labels are grouped by their positives among the rows that were learned
from. All settings are chosen by map@class on scores of unseen rows of these. `similarity` knows no
label of any row; `head` is a linear one by the squared hinge; `sum` adds the similarity to the
scores of that, times a / (1 + positives / b); `prior` is what a search fits as `label-names`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from labelset import data, encode, losses, metrics
from labelset.data import Dataset, SparseRows, deal_folds
from labelset.labels import Labels
from labelset.runs import label_text, read_label_texts
from labelset.train.fitted import Failed, Fitted
from labelset.train.solve import Problem, solve

GROUPS = ((0, 0), (1, 3), (4, 10), (11, 50), (51, 1 << 40))
STRENGTH, PRIORS = 0.25, (0.5, 1.0, 1.5)
SUMS = tuple(product((0.5, 1.0, 2.0, 4.0), (3.0, 10.0, 30.0)))
JUDGES = 6000


def main() -> None:
    """A line for each way to score, a column for each group of labels."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--label-text")
    options = parser.parse_args()
    given = read_label_texts(options.label_text) if options.label_text else None
    learning, judging = dealt(data.load(options.file), options.rows)
    texts = label_text.of_labels(learning, True, given)
    if texts is None:
        raise SystemExit("names that are words, or --label-text, are needed")
    encoder = encode.build("tfidf", also=texts).fit(learning)
    rows, others = encoder(learning), encoder(judging)
    vectors = label_text.vectors(encoder, learning, texts)
    assert isinstance(rows, SparseRows)
    assert isinstance(others, SparseRows)
    assert isinstance(vectors, SparseRows)
    folds = deal_folds(learning.labels, 5)
    problems = [
        Problem(losses.build("squared-hinge"), STRENGTH, prior=prior) for prior in (0.0, *PRIORS)
    ]
    fits = [_fitted(f) for f in solve(rows, learning.labels, folds, problems, vectors=vectors)]
    near, near_others = rows @ vectors.dense().T, others @ vectors.dense().T
    counts = learning.labels.T.counts()

    def summed(scores: Tensor, near: Tensor, a: float, b: float) -> Tensor:
        return scores + a / (1 + counts / b) * near

    def best(value: Callable[[int], Tensor], many: int) -> int:
        return max(range(many), key=lambda i: _mean(value(i), learning.labels))

    head = fits[0]
    chosen = SUMS[best(lambda i: summed(head.scores, near, *SUMS[i]), len(SUMS))]
    prior = 1 + best(lambda i: fits[1 + i].scores, len(PRIORS))
    print(f"{len(learning)} rows learned from, {len(judging)} that judge; sum: a, b = {chosen}; ")
    print(f"prior: {problems[prior].prior}")
    lines = {
        "any order": torch.zeros(judging.labels.shape),
        "similarity": near_others,
        "head": head.model(others),
        "sum": summed(head.model(others), near_others, *chosen),
        "prior": fits[prior].model(others),
    }
    known = judging.labels.T.counts() > 0
    groups = [known & (counts >= low) & (counts <= high) for low, high in GROUPS]
    print(f"{'positives':12}", *(f"{low:>3}-{min(high, 9999):<5}" for low, high in GROUPS), "all")
    print(f"{'labels':12}", *(f"{int(group.sum()):<9}" for group in groups), int(known.sum()))
    for name, scores in lines.items():
        each = [_mean(scores[:, g], judging.labels.T[g].T) for g in (*groups, known)]
        print(f"{name:12}", *(f"{value:<9.3f}" for value in each))


def dealt(dataset: Dataset, rows: int) -> tuple[Dataset, Dataset]:
    """Some training rows to learn from, and others to judge by."""
    train = dataset.part("train").in_memory()
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
    return train.rows(order[:rows]), train.rows(order[rows : rows + JUDGES])


def _fitted(fit: Fitted | Failed) -> Fitted:
    if isinstance(fit, Failed):
        raise SystemExit(fit.reason)
    return fit


def _mean(scores: Tensor, labels: Labels) -> float:
    """map@class, NaN of no labels."""
    return metrics.build("map@class")(scores, labels) if labels.n else float("nan")


if __name__ == "__main__":
    main()
