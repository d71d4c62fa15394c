"""Forest: grown trees as flat arrays, so that one is kept, checked and evaluated without pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from labelset import csr
from labelset.data import SparseRows
from labelset.model.contributions import Contributions, apart, dense, in_blocks, logit

if TYPE_CHECKING:
    from labelset.model.paths import Paths

LEVELS = 2000
"""The deepest tree: each level costs a step of evaluation, and a crafted file must not cost
many."""
CLIP = 1e-4
"""How far from 0 and 1 a probability stays before it becomes log-odds."""
ENTRIES = 1 << 21
"""Features, scores, or rows on their way through trees that are in memory together."""
ROUNDS = 32
"""In so many rounds at most a graph adds up the label shares of a leaf."""
FILE = {
    "feature": torch.int32,
    "threshold": torch.float32,
    "starts": torch.int64,
    "leaf_starts": torch.int64,
    "leaf_labels": torch.int32,
    "leaf_values": torch.float16,
    "shape": torch.int64,
}
"""The tensors of a file and their types."""
SIZES = "leaf_sizes"
"""One more, float32, in files of forests that know how many rows each leaf was grown of."""

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Forest:
    """probabilities = mean over trees of the label shares in the leaf that a row falls into.

    The nodes of a tree lie level by level. The children of its k-th inner node (from 0) are then
    its nodes 2k + 1 and 2k + 2, so that they need not be stored: what is stored cannot describe a
    cycle or a child outside the tree. A row goes to the first child if its feature is at most the
    threshold. Leaves keep only shares above 0, which are few where labels are many.

    >>> leaves = SparseRows.from_csr([0, 1, 2], [0, 1], width=2, values=[1.0, 0.25])
    >>> stump = Forest(torch.tensor([1, -1, -1]), torch.tensor([0.5, 0, 0]), torch.tensor([0, 3]),
    ...     leaves, width=2)
    >>> stump
    Forest(1 trees, 2 leaves, 2 features, 2 labels)
    >>> stump(torch.tensor([[9.0, 0.5], [9.0, 0.6]]))
    tensor([[1.0000, 0.0000],
            [0.0000, 0.2500]])
    """

    kind: ClassVar[str] = "forest"

    feature: Tensor
    """(nodes,) int32: the feature that an inner node looks at; -1: a leaf."""
    threshold: Tensor
    """(nodes,) float32."""
    starts: Tensor
    """(trees + 1,) int64: tree t has the nodes starts[t] to starts[t + 1]."""
    leaves: SparseRows
    """(leaves, labels) in the order of the nodes."""
    width: int
    """How many features a row has."""
    sizes: Tensor | None = None
    """(leaves,) float32: the training rows in each leaf, which tell what an inner node says on
    average; None: leaves count alike."""

    def __post_init__(self) -> None:
        for name in ("feature", "threshold", "starts"):
            object.__setattr__(self, name, getattr(self, name).to(FILE[name]))
        _check(self)

    # ---- made of others -------------------------------------------------------------------------

    @classmethod
    def from_sklearn(cls, fitted: Any) -> Forest:
        """From scikit-learn's random or extra trees, fitted on 0 / 1 labels or, as regressors, on
        shares in [0, 1].

        It compares as they do: x <= t for a float32 x and a float64 t is x <= the largest float32
        number that is not above t.
        """
        positive = _positive(fitted)  # the trees themselves count classes from 0
        parts = [_of_tree(tree, positive) for tree in fitted.estimators_]
        features, thresholds, tables, sizes = zip(*parts, strict=True)
        lengths = torch.tensor([len(feature) for feature in features])
        feature = torch.from_numpy(np.concatenate(features))
        threshold = torch.from_numpy(np.concatenate(thresholds))
        leaves = SparseRows.stack(tables)
        starts, every = csr.cumulate(lengths), torch.from_numpy(np.concatenate(sizes))
        return cls(feature, threshold, starts, leaves, int(fitted.n_features_in_), every)

    @classmethod
    def from_tree(cls, fitted: Any, shares: SparseRows) -> Forest:
        """One of scikit-learn's trees with label shares of one's own, a row for each of its nodes.

        Those of inner nodes are not looked at.
        """
        feature, threshold, leaves = _levels(fitted.tree_)
        starts = torch.tensor([0, len(feature)])
        own = (torch.from_numpy(feature), torch.from_numpy(threshold), starts)
        sizes = torch.from_numpy(_sizes(fitted.tree_, leaves))
        return cls(*own, shares[torch.from_numpy(leaves)], int(fitted.n_features_in_), sizes)

    @classmethod
    def stack(cls, parts: Sequence[Forest]) -> Forest:
        """All trees of several forests that take the same features and give the same labels."""
        if not parts or len({(part.width, part.labels) for part in parts}) != 1:
            raise ValueError(f"stack needs forests of the same features and labels, got {parts}")
        sizes = [part.sizes for part in parts if part.sizes is not None]
        return cls(
            torch.cat([part.feature for part in parts]),
            torch.cat([part.threshold for part in parts]),
            csr.cumulate(torch.cat([part.starts.diff() for part in parts])),
            SparseRows.stack([part.leaves for part in parts]),
            parts[0].width,
            torch.cat(sizes) if len(sizes) == len(parts) else None,
        )

    def trees(self, first: int, end: int) -> Forest:
        """Some of its trees, one after the other, as a forest."""
        nodes = slice(int(self.starts[first]), int(self.starts[end]))
        before = csr.cumulate((self.feature < 0).long())
        leaves = self.leaves[slice(int(before[nodes.start]), int(before[nodes.stop]))]
        starts = self.starts[first : end + 1] - nodes.start
        return Forest(self.feature[nodes], self.threshold[nodes], starts, leaves, self.width)

    # ---- what is in it --------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __repr__(self) -> str:
        sizes = f"{len(self.leaves)} leaves, {self.width} features, {self.labels} labels"
        return f"Forest({len(self)} trees, {sizes})"

    @property
    def labels(self) -> int:
        """How many labels it gives probabilities of."""
        return self.leaves.width

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        own = (self.feature, self.threshold, self.starts, self.sizes)
        return self.leaves.nbytes + sum(t.nbytes for t in own if t is not None)

    @cached_property
    def _links(self) -> tuple[Array, Array]:
        """Of each node: its first child if it is an inner node, its row in `leaves` if a leaf."""
        inner = self.feature.numpy() >= 0
        before = _before(inner)
        starts = self.starts.numpy()
        first = np.repeat(starts[:-1], np.diff(starts))
        child = first + 1 + 2 * (before[:-1] - before[first])
        return child, np.arange(len(inner)) - before[:-1]

    @cached_property
    def _table(self) -> Any:
        """`leaves` as scipy has it."""
        return self.leaves.to_scipy()

    # ---- evaluated ------------------------------------------------------------------------------

    def __call__(self, features: Any) -> Tensor:
        """(rows, labels) float32 probabilities of a tensor, sparse rows, or rows on disk.

        A row has the same ones, bit by bit, alone and among others: its leaves are added up in the
        order of the trees.
        """
        out = torch.empty(len(features), self.labels)
        for start, leaf in self._blocks(features):
            total = self.membership(leaf) @ self._table
            shares = torch.from_numpy(total.toarray() / len(self))
            out[start : start + len(leaf)] = shares
        return out

    def scores(self, features: Any) -> Tensor:
        """(rows, labels) float32: the log-odds of its probabilities."""
        return log_odds(self(features))

    def membership(self, leaf: Array) -> Any:
        """(rows, leaves) scipy matrix with a 1 where a row falls into a leaf."""
        from scipy.sparse import csr_matrix

        starts = np.arange(len(leaf) + 1) * len(self)
        arrays = (np.ones(leaf.size), leaf.ravel(), starts)
        return csr_matrix(arrays, shape=(len(leaf), len(self.leaves)))

    def _blocks(self, features: Any) -> Any:
        """(first row, (rows, trees) leaf numbers) of some rows at a time."""
        if len(features.shape) != 2 or features.shape[1] != self.width:
            got = tuple(features.shape)
            raise ValueError(f"the forest takes (rows, {self.width}) features, got {got}")
        size = max(16, ENTRIES // max(len(self), self.width, self.labels))
        for start in range(0, len(features), size):
            rows = features[start : start + size]
            dense = rows.dense() if isinstance(rows, SparseRows) else rows
            yield start, self._leaves_of(dense.cpu().to(torch.float32).contiguous().numpy())

    def _leaves_of(self, x: Array) -> Array:
        """All rows go through all trees together, one level a step; those in a leaf drop out."""
        child, leaf = self._links
        feature, threshold = self.feature.numpy(), self.threshold.numpy()
        rows, trees = len(x), len(self)
        out = np.empty(rows * trees, dtype=np.int64)
        # tree by tree in memory, so that neighbours read the same nodes
        slot = np.arange(rows * trees).reshape(rows, trees).T.ravel()
        node = np.repeat(self.starts.numpy()[:-1], rows)
        row = np.tile(np.arange(rows) * x.shape[1], trees)
        flat = x.ravel()
        while len(node):
            looked = feature[node]
            at = np.flatnonzero(looked < 0)
            if len(at):
                out[slot[at]] = leaf[node[at]]
                on = np.flatnonzero(looked >= 0)
                slot, node, row, looked = slot[on], node[on], row[on], looked[on]
            node = child[node] + (flat[row + looked] > threshold[node])
        return out.reshape(rows, trees)

    def module(self) -> nn.Module:
        """`scores` as a module of plain operations, whose `forward` takes dense float32 rows."""
        return _Module(self)

    # ---- explained ------------------------------------------------------------------------------

    @cached_property
    def _paths(self) -> Paths:
        from labelset.model.paths import Paths

        sizes = None if self.sizes is None else self.sizes.double().numpy()
        nodes = self.feature.numpy(), self.threshold.numpy(), self.starts.numpy()
        return Paths(*nodes, *self._links, self._table, sizes)

    def contributions(self, features: Any, rows: Array, labels: Array) -> Contributions:
        """Each split on a row's way changes what trees say of a label: that is due to its feature.

        The changes add up to the probability less the share in all training rows; what turns
        these into log-odds is shared out in proportion.
        """
        size = max(1, ENTRIES // max(self.width, 16 * len(self)))
        return in_blocks(rows, labels, size, lambda *pairs: self._contributions(features, *pairs))

    def _contributions(self, features: Any, rows: Array, labels: Array) -> Contributions:
        different, row = np.unique(rows, return_inverse=True)
        x = dense(features, different).astype(np.float32)
        base, values = self._paths.changes(x, row, labels)
        found = Contributions(base, values)
        return found.through(lambda p: logit(p, CLIP), apart(base, found.total(), CLIP))

    def importances(self, label: int) -> Array:
        """(features,) that add up to 1: by how much the splits by each tell rows with the label
        from rows without it, the decrease of the variance."""
        return self._paths.decreases(label, self.width)

    # ---- in files -------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """What a safetensors file keeps, for `from_tensors`."""
        held = {
            "feature": self.feature,
            "threshold": self.threshold,
            "starts": self.starts,
            "leaf_starts": self.leaves.indptr,
            "leaf_labels": self.leaves.indices,
            "leaf_values": self.leaves.filled(),
            "shape": torch.tensor([self.width, self.labels]),
        }
        sizes = {} if self.sizes is None else {SIZES: self.sizes.contiguous()}
        return {name: t.to(FILE[name]).contiguous() for name, t in held.items()} | sizes

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Forest:
        """The forest that `tensors` described; ValueError where they describe none."""
        if {*tensors} - {SIZES} != {*FILE}:
            raise ValueError(f"a forest has the tensors {', '.join(FILE)}, got {[*tensors]}")
        for name, dtype in FILE.items():
            if tensors[name].dtype != dtype or tensors[name].ndim != 1:
                got = f"{tensors[name].dtype} {tuple(tensors[name].shape)}"
                raise ValueError(f"{name} of a forest must be 1-D {dtype}, got {got}")
        if len(tensors["shape"]) != 2:
            raise ValueError("shape of a forest must be its features and labels")
        width, labels = tensors["shape"].tolist()
        values = tensors["leaf_values"].float()
        if not bool(((values > 0) & (values <= 1)).all()):
            raise ValueError("leaf_values of a forest must be above 0 and at most 1")
        try:
            leaves = SparseRows.from_csr(
                tensors["leaf_starts"], tensors["leaf_labels"], labels, values
            )
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"the leaves of a forest: {error}") from None
        own = (tensors["feature"], tensors["threshold"], tensors["starts"])
        return cls(*own, leaves, width, tensors.get(SIZES))


def log_odds(probabilities: Tensor, clip: float = CLIP) -> Tensor:
    """float32, of probabilities that are kept away from 0 and 1, which trees give freely.

    >>> log_odds(torch.tensor([0.0, 0.5]))
    tensor([-9.2102,  0.0000])
    """
    return probabilities.double().clamp(clip, 1 - clip).logit().float()


class _Module(nn.Module):
    """(rows, features) -> (rows, labels), in as many steps whatever the rows are.

    A leaf is its own child, so that all rows go down as many levels as the deepest tree has. The
    label shares of leaves lie one after the other, and of each leaf a round adds up `step`; what
    is past the last one is the share 0 of a label that is cut off in the end. Shares are float16,
    of which float64 sums are exact in any order: the scores are those of the forest, bit by bit.
    """

    feature: Tensor
    threshold: Tensor
    child: Tensor
    roots: Tensor
    ends: Tensor
    label: Tensor
    share: Tensor
    offset: Tensor
    zeros: Tensor

    def __init__(self, forest: Forest) -> None:
        super().__init__()
        self.trees, self.labels = len(forest), forest.labels
        inner, table = forest.feature >= 0, forest.leaves
        child = torch.where(inner, torch.from_numpy(forest._links[0]), torch.arange(len(inner)))
        counts = torch.zeros(len(inner), dtype=torch.int64)
        counts[~inner] = table.indptr.diff()
        share = torch.cat([table.filled(), torch.zeros(1)])
        short = share.half()
        self.levels = _depth(inner, child, forest.starts[:-1])
        self.step = max(1, -(-int(counts.max()) // ROUNDS))
        self.rounds = -(-int(counts.max()) // self.step)
        held = {
            "feature": torch.where(inner, forest.feature, 0),
            "threshold": torch.where(inner, forest.threshold, torch.inf),
            "child": _narrow(child),
            "roots": forest.starts[:-1],
            "ends": _narrow(csr.cumulate(counts)),
            "label": torch.cat([table.indices, torch.tensor([table.width], dtype=torch.int32)]),
            "share": short if torch.equal(short.float(), share) else share,
            "offset": torch.arange(self.step).repeat_interleave(self.trees),
            "zeros": torch.zeros(table.width + 1, dtype=torch.float64),
        }
        for name, t in held.items():
            self.register_buffer(name, t)

    def forward(self, features: Tensor) -> Tensor:
        """The log-odds of the mean over trees."""
        x = features.T.contiguous()  # a row of what follows is a tree, whose nodes lie together
        first = torch.zeros_like(x[:1])
        node = first.long() + self.roots[:, None]
        for _ in range(self.levels):
            looked = x.gather(0, torch.take(self.feature, node).long())
            second = looked > torch.take(self.threshold, node)
            node = torch.take(self.child, node).long() + second
        start, end = (torch.take(self.ends, at).long() for at in (node, node + 1))
        total = first.double() + self.zeros[:, None]
        start, end = (torch.cat([at] * self.step) for at in (start, end))
        for at in range(self.rounds):
            place = start + (self.offset[:, None] + at * self.step)
            place = torch.where(place < end, place, len(self.label) - 1)
            label, share = (torch.take(t, place) for t in (self.label, self.share))
            total = total.scatter_add(0, label.long(), share.double())
        return log_odds((total[: self.labels].T / self.trees).float())


def _depth(inner: Tensor, child: Tensor, roots: Tensor) -> int:
    """How many inner nodes the longest way down has."""
    levels, at = 0, roots[inner[roots]]
    while len(at):
        below = torch.cat([child[at], child[at] + 1])
        levels, at = levels + 1, below[inner[below]]
    return levels


def _narrow(t: Tensor) -> Tensor:
    """int32 where the numbers, which do not fall below 0, fit."""
    return t.int() if int(t.max()) < 1 << 31 else t


# ---- scikit-learn's trees -----------------------------------------------------------------------


def _positive(fitted: Any) -> list[int | None]:
    """Of each label: where `value` has the share of positives; None if none ever was positive."""
    if not hasattr(fitted, "classes_"):
        return [0] * int(fitted.n_outputs_)
    classes = [fitted.classes_] if fitted.n_outputs_ == 1 else fitted.classes_
    for at, known in enumerate(classes):
        if not {*known} <= {0, 1}:
            raise ValueError(f"the classes of label {at} must be 0 and 1, got {[*known]}")
    return [next((int(i) for i in np.flatnonzero(known == 1)), None) for known in classes]


def _of_tree(fitted: Any, positive: Sequence[int | None]) -> tuple[Array, Array, SparseRows, Array]:
    """Features, thresholds, leaves and their sizes of one tree, its nodes level by level."""
    feature, threshold, leaves = _levels(fitted.tree_)
    column = np.array([0 if at is None else at for at in positive])
    shares = fitted.tree_.value[leaves][:, np.arange(len(column)), column]
    shares[:, [at is None for at in positive]] = 0.0
    return feature, threshold, shares_table(shares), _sizes(fitted.tree_, leaves)


def _sizes(tree: Any, leaves: Array) -> Array:
    """(leaves,) float32: how much the rows of each weigh together; rows may weigh 0."""
    sizes: Array = np.maximum(tree.weighted_n_node_samples[leaves], 1e-6).astype(np.float32)
    return sizes


def _levels(tree: Any) -> tuple[Array, Array, Array]:
    """Features and thresholds of the nodes, level by level, and the numbers of the leaves."""
    order, level = [], np.zeros(1, dtype=np.int64)
    while len(level):
        order.append(level)
        inner = level[tree.children_left[level] >= 0]
        pairs = np.stack([tree.children_left[inner], tree.children_right[inner]], axis=1)
        level = pairs.ravel()
    nodes = np.concatenate(order)
    inner = tree.children_left[nodes] >= 0
    feature = np.where(inner, tree.feature[nodes], -1).astype(np.int32)
    exact = np.where(inner, tree.threshold[nodes], 0.0)
    threshold = exact.astype(np.float32)
    threshold = np.where(threshold > exact, np.nextafter(threshold, np.float32(-np.inf)), threshold)
    return feature, threshold, nodes[~inner]


def shares_table(shares: Array) -> SparseRows:
    """(leaves, labels) in [0, 1] as a forest keeps them: as precise as float16, 0 left out."""
    rounded = np.clip(shares, 0.0, 1.0).astype(np.float16).astype(np.float32)
    rows, columns = np.nonzero(rounded)
    starts = csr.pointers(torch.from_numpy(rows), len(rounded))
    return SparseRows.from_csr(starts, columns, rounded.shape[1], rounded[rows, columns])


# ---- checks -------------------------------------------------------------------------------------


def _before(inner: Array) -> Array:
    """(nodes + 1,): how many inner nodes come before each."""
    return np.concatenate([[0], np.cumsum(inner, dtype=np.int64)])


def _check(forest: Forest) -> None:
    """Every walk ends in a leaf, and every leaf has its row; ValueError otherwise."""
    feature, threshold, starts = forest.feature, forest.threshold, forest.starts
    if feature.ndim != 1 or starts.ndim != 1 or threshold.shape != feature.shape:
        raise ValueError("a forest has one feature and one threshold per node")
    if forest.width < 1 or forest.width >= 1 << 31:
        raise ValueError(f"a forest has at least one feature, got {forest.width}")
    if len(starts) < 2 or starts[0] != 0 or starts[-1] != len(feature):
        raise ValueError(f"starts of a forest must run from 0 to {len(feature)}, its nodes")
    if bool((starts.diff() < 1).any()):
        raise ValueError("every tree of a forest has at least one node")
    if bool(((feature < -1) | (feature >= forest.width)).any()):
        raise ValueError(f"features of a forest must lie in 0..{forest.width - 1}, or be -1")
    if not bool(threshold.isfinite().all()):
        raise ValueError("thresholds of a forest must be finite")
    if bool(forest.leaves.filled().isnan().any()):
        raise ValueError("the leaves of a forest must have no NaN")
    before = _before(feature.numpy() >= 0)
    if len(forest.leaves) != len(feature) - before[-1]:
        got = f"{len(forest.leaves)} for {len(feature) - before[-1]}"
        raise ValueError(f"a forest has one row of values per leaf, got {got}")
    sizes = forest.sizes
    if sizes is not None and (sizes.dtype != torch.float32 or sizes.shape != (len(forest.leaves),)):
        got = f"{sizes.dtype} {tuple(sizes.shape)}"
        raise ValueError(f"{SIZES} of a forest must be float32, one for each leaf, got {got}")
    if sizes is not None and not bool(((sizes > 0) & sizes.isfinite()).all()):
        raise ValueError(f"{SIZES} of a forest must be finite and above 0")
    # level by level: as many nodes as twice the inner nodes above, until the tree is used up
    low, end = starts.numpy()[:-1], starts.numpy()[1:]
    high = low + 1
    for _ in range(LEVELS):
        below = 2 * (before[high] - before[low])
        low, high = high, high + below
        if (high > end).any() or (high[below == 0] < end[below == 0]).any():
            raise ValueError("a tree of the forest does not have two children per inner node")
        going = below > 0
        if not going.any():
            return
        low, high, end = low[going], high[going], end[going]
    raise ValueError(f"a tree of the forest is deeper than {LEVELS} levels")
