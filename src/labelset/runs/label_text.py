"""What labels are called, or described by, as directions among the features of texts.

A label that few rows have says little by its rows, and its name often much: the n-grams of
`game::board-games` are those of the texts that should have it. Weights that are shrunk towards them
rather than to 0 rank rows for a label without a single positive, and leave them behind where many
rows know better.
"""

from __future__ import annotations

import copy
import csv
import logging
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from labelset import check
from labelset.data import Dataset, SparseRows
from labelset.encode import Encoder
from labelset.labels import Labels
from labelset.losses import Loss, Separable
from labelset.model import SavedModel
from labelset.train.fitted import Fitted
from labelset.train.solve import Problem, softness

RARE = 50
"""Positives up to which a label has something to gain by its name: see docs/label-names.md."""
PRIORS = (0.5, 1.0, 1.5)
"""How far towards the text of a label its weights are shrunk, for a loss as curved as the squared
hinge: at a prior of 1 a text that is like it scores 1 to 2 more. Folds, in which labels have fewer
positives yet, would ask for more than is good."""
SHOWN = 5
"""Labels without a text that are named."""
JOINED = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
WORD = re.compile(r"[^\W\d_]{3,}")
log = logging.getLogger("labelset")


def as_text(name: str) -> str:
    """A name as one would write it in a text: words that are joined stand apart.

    >>> as_text("game::BoardGames"), as_text("made-of:wood_chips"), as_text("SQLServer/use")
    ('game Board Games', 'made of wood chips', 'SQL Server use')
    """
    return " ".join(JOINED.sub(" ", name).split())


