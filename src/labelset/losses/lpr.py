"""Label pair regulariser (Cheng and Vasconcelos)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from labelset.catalog import hyper
from labelset.kernels import Kernel
from labelset.kernels.pairs import Odds, few, finite, pairs
from labelset.labels import Labels
from labelset.losses._base import Loss, Target, Terms, as_loss
from labelset.losses._separable import softplus
from labelset.torch_private import is_wrapped


@dataclass(frozen=True, kw_only=True, eq=False)
class LPR(Loss):
    """Every positive of a row against every negative of the same row.

        u = logit(link(v)), the link being that of the loss `of`
        row = 2 / (T (T - 1)) sum over t in P, t' in N of softplus(u_t' - u_t)      (18, 20)

    P and N are the positives and negatives of the row, T the number of both; rows with fewer than
    two known labels are left out of the mean.

    Use it: added to the loss whose link it takes, `spa + 0.5 * lpr`, to calibrate the odds
    between labels when data are few. `spa+lpr` is that sum under one name.

    Probabilities: those of the loss `of`; at the truth both are smallest together. The link of
    `asl` is 0 below its margin, where pairs can teach nothing: regularise `bce`, `focal` or `spa`.

    >>> LPR()(torch.tensor([[1.0, -1.0]]), torch.tensor([[1.0, 0.0]]))
    tensor(0.1269)
    """

    of: Any = hyper("bce", "loss with a link, or its name, whose probabilities are regularised")

    looks_at_labels = True
    examples = ({}, {"of": "spa"}, {"of": "focal"}, {"of": "wan"})

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "of", as_loss("of", self.of))
        reason = self.of.link_missing()
        if reason is not None:
            raise ValueError(f"of must be a loss with a link; {type(self.of).__name__}: {reason}")

    def terms(self, logits: Tensor, labels: Target) -> Terms:
        u = finite(self.of.log_odds(logits))
        pos, neg = labels.positive, labels.negative
        rows, columns = candidates(pos)
        pairs = softplus(u[rows] - u[rows, columns][:, None]) * neg[rows]
        itself = math.log(2) * neg[rows, columns]  # a soft label is no pair with itself
        each = pos[rows, columns] * (pairs.sum(1) - itself)
        sums = u.new_zeros(len(u)).index_add(0, rows, each)
        count = (pos + neg).sum(1)
        defined = count > 1.5
        return 2 * sums / torch.where(defined, count * (count - 1), 1.0), defined

    def kernel(self, impl: str, scores: Tensor, labels: Tensor | Labels) -> Kernel | None:
        cheap = self.impl == "auto" and impl == "native" and few(labels)
        return None if cheap else pairs(self._odds, impl, self.reduction == "mean")

    @cached_property
    def _odds(self) -> Odds:
        return Odds(self.of.log_odds)

    @property
    def saturates_positives(self) -> bool:
        return self._flat(-1e4)

    @property
    def saturates_negatives(self) -> bool:
        return self._flat(1e4)

    def _flat(self, score: float) -> bool:
        """Whether the link no longer changes at a far score."""
        v = torch.tensor([[score], [score / 2]]).expand(-1, self.per_label() or 2)
        odds = self.of.log_odds(v)
        return bool((odds[0] == odds[1]).any())

    def link_missing(self) -> None:
        return None

    def log_odds(self, v: Tensor) -> Tensor:
        return self.of.log_odds(v)  # type: ignore[no-any-return]

    def meaning(self) -> Loss:
        return self.of.meaning()  # type: ignore[no-any-return]


def candidates(pos: Tensor) -> tuple[Tensor, Tensor]:
    """(row, label) of the entries that may be positive.

    Those that are, which waits for the device; or, where shapes must not depend on values
    (while tracing), all of them.
    """
    if torch.compiler.is_compiling() or is_wrapped(pos):
        rows, columns = torch.meshgrid(
            *(torch.arange(size, device=pos.device) for size in pos.shape), indexing="ij"
        )
        return rows.flatten(), columns.flatten()
    rows, columns = pos.nonzero(as_tuple=True)
    return rows, columns
