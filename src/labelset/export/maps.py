"""Scores to probabilities, as modules of plain operations: links and fitted maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labelset.calibrate import FAR, REACH, ProbMap, crossing, finite_range, linked
from labelset.calibrate.curves import Histogram, Isotonic
from labelset.calibrate.link import Link
from labelset.losses import Loss, Separable


class Probabilities(nn.Module):
    """What the calibrator does, in float64."""

    low: Tensor | None
    high: Tensor | None

    def __init__(self, calibrator: ProbMap) -> None:
        super().__init__()
        self.loss = calibrator.loss.to("cpu") if linked(calibrator.loss) else None
        refuse_derived(self.loss, FITTED)
        telling = not isinstance(calibrator, Link)
        ends: tuple[Tensor | None, Tensor | None] = (None, None)
        if telling and self.loss is not None:
            width = self.loss.per_label() or 1
            if not finite_range(self.loss, width):
                ends = tuple(crossing(self.loss, width, level) for level in (-REACH, REACH))  # type: ignore[assignment]
        self.register_buffer("low", ends[0])
        self.register_buffer("high", ends[1])
        # fitted curves need a form without loops over labels
        self.after: Callable[[Tensor], Tensor] = (
            BlendedCurves(calibrator)
            if isinstance(calibrator, (Histogram, Isotonic))
            else calibrator._map
        )

    def forward(self, v: Tensor) -> Tensor:
        u = self.log_odds(v.clamp(-FAR, FAR)).clamp(-FAR, FAR)
        p: Tensor = self.after(u)
        # a table would find something for NaN, too
        return torch.where(v.isnan(), torch.nan, p.clamp(0.0, 1.0))

    def log_odds(self, v: Tensor) -> Tensor:
        """As `telling_log_odds`, its ends having been searched beforehand."""
        if self.loss is None:
            return v
        if self.low is None or self.high is None:
            return self.loss.log_odds(v)  # type: ignore[no-any-return]
        inside = torch.minimum(torch.maximum(v, self.low), self.high)
        return self.loss.log_odds(inside) + (v - inside)  # type: ignore[no-any-return]


FITTED = "or fit a map with loss=None (labelset calibrate)"


def refuse_derived(loss: Any, instead: str) -> None:
    """A link that torch differentiates as it goes has no graph; the error ends with a remedy."""
    if not isinstance(loss, Loss):
        return
    for part in [*loss._values().values(), *(part for _, part in getattr(loss, "parts", ()))]:
        refuse_derived(part, instead)
    stated = ("log_neg_slope", "log_pos_slope")
    if isinstance(loss, Separable) and all(
        getattr(type(loss), name) is getattr(Separable, name) for name in stated
    ):
        raise ValueError(
            f"the link of {type(loss).__name__} is found by differentiation, which no graph can "
            f"hold; state its log_neg_slope and log_pos_slope, as the losses of labelset do, "
            f"{instead}"
        )


class BlendedCurves(nn.Module):
    """What a fitted `histogram` or `isotonic` map does with (rows, labels) log-odds."""

    share: Tensor | None

    def __init__(self, fitted: Histogram | Isotonic) -> None:
        super().__init__()
        kinds = {Histogram: Steps, Isotonic: Knots}
        made = kinds[next(kind for kind in kinds if isinstance(fitted, kind))]
        self.pool = made(fitted._part("pool"))
        pooled = fitted.per == "pool"
        self.label = None if pooled else made(fitted._part("label"))
        self.register_buffer("share", None if pooled else fitted.found("share"))

    def forward(self, u: Tensor) -> Tensor:
        """p = share * p_label + (1 - share) * p_pool."""
        pool: Tensor = self.pool(u)
        if self.label is None or self.share is None:
            return pool
        # as torch.lerp has it: exact at a share of 0 and of 1
        label: Tensor = self.label(u)
        near = pool + self.share * (label - pool)
        far = label - (label - pool) * (1 - self.share)
        return torch.where(self.share < 0.5, near, far)


class _Table(nn.Module):
    """Sorted numbers x of one curve, or of one per label, one after the other."""

    x: Tensor
    start: Tensor
    end: Tensor

    def __init__(self, start: Tensor, x: Tensor) -> None:
        super().__init__()
        self.register_buffer("x", x if len(x) else torch.zeros(1, dtype=torch.float64))
        self.register_buffer("start", start[:-1].long())
        self.register_buffer("end", start[1:].long())
        longest = int((start[1:] - start[:-1]).max())
        self.rounds = longest.bit_length()

    def below(self, u: Tensor, equal: bool) -> Tensor:
        """Of how many x of the label u is the larger (or, with `equal`, not the smaller), plus
        where the label starts."""
        low, high = (torch.zeros_like(u).long() + t for t in (self.start, self.end))
        for _ in range(self.rounds):
            middle = (low + high) // 2
            x = torch.take(self.x, middle.clamp(max=len(self.x) - 1))
            right = (low < high) & (x <= u if equal else x < u)
            low, high = torch.where(right, middle + 1, low), torch.where(right, high, middle)
        return low


class Steps(_Table):
    """`histogram`: the value of the bin, bins being closed on the right."""

    p: Tensor
    first: Tensor

    def __init__(self, curves: dict[str, Tensor]) -> None:
        edges, p = curves["edges"], curves["p"]
        count, width = edges.shape
        super().__init__(torch.arange(count + 1) * width, edges.reshape(-1))
        self.register_buffer("p", p.reshape(-1))
        self.register_buffer("first", torch.arange(count))  # every label has a bin more than edges

    def forward(self, u: Tensor) -> Tensor:
        """(rows, labels) probabilities."""
        return torch.take(self.p, self.below(u, equal=False) + self.first)


class Knots(_Table):
    """`isotonic`: linear between knots, flat beyond the ends; 0 for a label without any."""

    p: Tensor
    seen: Tensor

    def __init__(self, curves: dict[str, Tensor]) -> None:
        super().__init__(curves["start"], curves["x"])
        p = curves["p"]
        self.register_buffer("p", p if len(p) else torch.zeros(1, dtype=torch.float64))
        self.register_buffer("seen", self.end > self.start)

    def forward(self, u: Tensor) -> Tensor:
        """(rows, labels) probabilities."""
        after = self.below(u, equal=True)
        last = torch.maximum(self.end - 1, torch.zeros_like(self.end))
        left = torch.minimum(torch.maximum(after - 1, self.start), last)
        right = torch.minimum(after, last)
        x, p = torch.take(self.x, left), torch.take(self.p, left)
        run, rise = torch.take(self.x, right) - x, torch.take(self.p, right) - p
        inside = (run > 0) & (u > x)
        slope = rise / torch.where(inside, run, 1.0)
        value = torch.where(inside, slope * (u - x) + p, p)
        return torch.where(self.seen, value, 0.0)
