"""Where calibration starts: what scores mean by the loss that they were trained with."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from labelset.losses import Loss

__all__ = ["linked", "log_odds", "telling_log_odds"]

REACH = 4.0  # of the values tried, best or nearly so for `asl` on held-out real data
WIDEST = 100.0  # scores between which a link is searched


def linked(loss: Loss | None) -> bool:
    """Whether scores trained with this loss mean probabilities."""
    return loss is not None and loss.link_missing() is None


def log_odds(loss: Loss, v: Tensor) -> Tensor:
    """The log-odds of the linked probability, infinite where that is 0 or 1."""
    return loss.to(v.device).log_odds(v)


def telling_log_odds(loss: Loss, v: Tensor) -> Tensor:
    """The same, made finite where a link is 0 or 1 for a whole range of scores.

    There (below the margin of `asl`, far out for smoothed `bce`) the scores still tell rows apart:
    beyond log-odds of +-REACH these go on in the steps of v itself. Other links stay as they are.

    >>> v = torch.tensor([[-9.0], [-8.0], [0.0]], dtype=torch.float64)
    >>> from labelset.losses import build
    >>> telling_log_odds(build("asl"), v).flatten()
    tensor([-12.3923, -11.3923,  -1.9225], dtype=torch.float64)
    """
    width = loss.per_label() or 1
    if _finite(loss, width):
        return log_odds(loss, v)
    low, high = (_crossing(loss, width, level).to(v) for level in (-REACH, REACH))
    inside = torch.minimum(torch.maximum(v, low), high)
    return log_odds(loss, inside) + (v - inside)


@lru_cache(maxsize=64)
def _finite(loss: Loss, width: int) -> bool:
    """Whether no score, however far out, means exactly 0 or 1."""
    far = torch.tensor([-1e3, -30.0, 30.0, 1e3], dtype=torch.float64)[:, None]
    return bool(log_odds(loss, far.expand(-1, width)).isfinite().all())


@lru_cache(maxsize=64)
def _crossing(loss: Loss, width: int, level: float) -> Tensor:
    """(1, width): the score at which the log-odds come to lie on the inner side of a level."""
    side = 1.0 if level > 0 else -1.0
    beyond = torch.full((1, width), side * WIDEST, dtype=torch.float64)
    within = -beyond
    for _ in range(60):
        middle = (within + beyond) / 2
        inner = side * log_odds(loss, middle) <= abs(level)
        within, beyond = torch.where(inner, middle, within), torch.where(inner, beyond, middle)
    return within
