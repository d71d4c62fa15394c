"""Distil: one small network that has learnt what a blend says, to be used in its place.

The network of a fold learns from a blend whose parts were fitted without that fold, on rows without
it, and scores the fold: it stands in the table like any other candidate. The one that is kept has
learnt from the whole blend. Beside the rows themselves, which their teacher knows by heart, it is
taught what to say between them: of two rows it gets a mean, and what the blend says there (as in
Zhang et al., mixup, ICLR 2018, but for the labels). On scene and bibtex that was worth .02 and .01
of mAP out of fold, and a network so taught was as good as its teacher.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import torch
from scipy.sparse import diags
from torch import Tensor

from labelset.data import SparseRows
from labelset.data.store import stacked
from labelset.heads import Head
from labelset.labels import Labels
from labelset.losses import read_loss
from labelset.model import Blend, Forest, Mlp
from labelset.runs import label_text
from labelset.runs.families import Outcome, problem_of
from labelset.runs.plan import Task
from labelset.runs.search import BLEND, Search
from labelset.train import spread
from labelset.train.fitted import Failed, Fitted
from labelset.train.kernel_ridge import kernel_ridge
from labelset.train.members import MlpSettings, fit_members, for_shape
from labelset.train.rivals import estimator
from labelset.train.solve import solve
from labelset.train.trees import Trees, extra_trees

DISTILLED = Task("", "distilled", 0)
MIXED, ROWS = 3, 20_000
"""Rows that are mixed for each row, fewer where there would be more than so many."""
LEAST = 1e-3
"""Probabilities below it are taught as 0, so that labels stay sparse."""
DROPOUT = NOISE = 0.2
"""A teacher's probabilities need less of either than labels do."""


def distilled(search: Search) -> Iterator[Outcome]:
    """The network, or why there is none."""
    if not search.shelf.has(BLEND):
        yield DISTILLED, Failed("there is no blend that it could learn from")
        return
    began, blend = time.perf_counter(), search.shelf.model(BLEND).estimator
    if blend.parts[0].view is not None:
        reason = "the blend has networks that are trained whole, and read more than features"
        yield DISTILLED, Failed(reason)
        return
    development = search.development
    folds, labels = development.folds, development.labels
    members = int(folds.max()) + 1
    students: list[Fitted | Failed] = [Failed("")] * (members + 1)

    def teach(k: int) -> None:
        rows = (folds != k).nonzero()[:, 0]
        teacher = blend if k == members else _without(search, blend, k)
        students[k] = (
            teacher
            if isinstance(teacher, Failed)
            else _taught(search, teacher, search.features[rows], labels[rows])
        )

    spread([lambda k=k: teach(k) for k in range(members + 1)], torch.device("cpu"))  # type: ignore[misc]
    scores = torch.zeros(labels.shape)
    for k, student in enumerate(students):
        if isinstance(student, Failed):
            yield DISTILLED, student
            return
        own = (folds == k).nonzero()[:, 0]
        scores[own] = student.model.scores(search.features[own])
    final = students[-1]
    assert isinstance(final, Fitted)
    yield DISTILLED, replace(final, scores=scores, seconds=time.perf_counter() - began)


def _taught(
    search: Search, teacher: Blend, x: Tensor | SparseRows, labels: Labels
) -> Fitted | Failed:
    """One network, fitted to what a teacher says of some rows and of means of two."""
    times = max(1, min(MIXED, ROWS // len(labels)))
    x = stacked([x, *(_mixed(x, seed) for seed in range(times))])
    p = teacher.scores(x).sigmoid()
    target = Labels.from_dense(torch.where(p < LEAST, 0.0, p))
    if labels.weights is not None:
        target = replace(target, weights=torch.cat([labels.weights] * (times + 1)))
    sparse = isinstance(x, SparseRows)
    usual = for_shape(len(x), x.shape[1], labels.n, sparse)
    settings = replace(
        usual,
        width=None if usual.width is None else usual.width if sparse else 2 * usual.width,
        dropout=DROPOUT,
        noise=0.0 if sparse else NOISE,
    )
    nobody = torch.full((len(x),), -1)
    (fitted,) = fit_members(x, target, nobody, [settings], seconds=search.seconds)
    return fitted


def _mixed(x: Tensor | SparseRows, seed: int) -> Tensor | SparseRows:
    """Of each row a mean with another one, of which it has at most half."""
    draw = torch.Generator().manual_seed(seed)
    others = torch.randperm(len(x), generator=draw)
    share = torch.rand(len(x), generator=draw) / 2
    if isinstance(x, Tensor):
        return torch.lerp(x, x[others], share[:, None])
    held, part = x.to_scipy(), share.numpy()
    return SparseRows.from_scipy(diags(1 - part) @ held + diags(part) @ held[others.numpy()])


def _without(search: Search, blend: Blend, k: int) -> Blend | Failed:
    """The blend, its parts fitted without a fold."""
    parts = []
    for part in blend.parts:
        task, _, head = part.name.rpartition("+")
        model = _refitted(search, Task(task, head, 0), part.model, k)
        if isinstance(model, Failed):
            return Failed(f"{part.name}, of which it should learn: {model.reason}")
        parts.append(replace(part, model=model))
    return Blend(tuple(parts))


def _refitted(search: Search, task: Task, model: Any, k: int) -> Any:
    """A candidate's model, fitted without a fold; that of its member where members are kept."""
    development, about = search.development, search.shelf.model(task).about["fit"]
    members = int(development.folds.max()) + 1
    if development.final is development.folds and isinstance(model, Mlp):
        return model.member(k)
    if development.final is development.folds and about.get("way") == "extra-trees":
        each = len(model) // members
        return model.trees(k * each, (k + 1) * each)
    rows = (development.folds != k).nonzero()[:, 0]
    given = search.features[rows], development.labels[rows], torch.full((len(rows),), -1)
    fits: list[Fitted | Failed]
    if isinstance(model, Head):
        like = replace(task, head="linear") if task.head == "label-names" else task
        problem = replace(
            problem_of(search, like, about["strength"]), prior=about.get("prior", 0.0)
        )
        texts, vectors = search.label_texts, None
        if problem.prior and texts is not None:
            vectors = label_text.vectors(search.encoder, search.dataset, texts)
        fits = solve(*given, [problem], seconds=search.seconds, vectors=vectors)
    elif isinstance(model, Mlp):
        settings = MlpSettings(**about["settings"] | {"loss": read_loss(about["settings"]["loss"])})
        fits = fit_members(*given, [settings], seconds=search.seconds)
    elif about.get("way") == "extra-trees":
        trees = Trees(**{f.name: about[f.name] for f in fields(Trees)})
        fits = extra_trees(*given, [trees], seconds=search.seconds)
    elif isinstance(model, Forest):
        fits = [estimator(about["spec"], *given, seconds=search.seconds)]
    else:
        dense = given[0].dense() if isinstance(given[0], SparseRows) else given[0]
        setting = about["gamma"], about["ridge"]
        fits = kernel_ridge(dense, *given[1:], [setting], seconds=search.seconds)
    return fits[0].model if isinstance(fits[0], Fitted) else fits[0]
