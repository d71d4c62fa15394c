"""Where biases start: at the constant score that the loss itself would choose."""

from __future__ import annotations

import torch
from torch import Tensor

from labelset.heads import Head
from labelset.heads.linear import Linear
from labelset.losses import Loss, Separable

STARTS = ("own", "frequencies", "zero")
FAR, STEP = 10.0, 5e-3


def start(head: Head, loss: Loss, kind: str) -> None:
    """Move the biases of a head that training has just made.

    The training loop starts a linear head at logit(frequency), which is right where sigmoid(score)
    is the probability. `own`: at the best constant of the loss, where it has one; else spa, whose
    link is 0.05 at 0, would spend its steps on coming up from -3. `frequencies`: as the loop has
    it; `zero`: at 0.
    """
    layer = head.classifier if isinstance(head, Linear) else head.projection
    bias = getattr(layer, "bias", None)
    if bias is None or kind == "frequencies":
        return
    first = loss.at(0)
    with torch.no_grad():
        if kind == "zero":
            bias.zero_()
        elif isinstance(head, Linear):
            bias.copy_(best_constant(first, torch.sigmoid(bias.double())))


def best_constant(loss: Loss, share: Tensor) -> Tensor:
    """(labels,) v with link(v) = share; else the lowest minimum of the loss of a constant,

        share pos(v) + (1 - share) neg(v),

    where training would stop, coming from below; where there is neither it is logit(share).

    >>> from labelset.losses import build
    >>> best_constant(build("bce"), torch.tensor([0.1, 0.9]).double())
    tensor([-2.1950,  2.2000], dtype=torch.float64)
    """
    v = torch.arange(-FAR, FAR, STEP, dtype=torch.float64, device=share.device)
    column = v[:, None].expand(-1, len(share))
    if loss.link_missing() is None:
        there = loss.link(column) >= share
    elif isinstance(loss, Separable):
        risk = share * loss.pos(column) + (1 - share) * loss.neg(column)
        rises = torch.nn.functional.pad(risk.diff(dim=0) > 0, (0, 0, 0, 1))
        there = rises & ((~rises).cumsum(0) > 0)
    else:
        return torch.logit(share)
    found = there.float().argmax(0)
    return torch.where(there.any(0), v[found], torch.logit(share))
