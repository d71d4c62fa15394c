"""Separable losses: two functions of one score, from which all the rest follows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from labelset import check
from labelset.formulas import NotTraceable
from labelset.kernels import Kernel
from labelset.kernels.separable import Pair, separable, traced_pair
from labelset.labels import Labels
from labelset.losses._base import Loss, Target, Terms


@dataclass(frozen=True, kw_only=True, eq=False)
class Separable(Loss):
    """A sum over entries: `pos(v)` of a positive, `neg(v)` of a negative.

    loss = y pos(v) + (1 - y) neg(v), y in [0, 1]
    link = neg' / (neg' - pos'), the posterior for which v is the minimiser of the risk (11)

    The slopes -pos' and neg' are derived; a closed form replaces them where there is one (it is
    exact where both underflow), and the laws compare the two.
    """

    kernel_replaces = ("terms", "groups", "_sparse_terms")

    @abstractmethod
    def pos(self, v: Tensor) -> Tensor:
        """The loss of a score whose label is positive."""

    @abstractmethod
    def neg(self, v: Tensor) -> Tensor:
        """The loss of a score whose label is negative."""

    def terms(self, logits: Tensor, labels: Target) -> Terms:
        me = self.bind(logits.shape[-1])
        pos, neg, y = me.pos(logits), me.neg(logits), labels.positive
        if labels.hard:
            return torch.where(y > 0, pos, neg), labels.known
        return y * pos + (1 - y) * neg, labels.known

    def groups(self, v: Tensor, labels: Any) -> list[Terms]:
        if isinstance(labels, Labels):
            check.same_place(v, labels)
            return [self._sparse_terms(v, labels)]
        return super().groups(v, labels)

    def kernel(self, impl: str, scores: Tensor, labels: Tensor | Labels) -> Kernel | None:
        pair = self._pair(scores.shape[1], scores.device)
        if pair is None:
            return None
        return separable(pair, impl, scores, labels, self.reduction == "mean")

    def _pair(self, n: int, device: Any) -> Pair | None:
        """Both sides as a formula, traced once for each number of labels; None: there is none."""
        if not self.has_kernel:
            return None
        key = n, device
        if key not in self._pairs:
            me = self.bind(n)
            width = n if self.per_label() else 1
            try:
                self._pairs[key] = traced_pair(me.pos, me.neg, width, device)
            except NotTraceable:
                self._pairs[key] = None
        return self._pairs[key]

    @cached_property
    def _pairs(self) -> dict[Any, Pair | None]:
        return {}

    def _sparse_terms(self, v: Tensor, labels: Labels) -> Terms:
        """`neg` everywhere, then the stored entries put right: no dense labels are made.

        Writing over an entry, rather than adding pos - neg to the sum, leaves nothing to cancel.
        """
        me = self.bind(labels.n)
        where = labels.rows(), labels.indices.long()
        stored, there = v[where], me.select_labels(where[1], labels.n)
        if labels.values is None:
            return me.neg(v).index_put(where, there.pos(stored)), None
        known = ~labels.values.isnan()
        zero = torch.zeros_like(stored)
        stored = torch.where(known, stored, zero)
        y = torch.where(known, labels.values.to(v.dtype), zero)
        entries = y * there.pos(stored) + (1 - y) * there.neg(stored)
        values = me.neg(v.index_put(where, stored)).index_put(where, entries)
        return values, torch.ones_like(v, dtype=torch.bool).index_put(where, known)

    def bind(self, n: int) -> Separable:
        """This loss once the number of labels is known (only `wan` needs it)."""
        return self._map(inner=lambda loss: loss.bind(n))  # type: ignore[no-any-return]

    def select_labels(self, labels: Tensor, n: int) -> Separable:
        """This loss for the scores of these labels of `n`, with their per-label parameters."""
        return self._map(  # type: ignore[no-any-return]
            lambda loss: loss.select_labels(labels, n),
            lambda t: t[labels] if t.ndim and len(t) == n else t,
        )

    def unmargined(self) -> Separable:
        """This loss without a margin on its positives: what splc gives to corrected entries."""
        return self

    # ---- probabilities ------------------------------------------------------------------------

    def link_missing(self) -> str | None:
        return None

    def log_odds(self, v: Tensor) -> Tensor:
        me = self.bind(v.shape[-1] if v.ndim else 1)
        return me.log_neg_slope(v) - me.log_pos_slope(v)

    def log_neg_slope(self, v: Tensor) -> Tensor:
        """log of the slope of `neg` against p = sigmoid(v)."""
        return derived(self.neg, v, 1.0)

    def log_pos_slope(self, v: Tensor) -> Tensor:
        """log of minus the slope of `pos` against p = sigmoid(v)."""
        return derived(self.pos, v, -1.0)


def link_rises(loss: Separable) -> bool:
    """Whether the link never falls, checked on a fine grid of scores (of the first label)."""
    n = loss.per_label()
    first = loss if n is None else loss.select_labels(torch.zeros(1, dtype=torch.long), n)
    v = torch.linspace(-20, 20, 3201, dtype=torch.float64, device="cpu")[:, None]
    odds = first.log_odds(v)
    return bool((odds[1:] >= odds[:-1] - 1e-6).all())


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), exact in both tails (torch's own turns linear at 20)."""
    return -logsigmoid(-x)


def derived(side: Callable[[Tensor], Tensor], v: Tensor, sign: float) -> Tensor:
    """log of the slope of one side against p, by differentiation, in float64.

    Beyond +-30 slopes drown in rounding even there, so the link is taken to be what it is at 30.
    """
    wide = v.double().clamp(-30.0, 30.0).contiguous()  # jvp wants rows that do not overlap
    slope: Tensor = torch.func.jvp(side, (wide,), (torch.ones_like(wide),))[1]
    return (safe_log(sign * slope) - log_chain(wide)).to(v.dtype)


def log_chain(v: Tensor) -> Tensor:
    """log(dp / dv), p = sigmoid(v)."""
    return logsigmoid(v) + logsigmoid(-v)


def safe_log(x: Tensor) -> Tensor:
    """log(x), and -inf with zero gradient where x <= 0."""
    inside = x > 0
    return torch.where(inside, torch.where(inside, x, 1.0).log(), -torch.inf)
