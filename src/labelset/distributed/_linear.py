"""linear_loss over ranks: each computes the loss of its own labels, block by block."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from labelset import linear
from labelset.distributed._labels import OverLabels, over_labels
from labelset.distributed._place import is_dtensor, placed
from labelset.distributed._ranks import entered
from labelset.distributed._rows import Rows, averaged, counted
from labelset.distributed._slices import labels_at, numbers_at
from labelset.losses._separable import Separable

__all__ = ["linear_loss"]


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
    y, b = labels_at(labels, place, x.device), _bias(bias, place)
    grid, (_, part) = place.grid, over.parts_at(place)[0]
    assert isinstance(part, Rows)
    value = linear.linear_loss(entered(x, grid.labels), w, y, part.summed, b, impl)
    count = counted(part.summed, value.dtype, y) if part.mean else None
    total = averaged(value, count, grid.labels, grid.rows)
    return over.finished(total.to(value.dtype), grid)


def _bias(bias: Any, place: Any) -> Any:
    if bias is None:
        return None
    return bias.to_local() if is_dtensor(bias) else numbers_at(bias, place)
