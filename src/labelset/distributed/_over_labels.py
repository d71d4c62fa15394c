"""Losses whose labels are spread over ranks: over_labels, linear_loss and linear_sgd_step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, distributed

from labelset import check, linear
from labelset.distributed._global_batch import (
    GlobalBatch,
    OverRanks,
    Reduction,
    RowSums,
    averaged,
    counted,
    reductions_of,
)
from labelset.distributed._sharding import (
    Sharding,
    group_of,
    is_dtensor,
    local_labels,
    local_loss,
    local_parameters,
    sharding_of,
)
from labelset.distributed.collectives import ALONE, Grid, ranks, scale_gradient, sum_gradient, total
from labelset.losses import Separable, as_loss


def over_labels(loss: Any, group: Any = None) -> OverLabels:
    """The loss of logits whose labels are spread over ranks: what one process with all computes.

    Every rank of `group` (None: all) calls it at the same time, with the logits of the same rows
    and of its own labels, any number of them and also none, and gets

        value = loss(logits of all labels),  the same on every rank
        gradient of its logits = d value / d logits

    `loss` is a loss of the catalogue (or its name), a sum of such losses, or a `Separable` one of
    your own. Logits are plain tensors, labels then lying in the order of the ranks, or DTensors
    sharded over their columns. Labels, and what the loss holds per label (`pos_weight`), are given
    for all labels, of which each rank takes its own, or for the rank's own. With
    `reduction="none"` each rank gets what it can tell: its entries, its labels, or all rows.

    `over_labels(global_batch(loss, group=rows), group=labels)` spreads rows and labels over the
    two dimensions of a grid of ranks. Without a process group it is the loss itself.

    >>> loss = over_labels("bce")
    >>> loss(torch.zeros(2, 3), torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]))
    tensor(0.6931)
    """
    rows, ddp = ALONE, False
    if isinstance(loss, GlobalBatch):
        rows, ddp, loss = loss.group, loss.ddp, loss.of
    loss = as_loss("loss", loss)
    about = {"reduction": loss.reduction, "impl": loss.impl}
    return OverLabels(of=loss, group=group_of(group), rows=rows, ddp=ddp, **about)


@dataclass(frozen=True, kw_only=True, eq=False)
class OverLabels(OverRanks):
    """What `over_labels` makes; its link, parameters and epochs are those of the loss `of`."""

    rows: Any = ALONE

    def __post_init__(self) -> None:
        super().__post_init__()
        reductions_of(self.of, cut_rows=True)  # what cannot be put together is refused here

    def __call__(self, logits: Tensor, labels: Any) -> Tensor:
        v, sharding = self._placed(logits)
        if sharding.grid == Grid():
            return self.of(v, labels.full_tensor() if is_dtensor(labels) else labels)
        y, pieces = local_labels(labels, sharding, v.device), self.reductions_at(sharding)
        values = [factor * part(v, y, sharding.grid) for factor, part in pieces]
        if len({value.shape for value in values}) > 1:
            shapes = [tuple(value.shape) for value in values]
            raise ValueError(f'reduction="none" adds only losses of one shape, got {shapes}')
        value = torch.stack(values).sum(0) if len(values) > 1 else values[0]
        return self.finished(value.to(check.logits(v[:0]).dtype), sharding.grid)

    def finished(self, value: Tensor, grid: Grid) -> Tensor:
        """With the gradient that DistributedDataParallel wants, where it was asked for."""
        return (
            scale_gradient(value, ranks(grid.rows))
            if self.ddp and grid.rows is not ALONE
            else value
        )

    def log_odds(self, v: Any) -> Tensor:
        """Of this rank's logits, or of a DTensor."""
        local, sharding = self._placed(v)
        odds: Tensor = local_loss(self.of, sharding).log_odds(local)
        if not is_dtensor(v):
            return odds
        from torch.distributed.tensor import DTensor

        whole: Any = {"shape": v.shape, "stride": v.stride(), "run_check": False}
        return DTensor.from_local(odds, v.device_mesh, v.placements, **whole)

    def _placed(self, logits: Tensor) -> tuple[Tensor, Sharding]:
        check.scores(logits)
        check.same_place(logits, logits)  # that is, they are a matrix
        return sharding_of(logits, 1, self.group, self.rows, len(logits))

    def reductions_at(self, sharding: Sharding) -> list[tuple[float, Reduction]]:
        """Those of the loss for this rank's labels, kept: kernels are made once for them."""
        key = sharding.labels, sharding.grid.labels is ALONE
        if key in self._kept:
            return self._kept[key]
        found = reductions_of(
            local_loss(self.of, sharding), cut_rows=sharding.grid.labels is not ALONE
        )
        if not self.of._learns():  # a slice of what is learnt is part of one graph only
            self._kept[key] = found
        return found

    @cached_property
    def _kept(self) -> dict[Any, list[tuple[float, Reduction]]]:
        return {}


