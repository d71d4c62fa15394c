"""Which rows and labels a rank has: its slice of labels, parameters and losses; and shard_labels,
for linear layers and the dft head, of which each rank then has some labels."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.functional import linear

from labelset import check, csr
from labelset.data import SparseRows
from labelset.distributed.collectives import ALONE, Grid, axis, members, ranks, sum_gradient
from labelset.labels import Labels
from labelset.linear import columns_of
from labelset.losses import Loss, Separable
from labelset.ranks import all_reduce

Span = tuple[int, int, int]
"""first, last and all: this rank holds first ... last - 1 of 0 ... all - 1."""


@dataclass(frozen=True)
class Sharding:
    """The labels, and rows, of this rank; where ranks hold rows of their own they are all."""

    labels: Span
    rows: Span
    grid: Grid


def is_dtensor(x: Any) -> bool:
    """Whether x is a DTensor; their module is not imported for those who have none."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(x, module.DTensor)


def group_of(group: Any) -> Any:
    """A process group (None: all ranks) as it is, or that of a 1-D DeviceMesh."""
    return group.get_group() if hasattr(group, "get_group") else group


def sharding_of(t: Tensor, dim: int, group: Any, rows: Any, height: int) -> tuple[Tensor, Sharding]:
    """This rank's part of logits (labels along `dim` 1) or weights (0), and where it belongs.

    A DTensor knows. Of plain tensors the ranks tell each other how many labels they hold: these
    lie in the order of the ranks. `height` is the number of rows of the batch.
    """
    if is_dtensor(t):
        local, sharding = _of_dtensor(t, dim, group, rows, height)
    else:
        local, sharding = t, _from_ranks(t, dim, axis(group), rows, height)
    _keep_apart(sharding.grid)
    return local, sharding


def as_dtensor(v: Tensor, n: int, mesh: Any) -> Tensor:
    """Logits of this rank's labels as a DTensor of (..., n), `Shard` over its last dimension."""
    from torch.distributed.tensor import DTensor, Shard

    whole = torch.empty(*v.shape[:-1], n, device="meta")
    about: Any = {"shape": whole.shape, "stride": whole.stride(), "run_check": False}
    return DTensor.from_local(v, mesh, [Shard(v.ndim - 1)], **about)


def _from_ranks(t: Tensor, dim: int, group: Any, rows: Any, height: int) -> Sharding:
    width = t.shape[dim]
    if group is ALONE:
        return Sharding((0, width, width), (0, height, height), Grid(axis(rows)))
    index = distributed.get_rank(group)
    table = torch.zeros(ranks(group), 2, dtype=torch.int64, device=t.device)
    table[index, 0], table[index, 1] = width, height
    all_reduce(table, group=group)
    widths, heights = table.T.tolist()
    if len(set(heights)) > 1:
        raise ValueError(
            "ranks that share the labels must hold the same rows, got "
            f"{heights} rows on the ranks {members(group)}; where each has rows of its own, "
            "use global_batch"
        )
    first = sum(widths[:index])
    spans = (first, first + width, sum(widths)), (0, height, height)
    return Sharding(*spans, Grid(axis(rows), group))


def _of_dtensor(t: Any, dim: int, group: Any, rows: Any, height: int) -> tuple[Tensor, Sharding]:
    """From the placements; a mesh dimension over which the tensor is whole changes nothing."""
    spans, groups = _cuts(t, dim)
    labels, other = groups.get(dim, ALONE), groups.get(1 - dim, ALONE)
    if group is not None and labels is not ALONE and members(group) != members(labels):
        raise ValueError(
            f"the group holds the ranks {members(group)}, the DTensor is sharded over "
            f"{members(labels)}; leave the group out, the DTensor knows its own"
        )
    if other is not ALONE and dim == 0:
        raise ValueError(f"the weight must be sharded over its labels only, got {t.placements}")
    if other is not ALONE and rows is not ALONE:
        raise ValueError(
            "the rows are sharded by the DTensor itself: give over_labels the loss without "
            "global_batch"
        )
    local = t.to_local()
    _check_spans(local, spans, t)
    grid = Grid(axis(rows if other is ALONE else other), axis(labels))
    return local, Sharding(spans[dim], spans[0] if dim else (0, height, height), grid)


def _cuts(t: Any, dim: int) -> tuple[dict[int, Span], dict[int, Any]]:
    """What of each of its two dimensions is here, and over which ranks it is cut, if it is."""
    spans: dict[int, Span] = {along: (0, size, size) for along, size in enumerate(t.shape)}
    groups: dict[int, Any] = {}
    for number, placement in enumerate(t.placements):
        if placement.is_replicate():
            continue
        along = placement.dim % t.ndim if _plain_shard(placement) else None
        if along is None or along in groups:
            raise ValueError(
                f"expected a DTensor sharded over its labels, Shard({dim}), got {t.placements}; "
                f"call redistribute(placements=[Shard({dim})]) on it"
            )
        size, index = t.device_mesh.size(number), t.device_mesh.get_local_rank(number)
        spans[along] = chunk(t.shape[along], size, index)
        groups[along] = t.device_mesh.get_group(number)
    return spans, groups


