"""Forests of extremely randomised trees, by the folds of the other candidates.

Trees are often the best candidate on small tables, and blends gain, as they err differently.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelset.data import SparseRows
from labelset.labels import Labels
from labelset.model import Forest, log_odds
from labelset.train.fitted import LATE, Failed, Fitted

SAMPLE = 2000
"""Rows on which one tree is grown to estimate what all will take."""
DENSE = 1 << 28
"""Features that are made dense for trees: beyond, scikit-learn reads them sparse, more slowly."""

Array = NDArray[Any]
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Trees:
    """Settings of extremely randomised trees (Geurts, Ernst and Wehenkel, 2006)."""

    trees: int = 100
    """Of each member."""
    min_samples_leaf: int = 2
    """Out of fold 2 had a better mAP than 1 on yeast, cal500, tox21, eisen_FUN and bibtex (.274
    against .221), a slightly worse one on scene; 5 was better still where labels are rare."""
    max_features: float | str = "sqrt"
    """Of how many features a split is chosen among: a share, `sqrt` or `log2`."""
    max_leaf_nodes: int | None = None
    projections: int | None = 40
    """Where there are more labels, each tree chooses its splits by so many random projections."""


def extra_trees(
    features: Tensor | SparseRows,
    labels: Labels,
    folds: Tensor,
    settings: Sequence[Trees],
    *,
    seed: int = 0,
    seconds: float | None = None,
    max_bytes: int | None = None,
    progress: Progress | None = None,
) -> list[Fitted | Failed]:
    """A forest per member and setting; the model is all trees of all members.

    scikit-learn chooses the splits, by squared error, which for labels of 0 and 1 is the Gini
    impurity up to a factor. Many labels are projected at random for that, to others for each tree,
    which keeps their distances (Joly, Geurts and Wehenkel, Random forests with random projections
    of the output space, 2014): as good on 159, 174 and 461 labels, and 2 to 8 times as fast. An
    unknown label counts in splits as the label's known mean. The shares in the leaves are counted
    afterwards, of known labels alone; a leaf in which a label is nowhere known has the label's
    mean. Weights of rows count in splits and leaves, those of entries in leaves, and in splits by
    their mean. Trees are converted one by one, so that scikit-learn's own values, (nodes, labels)
    float64, are in memory for one tree per core.

    The scores are log-odds of the mean over trees; the model, a `Forest`, gives that mean itself:
    `log_odds` of it are the scores of new rows.
    """
    if seconds is not None and seconds <= 0:
        return [LATE] * len(settings)
    stored = features.filled() if isinstance(features, SparseRows) else features
    if bool(stored.isnan().any()):
        return [Failed("features have missing numbers, of which trees can make nothing")] * len(
            settings
        )
    x, y = _matrix(features), TreeTargets(labels)
    members = max(int(folds.max()) + 1, 1)  # without any fold one forest, of all rows
    out: list[Fitted | Failed] = []
    for at, setting in enumerate(settings):
        start = time.monotonic()
        if seconds is not None or max_bytes is not None:
            cost = _cost(x, y, members * setting.trees, setting, seed)
            if cost.exceeds(seconds, max_bytes):
                out.append(Failed(str(cost)))
                continue

        def share(done: float, at: int = at) -> None:
            if progress is not None:
                progress((at + done) / len(settings))

        p, forest = _members(x, y, folds, setting, seed, share)
        took = time.monotonic() - start
        about = {"way": "extra-trees", **asdict(setting), "bytes": forest.nbytes}
        out.append(Fitted(p, forest, None, took, about))
        if seconds is not None:
            seconds -= took
    return out


def _matrix(features: Tensor | SparseRows) -> Any:
    """As scikit-learn's trees take them: float32 rows, or sparse columns."""
    if isinstance(features, SparseRows):
        if len(features) * features.width > DENSE:
            return features.to_scipy().tocsc()
        features = features.dense()
    return np.ascontiguousarray(features.cpu().numpy(), dtype=np.float32)


