"""`labelset.compare`: the comparison of the command line, of rows that a program has in memory."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labelset.data import dataset_of
from labelset.runs import DEFAULT_LOSSES
from labelset.runs.comparison import Comparison, compare
from labelset.runs.plan import Plan
from labelset.runs.pool import Progress


def compare_rows(
    X: Any,
    y: Any = None,
    *,
    names: Sequence[str] | None = None,
    split: Any = None,
    groups: Any = None,
    times: Any = None,
    sample_weight: Any = None,
    out: str | Path | None = None,
    losses: Sequence[str] = DEFAULT_LOSSES,
    heads: Sequence[str] = ("linear",),
    optimise: str = "f1-micro",
    also: Sequence[str] = (),
    finetune: Sequence[str] | None = None,
    distil: bool = False,
    single: bool = False,
    time_budget: float | None = None,
    effort: str = "normal",
    max_ms: float | None = None,
    max_mb: float | None = None,
    label_texts: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    **keys: Any,
) -> Comparison:
    """Fit every candidate to one's own rows, judge all on the same ones, and say which to use.

    Parameters
    ----------
    X, y : inputs, and the (rows, labels) matrix of 0, 1 and NaN (unknown) that belongs to them, or
        a list of the label names of each row. X is an array, also one of pictures (rows, channels,
        height, width), a scipy sparse matrix, a list of texts, or a frame. Without y, X is a file,
        a frame, a `Dataset` or a built-in data set that holds both, and `keys` say how to read it:
        label_column="tags", ... as in a description file.
    names : of the labels, where y does not say.
    split : train, valid or test (or 0, 1, 2) for each row; None: a fifth of the rows, with its
        share of every label, are test rows.
    groups : one entry per row; rows with the same one stay in one fold, and on one side of the
        split.
    times : numbers or dates, one per row: the newest fifth are test rows, and the newest fifth of
        the others choose among models that are fitted on those before.
    sample_weight : what each row counts, or each entry of y, a (rows, labels) matrix; 0: nothing.
    out : the folder to keep; None: a temporary one, which goes when the answer does.
    losses, heads, also, single : what competes, as on the command line: "asl:gamma_neg=2",
        "sklearn.neighbors.KNeighborsClassifier:n_neighbors=10"; no blends.
    finetune : pretrained networks for texts or pictures, which are trained whole: a folder, an
        installed package, a name of the Hugging Face hub, or "package.module:function". None: of
        texts, where there is a GPU, MiniLM if its package is installed.
    distil : fit one small network to what the blend says, too.
    optimise : the metric that chooses.
    time_budget : seconds for fitting and judging.
    effort : quick, normal or best: how much is tried.
    max_ms, max_mb : milliseconds for a row and megabytes that the recommended model may take.
    label_texts : what labels are about, for those with few positives; None: their names.
    progress : called with a task and what it has reached.

    >>> import torch
    >>> x = torch.randn(80, 4, generator=torch.Generator().manual_seed(0))
    >>> found = compare_rows(x, x[:, :2] > 0.5, losses=["bce"], time_budget=0.01)
    >>> found.best, found.best_model.predict(x[:3]).dense().shape
    ('bce+linear', torch.Size([3, 2]))
    """
    for what, given in (
        *(("losses", losses), ("heads", heads), ("also", also)),
        ("finetune", finetune or ()),
    ):
        if isinstance(given, str):
            raise TypeError(f"{what} must be a list of names, got {given!r}; give [{given!r}]")
    plan = Plan(
        losses=tuple(losses),
        heads=tuple(heads),
        optimise=optimise,
        also=tuple(also),
        finetune=None if finetune is None else tuple(finetune),
        distil=distil,
        single=single,
        seconds=time_budget,
        effort=effort,
        max_ms=max_ms,
        max_mb=max_mb,
        label_texts=label_texts,
    )
    roles = {"split": split, "groups": groups, "times": times, "sample_weight": sample_weight}
    dataset = dataset_of(X, y, names=names, **roles, **keys)
    if out is not None:
        return compare(dataset, plan, out, progress=progress)
    folder = tempfile.mkdtemp(prefix="labelset-")
    try:
        found = compare(dataset, plan, folder, progress=progress)
    except BaseException:
        shutil.rmtree(folder)
        raise
    weakref.finalize(found, shutil.rmtree, folder, ignore_errors=True)
    return found