def are_words(names: Sequence[str]) -> bool:
    """Whether most names have a word of their own, of three letters and more.

    >>> are_words(["cocoa", "palm-oil"]), are_words(["label_1", "label_2", "label_3"])
    (True, False)
    """
    each = [{*WORD.findall(as_text(name).lower())} for name in names]
    often = Counter(word for words in each for word in words)
    common = max(1, len(names) // 2)
    return 2 * sum(any(often[word] <= common for word in words) for words in each) > len(names)


def of_labels(dataset: Dataset, reads: bool, given: Mapping[str, str] | None) -> list[str] | None:
    """A text for each label: the one that is given, else its name.

    None where nothing is given and nothing is to be gained: no text of a row is read, names are no
    words, or every label has many positives. What is given is looked at: TypeError or ValueError
    say what is wrong with it. reads: whether the encoder reads texts.
    """
    names, reads = dataset.names, reads and dataset.texts is not None
    if given is None:
        learned_from = (
            dataset.labels if dataset.split is None else dataset.labels[dataset.split < 2]
        )
        rare = bool((learned_from.T.counts() <= RARE).any())
        return [*map(as_text, names)] if reads and rare and are_words(names) else None
    if not reads:
        raise ValueError(
            "texts of labels were given, and the rows have none that could be like them; leave the "
            "texts of labels out, or name the column of texts: text_column=..."
        )
    for name, text in given.items():
        if name not in names:
            raise ValueError(
                f"a text is given for {name!r}, and no label is called so: "
                f"{check.nearest(name, names)}"
            )
        if not isinstance(text, str):
            kind = type(text).__name__
            raise TypeError(f"the text of label {name!r} must be a string, got {kind}")
        if not text.strip():
            raise ValueError(f"the text of label {name!r} is empty; leave it out, or describe it")
    without = [name for name in names if name not in given]
    if without:
        shown = ", ".join(without[:SHOWN]) + (", ..." if len(without) > SHOWN else "")
        log.warning(
            "%d of %d labels have no text, so that their names serve: %s",
            len(without), len(names), shown,
        )  # fmt: skip
    return [given.get(name) or as_text(name) for name in names]


def knowing(encoder: Encoder, texts: Sequence[str] | None) -> Encoder:
    """The encoder, not fitted yet, with the terms of labels among those that it will know."""
    known = texts is not None and "also" in encoder.settings()
    return replace(encoder, also=texts) if known else encoder  # type: ignore[call-arg]


def vectors(encoder: Encoder, dataset: Dataset, texts: Sequence[str]) -> Tensor | SparseRows:
    """(labels, features): the texts of labels as the encoder gives them, rows without all else.

    Terms that many labels share say little about each of them: of n labels, k of which have it, a
    term weighs log((1 + n) / (1 + k)) times as much as in a row, over what it weighs where k = 1.
    """
    features, n = dataset.features, len(texts)
    nothing = None if features is None else torch.full((n, features.shape[1]), torch.nan)
    x = encoder(Dataset.from_arrays(nothing, torch.zeros(n, 1), texts=texts))
    if isinstance(x, SparseRows):
        shared = torch.bincount(x.indices, minlength=x.width)
        own = ((1 + n) / (1 + shared)).log() / max(math.log((1 + n) / 2), 1e-9)
        return replace(x, values=x.filled() * own[x.indices.long()])
    assert isinstance(x, Tensor)
    return x * (2 / x.square().sum(1).mean())  # as long as texts of words and characters


def rare(labels: Labels, loss: Loss) -> Tensor:
    """Numbers of the labels that have something to gain by their texts.

    All of them where each has many positives, or the parts of a loss are not to be told apart.
    """
    few = labels.T.counts() <= RARE
    every = not isinstance(loss, Separable) or not bool(few.any())
    return torch.arange(labels.n) if every else few.nonzero()[:, 0]


def columns(labels: Labels, some: Tensor) -> Labels:
    """Some of the labels, with what rows or entries count."""
    weights = labels.weights
    if weights is not None and weights.ndim == 2:
        weights = weights[:, some]
    return replace(labels.T[some].T, weights=weights)


def of_columns(problem: Problem, some: Tensor, n: int) -> Problem:
    """The problem of some of the `n` labels."""
    if len(some) == n:
        return problem
    assert isinstance(problem.loss, Separable)
    return replace(problem, loss=problem.loss.bind(n).select_labels(some, n))


def with_priors(problem: Problem, several: bool) -> list[Problem]:
    """The problem with each of the priors, or with the one that most often serves."""
    scale = math.sqrt(softness(problem.loss))
    return [replace(problem, prior=p * scale) for p in (PRIORS if several else PRIORS[1:2])]


def put_into(whole: SavedModel, some: Tensor, own: Fitted, unseen: Tensor) -> Fitted:
    """A head whose rows of some labels are another's, and those scores of unseen rows, too."""
    head, valid = copy.deepcopy(whole.head), whole.splits["valid"].known_scores
    assert head is not None
    with torch.no_grad():
        for name, p in head.named_parameters():  # of a linear head: weights and intercepts
            p[some] = own.model.get_parameter(name)
    scores = torch.zeros(len(own.scores), len(whole.names))
    scores[unseen] = valid
    scores[:, some] = own.scores
    seconds = own.seconds + float(whole.about["seconds"])
    return Fitted(scores, head, whole.loss, seconds, own.about)


def read_label_texts(path: str | Path) -> dict[str, str]:
    """Label -> text, from a CSV file with a heading and two columns, label and text."""
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file)
        heading = next(lines, [])
        if len(heading) != 2 or heading[0].strip().lower() not in ("label", "labels", "name"):
            raise ValueError(
                f"{path}: line 1: expected the heading label,text, got {','.join(heading)!r}"
            )
        held: dict[str, str] = {}
        for line in lines:
            if not line:
                continue
            where = f"{path}: line {lines.line_num}"
            if len(line) != 2:
                raise ValueError(
                    f"{where}: expected a label and its text, got {len(line)} cells; put quotes "
                    "around a text with commas"
                )
            name, text = (cell.strip() for cell in line)
            if name in held:
                raise ValueError(f"{where}: label {name!r} has a text already; keep one of them")
            if not text:
                raise ValueError(
                    f"{where}: the text of label {name!r} is empty; leave the line out, or "
                    "describe the label"
                )
            held[name] = text
    if not held:
        raise ValueError(f"{path}: has no texts of labels, only a heading")
    return held
