"""Which rows and labels a rank has, and its slice of labels, parameters and losses."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed

from labelset import check, csr
from labelset.distributed.collectives import ALONE, Grid, axis, members, ranks
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