class TreeTargets:
    """Labels as trees want them: dense with unknown ones imputed, and sparse to count in leaves.

    Entries that count less than others of their row are counted as unknown by what they lack.
    """

    def __init__(self, labels: Labels) -> None:
        from scipy.sparse import csr_matrix

        stored = np.ones(len(labels.indices)) if labels.values is None else labels.values.numpy()
        arrays = (labels.indices.numpy(), labels.indptr.numpy())
        unknown = np.isnan(stored)
        # copied, for what is eliminated would vanish from the caller's labels too
        self.on = csr_matrix((np.where(unknown, 0.0, stored), *arrays), labels.shape, copy=True)
        self.unknown = csr_matrix((unknown.astype(float), *arrays), labels.shape, copy=True)
        self.on.eliminate_zeros()
        self.unknown.eliminate_zeros()
        self.labels = labels.n
        self.hits, self.free = self.on, self.unknown
        self.size = np.ones(len(labels))
        self.weight: Array | None = None  # (rows,) what rows count when trees are split
        if labels.weights is not None:
            each = np.asarray(labels.weights).reshape(len(labels), -1)
            self.size, self.weight = each.max(1), each.mean(1)
            lack = csr_matrix(self.size[:, None] - each) if each.shape[1] > 1 else None
            self.on = self.hits.multiply(each).tocsr()
            whole = self.free.multiply(self.size[:, None]).tocsr()
            self.unknown = whole if lack is None else whole.maximum(lack)

    def means(self, rows: Array) -> Array:
        """(labels,) share of positives among those known of some rows; 0 where none is."""
        on = np.asarray(self.on[rows].sum(0)).ravel()
        known = self.size[rows].sum() - np.asarray(self.unknown[rows].sum(0)).ravel()
        mean: Array = on / np.where(known > 0, known, 1)
        return mean

    def imputed(self, rows: Array) -> Any:
        """(rows, labels) scipy matrix, the known mean in place of what is unknown."""
        if not self.free.nnz:
            return self.hits[rows]
        return self.hits[rows] + self.free[rows].multiply(self.means(rows)[None, :]).tocsr()

    def shares(self, rows: Array, node: Array, nodes: int) -> SparseRows:
        """Of each node: the share of positives among the known labels of the rows that end there.

        In float16's precision, as a forest keeps them.
        """
        from scipy.sparse import csr_matrix

        where = csr_matrix((np.ones(len(rows)), (node, np.arange(len(rows)))), (nodes, len(rows)))
        on, size = (where @ self.on[rows]).tocsr(), np.bincount(node, self.size[rows], nodes)
        on.sort_indices()
        at = np.repeat(np.arange(nodes), np.diff(on.indptr))
        if not self.unknown.nnz:
            on.data = on.data / size[at]
        else:
            unknown = (where @ self.unknown[rows]).tocsr()
            known = size[:, None] - unknown.toarray()
            none = known <= 1e-9 * size[:, None]
            on.data = on.data / np.where(none, 1, known)[at, on.indices]
            nothing = np.where(none & (size[:, None] > 0), self.means(rows), 0.0)
            on = (on + csr_matrix(nothing)).tocsr()
            on.sort_indices()
        on.data = on.data.astype(np.float16).astype(np.float32)
        on.eliminate_zeros()
        return SparseRows.from_csr(on.indptr, on.indices, self.labels, on.data)


@dataclass(frozen=True)
class _Tree:
    """A grown tree, and what it says of the rows that it has not seen."""

    forest: Forest
    said: Any
    """(rows not seen, labels) scipy matrix."""


@dataclass(frozen=True)
class _Task:
    """What the trees of a member are grown on."""

    x: Any
    held: Any
    """Features of the rows that the member does not see."""
    y: TreeTargets
    imputed: Any
    rows: Array
    projections: int | None

    def grown(self, tree: Any) -> _Tree:
        weight = None if self.y.weight is None else self.y.weight[self.rows]
        tree.fit(self.x, self._seen_by(tree), sample_weight=weight, check_input=False)
        shares = self.y.shares(self.rows, tree.tree_.apply(self.x), tree.tree_.node_count)
        said = shares.to_scipy()[tree.tree_.apply(self.held)]
        return _Tree(Forest.from_tree(tree, shares), said)

    def _seen_by(self, tree: Any) -> Array:
        """(rows, labels or projections) float64."""
        labels = self.y.labels
        if self.projections is None or labels <= self.projections:
            return np.asarray(self.imputed.toarray())
        draw = np.random.default_rng(tree.random_state)
        return np.asarray(self.imputed @ draw.standard_normal((labels, self.projections)))


