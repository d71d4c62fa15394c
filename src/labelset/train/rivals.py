"""Rivals: forests, label frequencies, and any scikit-learn estimator, by the folds of the others.

They are what everybody has at hand, so whatever else is offered must stand beside them. Trees are
often the best candidate on small tables, and blends gain from them because they err differently.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelset.data import SparseRows
from labelset.heads import Head, build
from labelset.labels import Labels
from labelset.model import Forest, log_odds
from labelset.train.fitted import Failed, Fitted

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
    min_samples_leaf: int = 1
    max_features: float | str = "sqrt"
    """Of how many features a split is chosen among: a share, `sqrt` or `log2`."""
    max_leaf_nodes: int | None = None


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
    impurity up to a factor. An unknown label counts there as the label's known mean, so that it
    speaks for no split. The shares in the leaves are of known labels alone; a leaf in which a
    label is nowhere known has the label's mean. Trees are converted one by one, so that
    scikit-learn's own values, (nodes, labels) float64, are in memory for one tree per core.

    The scores are log-odds of the mean over trees; the model, a `Forest`, gives that mean itself:
    `log_odds` of it are the scores of new rows.
    """
    x, y = _matrix(features), _Targets(labels)
    members = int(folds.max()) + 1
    out: list[Fitted | Failed] = []
    for at, setting in enumerate(settings):
        start = time.monotonic()
        cost = _cost(x, y, members * setting.trees, setting, seed)
        reason = cost.refused(seconds, max_bytes)
        if reason is not None:
            out.append(Failed(reason))
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
            return _scipy(features).tocsc()
        features = features.dense()
    return np.ascontiguousarray(features.cpu().numpy(), dtype=np.float32)


def _scipy(rows: SparseRows) -> Any:
    from scipy.sparse import csr_matrix

    arrays = (rows.filled().cpu().numpy(), rows.indices.cpu().numpy(), rows.indptr.cpu().numpy())
    return csr_matrix(arrays, shape=rows.shape)


class _Targets:
    """Labels as trees want them: dense with unknown ones imputed, and sparse to count in leaves."""

    def __init__(self, labels: Labels) -> None:
        from scipy.sparse import csr_matrix

        stored = np.ones(len(labels.indices)) if labels.values is None else labels.values.numpy()
        arrays = (labels.indices.numpy(), labels.indptr.numpy())
        unknown = np.isnan(stored)
        self.on = csr_matrix((np.where(unknown, 0.0, stored), *arrays), shape=labels.shape)
        self.unknown = csr_matrix((unknown.astype(float), *arrays), shape=labels.shape)
        self.on.eliminate_zeros()
        self.unknown.eliminate_zeros()
        self.labels = labels.n

    def means(self, rows: Array) -> Array:
        """(labels,) share of positives among those known of some rows; 0 where none is."""
        on = np.asarray(self.on[rows].sum(0)).ravel()
        known = len(rows) - np.asarray(self.unknown[rows].sum(0)).ravel()
        mean: Array = on / np.maximum(known, 1)
        return mean

    def dense(self, rows: Array) -> Array:
        """(rows, labels) float64, the known mean in place of what is unknown."""
        dense: Array = self.on[rows].toarray()
        if self.unknown.nnz:
            dense += self.unknown[rows].multiply(self.means(rows)[None, :]).toarray()
        return dense

    def shares(self, rows: Array, node: Array, nodes: int) -> SparseRows:
        """Of each node: the share of positives among the known labels of the rows that end there.

        In float16's precision, as a forest keeps them.
        """
        from scipy.sparse import csr_matrix

        where = csr_matrix((np.ones(len(rows)), (node, np.arange(len(rows)))), (nodes, len(rows)))
        on, size = (where @ self.on[rows]).tocsr(), np.bincount(node, minlength=nodes)
        on.sort_indices()
        at = np.repeat(np.arange(nodes), np.diff(on.indptr))
        if not self.unknown.nnz:
            on.data = on.data / size[at]
        else:
            unknown = (where @ self.unknown[rows]).tocsr()
            known = size[:, None] - unknown.toarray()
            on.data = on.data / np.maximum(known[at, on.indices], 1)
            nothing = np.where((known == 0) & (size[:, None] > 0), self.means(rows), 0.0)
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