def linear_loss(
    features: Tensor,
    weight: Tensor,
    labels: Any,
    loss: Any,
    bias: Tensor | None = None,
    impl: str = "auto",
    group: Any = None,
) -> Tensor:
    """`labelset.linear_loss` with the rows of the weight spread over ranks, as one process has it.

    features (rows, d), the same on every rank; weight (its labels, d) and bias (its labels,),
    plain or as DTensors, `Shard(0)`; labels, and what the loss holds per label, of this rank or of
    all labels. `loss` is separable, its name, or what `over_labels` made of one. No rank sees
    more than a block of its own logits. Every rank gets the value, the gradient of the features
    (summed over ranks in backward), and that of its own weights.

    >>> import torch
    >>> from labelset import Labels
    >>> x, w = torch.ones(2, 3), torch.zeros(4, 3, requires_grad=True)
    >>> linear_loss(x, w, Labels.from_lists([[0], [1, 2]], n=4), "bce").detach()
    tensor(0.6931)
    """
    here = _Here.of(features, weight, labels, loss, bias, group)
    x, grid = sum_gradient(here.features, here.sharding.grid.labels), here.sharding.grid
    value = linear.linear_loss(x, here.weight, here.labels, here.summed, here.bias, impl)
    mean = averaged(value, here.count(value.dtype), grid.labels, grid.rows)
    return here.over.finished(mean.to(value.dtype), grid)


def linear_sgd_step(
    features: Tensor,
    weight: Tensor,
    labels: Any,
    loss: Any,
    lr: float,
    bias: Tensor | None = None,
    weight_decay: float = 0.0,
    seed: int = 0,
    impl: str = "auto",
    group: Any = None,
) -> Tensor:
    """`labelset.linear_sgd_step` with the rows of the weight spread over ranks.

    Arguments are those of `linear_loss` above; every rank makes the step of its own rows of the
    weight, as one process would, and gets the value and the gradient of the features. How many
    labels are known on all ranks is asked first, for which a GPU is waited for. Rows of bfloat16
    are rounded by random numbers of the rank's own.

    >>> import torch
    >>> from labelset import Labels
    >>> x, w = torch.ones(2, 3), torch.zeros(4, 3)
    >>> linear_sgd_step(x, w, Labels.from_lists([[0], [1, 2]], n=4), "bce", lr=1.0)
    tensor(0.6931)
    >>> w[:, 0]
    tensor([ 0.0000,  0.0000,  0.0000, -0.1250])
    """
    here = _Here.of(features, weight, labels, loss, bias, group)
    grid = here.sharding.grid
    if grid.rows is not ALONE:
        raise ValueError(
            "a step needs the gradient of all rows, of which ranks hold some here: give the loss "
            "without global_batch, or use linear_loss and an optimiser"
        )
    if grid.labels is ALONE:
        step = (lr, here.bias, weight_decay, seed, impl)
        return linear.linear_sgd_step(here.features, here.weight, here.labels, here.over.of, *step)
    count = here.count(torch.float64)
    known = 1.0 if count is None else max(float(total(count.double(), grid.labels)), 1.0)
    # of a sum, whose slope is `known` times that of the mean; decay is what it was
    rate, decay = check.number("lr", lr, low=0.0) / known, weight_decay * known
    own = seed * ranks(grid.labels) + distributed.get_rank(grid.labels)
    x = sum_gradient(here.features, grid.labels)
    step = (rate, here.bias, decay, own, impl)
    value = linear.linear_sgd_step(x, here.weight, here.labels, here.summed, *step)
    return averaged(value, count, grid.labels).to(value.dtype)


@dataclass(frozen=True)
class _Here:
    """What this rank holds of one call."""

    over: OverLabels
    features: Tensor
    weight: Tensor
    bias: Tensor | None
    labels: Any
    sharding: Sharding

    @classmethod
    def of(
        cls, features: Tensor, weight: Tensor, labels: Any, loss: Any, bias: Any, group: Any
    ) -> _Here:
        over = loss if isinstance(loss, OverLabels) else over_labels(loss, group)
        if not isinstance(over.of, Separable):
            raise TypeError(f"loss must be a Separable loss, got {type(over.of).__name__}")
        if over.reduction == "none":
            raise ValueError('no values are kept here: use reduction="mean" or "sum"')
        for name, t in (("features", features), ("weight", weight)):
            if not isinstance(t, Tensor) or t.ndim != 2:
                raise TypeError(f"{name} must be a 2-D floating-point tensor")
        x = features.full_tensor() if is_dtensor(features) else features  # type: ignore[attr-defined]
        w, sharding = sharding_of(weight, 0, over.group, over.rows, len(x))
        return cls(
            over, x, w, _bias(bias, sharding), local_labels(labels, sharding, x.device), sharding
        )

    @property
    def summed(self) -> Any:
        """The loss of this rank's labels, not yet averaged."""
        return self._part.summed

    def count(self, dtype: torch.dtype) -> Tensor | None:
        """What the mean is over; None where there is none."""
        return counted(self.summed, dtype, self.labels) if self._part.mean else None

    @property
    def _part(self) -> RowSums:
        _, part = self.over.reductions_at(self.sharding)[0]
        assert isinstance(part, RowSums)
        return part


def _bias(bias: Any, sharding: Sharding) -> Any:
    if bias is None:
        return None
    return bias.to_local() if is_dtensor(bias) else local_parameters(bias, sharding)