def _members(
    x: Any, y: TreeTargets, folds: Tensor, setting: Trees, seed: int, progress: Progress
) -> tuple[Tensor, Forest]:
    """Out-of-fold log-odds, and the trees of all members."""
    fold = folds.cpu().numpy()
    members = max(int(fold.max()) + 1, 1)
    scores = torch.zeros(len(fold), y.labels)
    forests = []
    for member in range(members):
        rows, held = np.flatnonzero(fold != member), np.flatnonzero(fold == member)
        total = np.zeros((len(held), y.labels))
        grown = []
        for done, tree in enumerate(_trees(x, y, rows, held, setting, seed + member), start=1):
            grown.append(tree.forest)
            total += tree.said
            progress((member + done / setting.trees) / members)
        scores[torch.from_numpy(held)] = log_odds(torch.from_numpy(total / setting.trees))
        forests.append(Forest.stack(grown))
    return scores, Forest.stack(forests)


def _trees(
    x: Any, y: TreeTargets, rows: Array, held: Array, setting: Trees, seed: int
) -> Iterator[_Tree]:
    """In order, whatever thread is done first."""
    from sklearn.tree import ExtraTreeRegressor
    from sklearn.utils.parallel import Parallel, delayed

    draw = np.random.RandomState(seed)  # the seeds that scikit-learn's forest gives its trees
    task = _Task(x[rows], x[held], y, y.imputed(rows), rows, setting.projections)
    trees = [
        ExtraTreeRegressor(
            max_features=setting.max_features,
            min_samples_leaf=setting.min_samples_leaf,
            max_leaf_nodes=setting.max_leaf_nodes,
            random_state=draw.randint(np.iinfo(np.int32).max),
        )
        for _ in range(setting.trees)
    ]
    pool = Parallel(n_jobs=torch.get_num_threads(), prefer="threads", return_as="generator")
    grown: Iterator[_Tree] = pool(delayed(task.grown)(tree) for tree in trees)
    return grown


@dataclass(frozen=True)
class _Cost:
    seconds: float
    bytes: float

    def exceeds(self, seconds: float | None, most: int | None) -> bool:
        return (seconds is not None and self.seconds > seconds) or (
            most is not None and self.bytes > most
        )

    def __str__(self) -> str:
        return f"would take about {duration(self.seconds)} and {_size(self.bytes)}"


def duration(seconds: float) -> str:
    """In seconds, or minutes where it is long."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _size(number: float) -> str:
    return f"{number / 1e9:.1f} GB" if number > 1e9 else f"{number / 1e6:.0f} MB"


def _cost(x: Any, y: TreeTargets, trees: int, setting: Trees, seed: int) -> _Cost:
    """Of all trees, from the quicker of two on a sample: what is loaded first costs once.

    Time grows as rows x levels, nodes as the rows.
    """
    rows = x.shape[0]
    drawn = np.random.default_rng(seed).permutation(rows)[:SAMPLE]
    took = np.inf
    for _ in range(2):
        start = time.monotonic()
        one = next(_trees(x, y, drawn, drawn[:0], replace(setting, trees=1), seed))
        took = min(took, time.monotonic() - start)
    larger = rows / len(drawn)
    levels = np.log(max(rows, 2)) / np.log(max(len(drawn), 2))
    cores = torch.get_num_threads()
    nodes = one.forest.feature.numel() * larger
    seen = min(y.labels, setting.projections or y.labels)
    growing = cores * (nodes + rows) * seen * 8
    kept = trees * one.forest.nbytes * larger
    return _Cost(took * larger * levels * trees / cores, kept + growing)
