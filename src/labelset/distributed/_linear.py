"""linear_loss and linear_sgd_step over ranks: each has its own labels, block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed

from labelset import check, linear
from labelset.distributed._labels import OverLabels, over_labels
from labelset.distributed._place import Place, is_dtensor, placed
from labelset.distributed._ranks import ALONE, entered, ranks, total
from labelset.distributed._rows import Rows, averaged, counted
from labelset.distributed._slices import labels_at, numbers_at
from labelset.losses._separable import Separable

__all__ = ["linear_loss", "linear_sgd_step"]


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
    x, grid = entered(here.features, here.place.grid.labels), here.place.grid
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
    grid = here.place.grid
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
    x = entered(here.features, grid.labels)
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
    place: Place

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
        w, place = placed(weight, 0, over.group, over.rows, len(x))
        return cls(over, x, w, _bias(bias, place), labels_at(labels, place, x.device), place)

    @property
    def summed(self) -> Any:
        """The loss of this rank's labels, not yet averaged."""
        return self._part.summed

    def count(self, dtype: torch.dtype) -> Tensor | None:
        """What the mean is over; None where there is none."""
        return counted(self.summed, dtype, self.labels) if self._part.mean else None

    @property
    def _part(self) -> Rows:
        _, part = self.over.parts_at(self.place)[0]
        assert isinstance(part, Rows)
        return part


def _bias(bias: Any, place: Place) -> Any:
    if bias is None:
        return None
    return bias.to_local() if is_dtensor(bias) else numbers_at(bias, place)