def _plain_shard(placement: Any) -> bool:
    """Whether it is simply cut; other kinds of shards interleave."""
    return bool(placement.is_shard()) and type(placement).__name__ == "Shard"


def chunk(n: int, size: int, index: int) -> Span:
    """What a DTensor gives to the rank: equal pieces, the last ones shorter or empty."""
    step = -(-n // size)
    first = min(index * step, n)
    return first, min(first + step, n), n


def _check_spans(local: Tensor, spans: dict[int, Span], t: Tensor) -> None:
    expected = tuple(last - first for first, last, _ in spans.values())
    if tuple(local.shape) != expected:
        raise ValueError(
            f"a DTensor of shape {tuple(t.shape)} has {expected} on this rank if it is cut evenly, "
            f"got {tuple(local.shape)}; give the local tensor itself, ranks may hold any number"
        )


def _keep_apart(grid: Grid) -> None:
    if grid.rows is ALONE or grid.labels is ALONE:
        return
    both = set(members(grid.rows)) & set(members(grid.labels))
    if len(both) > 1:
        raise ValueError(
            f"rows and labels are both spread over the ranks {sorted(both)}; give global_batch "
            "and over_labels a group each, the two dimensions of a 2-D DeviceMesh"
        )


def local_labels(labels: Any, sharding: Sharding, device: torch.device) -> Any:
    """This rank's labels from its own, or from those of all ranks; arrays go to the device."""
    y = labels.to_local() if is_dtensor(labels) else labels
    if not isinstance(y, (Labels, Tensor)):
        y = csr.as_tensor(y).to(device)
    if len(y.shape) != 2:
        raise ValueError(f"labels must be 2-D (rows, labels), got shape {tuple(y.shape)}")
    if _choose("rows", y.shape[0], *sharding.rows):
        y = y[sharding.rows[0] : sharding.rows[1]]
    if not _choose("labels", y.shape[1], *sharding.labels):
        return y
    first, last, _ = sharding.labels
    if isinstance(y, Labels):
        return columns_of(y, first, last)
    check.unit_interval(y)  # all of them, so that every rank refuses what one would
    return y[:, first:last]


def _choose(what: str, got: int, first: int, last: int, every: int) -> bool:
    """Whether all were given, of which this rank's are to be taken."""
    if got == last - first:
        return False
    if got != every:
        raise ValueError(
            f"labels must be given for this rank's {last - first} {what} ({first} to {last}), or "
            f"for all {every}, got {got}"
        )
    return True


def local_parameters(numbers: Tensor, sharding: Sharding) -> Tensor:
    """This rank's numbers where one for each of all labels was given; others as they are."""
    first, last, n = sharding.labels
    return numbers[first:last] if numbers.ndim and len(numbers) == n else numbers


def local_loss(loss: Loss, sharding: Sharding) -> Any:
    """The loss of this rank's labels: it knows how many there are in all (`wan`)."""
    if isinstance(loss, Separable):
        bound = loss.bind(sharding.labels[2])
        if bound is not loss:
            loss = bound._with(reduction=loss.reduction, impl=loss.impl)
    return loss._map(lambda one: local_loss(one, sharding), lambda t: local_parameters(t, sharding))


# ---- heads ---------------------------------------------------------------------------------------


class ShardedDFT(nn.Module):
    """logits = [F S] (P e + c), each rank computing those of its own rows of F and S.

    P and c are on every rank, and their gradients are whole there; S is a DTensor, `Shard(0)`, and
    the rows of F follow from the formula. Names are those of the head it was made from.
    """

    order: Tensor
    frequencies: Tensor
    slack: Any

    def __init__(self, whole: Any, mesh: Any) -> None:
        super().__init__()
        from torch.distributed.tensor import Shard, distribute_tensor

        if whole.slack.device.type == "meta":
            raise ValueError("a dft head on the meta device cannot be spread; make it on the CPU")
        self.mesh, self.n, self.k, self._formula = mesh, whole.n, whole.k, whole.fourier
        self.projection = whole.projection
        shard = distribute_tensor(whole.slack.detach(), mesh, [Shard(0)])
        self.slack = nn.Parameter(shard, whole.slack.requires_grad)
        self.register_buffer("order", whole.order)
        self.register_load_state_dict_post_hook(_after_load)  # type: ignore[no-untyped-call]
        self._renew()

    def forward(self, features: Tensor | SparseRows) -> Tensor:
        """(..., labels) as a DTensor, of which this rank has its labels."""
        if isinstance(features, SparseRows):
            x = features @ self.projection.weight.T + self.projection.bias
        else:
            x = self.projection(features)
        rows = torch.cat([self.frequencies, self.slack.to_local()], dim=1)
        return as_dtensor(linear(sum_gradient(x, self.mesh.get_group()), rows), self.n, self.mesh)

    def _apply(self, fn: Any, recurse: bool = True) -> ShardedDFT:
        """Moves as modules do, with the fixed part recomputed, so that it never loses precision."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._renew()
        return self

    def _renew(self) -> None:
        first, last, _ = chunk(self.n, self.mesh.size(), self.mesh.get_local_rank())
        rows = self._formula(self.order[first:last], self.n, self.k)
        self.register_buffer("frequencies", rows.to(self.projection.weight), persistent=False)

    def extra_repr(self) -> str:
        return f"labels={self.n}, k={self.k}, held={len(self.frequencies)}"


def _after_load(head: Any, _: Any) -> None:
    """The order of the labels may have changed."""
    head._renew()


def shard_labels(module: nn.Module, group: Any = None) -> nn.Module:
    """A linear layer, or the linear layer of a head, with its labels spread over ranks.

    `module` is an `nn.Linear`, or a module whose `classifier` is one (the `linear` head), which
    is changed in place, or the `dft` head. Of n labels each of the R ranks of `group` (None: all;
    or a 1-D DeviceMesh) gets ceil(n / R), the last fewer or none. Rank 0's numbers are used. What
    comes back has the names of what was given; weight and bias (of a dft head, `slack`) are
    DTensors, `Shard(0)`, and so are the logits, `Shard(1)`, for `over_labels`. Features are plain
    tensors or `SparseRows`, the same on every rank.

    Where no rank can hold the whole weight, give a layer made with `device="meta"`, then call
    `to_empty(device=...)` and `reset_parameters()`, or load a checkpoint.

    Without a process group the module comes back as it is.

    >>> shard_labels(nn.Linear(3, 5))
    Linear(in_features=3, out_features=5, bias=True)
    """
    slack = getattr(module, "slack", None)
    if isinstance(slack, Tensor) and getattr(module, "name", None) == "dft":
        alone = ranks(group_of(group)) == 1
        return module if alone else ShardedDFT(module, _mesh(group, slack.device.type))
    inner = module if isinstance(module, nn.Linear) else getattr(module, "classifier", None)
    if not isinstance(inner, nn.Linear):
        raise TypeError(
            "shard_labels takes an nn.Linear, a module whose classifier is one (the linear head), "
            f"or the dft head, got {type(module).__name__}"
        )
    if ranks(group_of(group)) == 1:
        return module
    sharded = ShardedLinear(inner, _mesh(group, inner.weight.device.type))
    if inner is module:
        return sharded
    module.classifier = sharded
    return module


class ShardedLinear(nn.Module):
    """logits = W e + b, each rank computing those of its own rows of W."""

    weight: Any
    bias: Any

    def __init__(self, whole: nn.Linear, mesh: Any) -> None:
        super().__init__()
        from torch.distributed.tensor import Shard, distribute_tensor

        self.in_features, self.out_features = whole.in_features, whole.out_features
        self.mesh = mesh
        for name in ("weight", "bias"):
            given = getattr(whole, name)
            if given is not None:
                shard = distribute_tensor(given.detach(), mesh, [Shard(0)])
                given = nn.Parameter(shard, given.requires_grad)
            self.register_parameter(name, given)

    def forward(self, features: Tensor | SparseRows) -> Tensor:
        """(..., labels) as a DTensor, of which this rank has its labels."""
        w, b = self.weight.to_local(), None if self.bias is None else self.bias.to_local()
        if isinstance(features, SparseRows):
            v = features @ w.T if b is None else features @ w.T + b
        else:
            v = linear(sum_gradient(features, self.mesh.get_group()), w, b)
        return as_dtensor(v, self.out_features, self.mesh)

    @torch.no_grad()
    def reset_parameters(self, seed: int = 0) -> None:
        """Numbers from +-1 / sqrt(features), as in `nn.Linear`; each rank draws its own."""
        check.whole("seed", seed)
        for parameter in (self.weight, self.bias):
            if parameter is None:
                continue
            local = parameter.to_local()
            own = seed * self.mesh.size() + self.mesh.get_local_rank()
            draw = torch.Generator(local.device).manual_seed(own)
            local.uniform_(-1, 1, generator=draw).div_(math.sqrt(self.in_features))

    def extra_repr(self) -> str:
        held = len(self.weight.to_local())
        return f"in_features={self.in_features}, out_features={self.out_features}, held={held}"


def _mesh(group: Any, device: str) -> Any:
    from torch.distributed.device_mesh import DeviceMesh

    if isinstance(group, DeviceMesh):
        return group
    group = distributed.group.WORLD if group is None else group
    if device == "meta":
        device = "cuda" if distributed.get_backend(group) == "nccl" else "cpu"
    return DeviceMesh.from_group(group, device)