def _grown(x: Any, y: _Targets, dense: Array, rows: Array, held: Array, tree: Any) -> _Tree:
    tree.fit(x[rows], dense, check_input=False)
    nodes = tree.tree_.node_count
    shares = y.shares(rows, tree.tree_.apply(x[rows]), nodes)
    said = _scipy(shares)[tree.tree_.apply(x[held])]
    return _Tree(Forest.from_tree(tree, shares), said)


def _members(
    x: Any, y: _Targets, folds: Tensor, setting: Trees, seed: int, progress: Progress
) -> tuple[Tensor, Forest]:
    """Out-of-fold log-odds, and the trees of all members."""
    fold = folds.cpu().numpy()
    members = int(fold.max()) + 1
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
    x: Any, y: _Targets, rows: Array, held: Array, setting: Trees, seed: int
) -> Iterator[_Tree]:
    """In order, whatever thread is done first."""
    from sklearn.tree import ExtraTreeRegressor
    from sklearn.utils.parallel import Parallel, delayed

    draw = np.random.RandomState(seed)  # the seeds that scikit-learn's forest gives its trees
    dense = y.dense(rows)
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
    grown: Iterator[_Tree] = pool(delayed(_grown)(x, y, dense, rows, held, tree) for tree in trees)
    return grown


@dataclass(frozen=True)
class _Cost:
    seconds: float
    bytes: float

    def refused(self, seconds: float | None, most: int | None) -> str | None:
        """Why it may not run, or None."""
        if (seconds is None or self.seconds <= seconds) and (most is None or self.bytes <= most):
            return None
        return f"would take about {_duration(self.seconds)} and {_size(self.bytes)}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _size(number: float) -> str:
    return f"{number / 1e9:.1f} GB" if number > 1e9 else f"{number / 1e6:.0f} MB"


def _cost(x: Any, y: _Targets, trees: int, setting: Trees, seed: int) -> _Cost:
    """Of all trees, from one on a sample: time grows as rows x levels, nodes as the rows."""
    rows = x.shape[0]
    drawn = np.random.default_rng(seed).permutation(rows)[:SAMPLE]
    start = time.monotonic()
    one = next(_trees(x, y, drawn, drawn[:0], Trees(**(asdict(setting) | {"trees": 1})), seed))
    took = time.monotonic() - start
    larger = rows / len(drawn)
    levels = np.log(max(rows, 2)) / np.log(max(len(drawn), 2))
    cores = torch.get_num_threads()
    nodes = one.forest.feature.numel() * larger
    held = trees * one.forest.nbytes * larger + cores * nodes * y.labels * 8
    return _Cost(took * larger * levels * trees / cores, held + rows * y.labels * 8)


def frequencies(features: Tensor | SparseRows, labels: Labels, folds: Tensor) -> Fitted:
    """Every row gets the label frequencies of the rows that are fitted on: the floor.

    >>> y = Labels.from_lists([[0], [0], [], [0]], n=1)
    >>> fold = torch.tensor([0, 0, 1, 1])
    >>> frequencies(torch.zeros(4, 2), y, fold).scores.sigmoid().flatten()
    tensor([0.5000, 0.5000, 0.9999, 0.9999])
    """
    start = time.monotonic()
    targets, fold = _Targets(labels), folds.cpu().numpy()
    scores = torch.zeros(labels.shape)
    for member in range(int(fold.max()) + 1):
        mean = targets.means(np.flatnonzero(fold != member))
        scores[folds == member] = log_odds(torch.from_numpy(mean))
    bias = log_odds(torch.from_numpy(targets.means(np.arange(len(fold)))))
    model = _linear(torch.zeros(labels.n, features.shape[1]), bias)
    return Fitted(scores, model, None, time.monotonic() - start, {"way": "frequencies"})


def _linear(weight: Tensor, bias: Tensor) -> Head:
    head = build("linear", features=weight.shape[1], labels=len(weight))
    head.load_state_dict({"classifier.weight": weight, "classifier.bias": bias})
    head.requires_grad_(False)
    return head
