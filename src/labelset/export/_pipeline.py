"""Pipeline: from features to logits, probabilities and decisions, as one module of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labelset.artefact import Run
from labelset.calibrate._base import FAR, ProbMap
from labelset.calibrate._blended import Blended
from labelset.calibrate._start import REACH, _crossing, _finite, linked
from labelset.calibrate.link import Link
from labelset.decide import build
from labelset.encode._standard import scaled
from labelset.export._curves import BlendedCurves
from labelset.export._matrix import product_of
from labelset.losses import Loss, Separable

__all__ = ["OUTPUTS", "Pipeline"]

OUTPUTS = ("logits", "probabilities", "decisions")


class Pipeline(nn.Module):
    """All that a run does after its encoder, in the run's own order and precision.

    The scaling of the `features` encoder is part of it. Other encoders come before it: it takes
    what they give. A run without a head takes scores.

    decisions: whether label sets come out too; False for a rule that looks at several rows.

    >>> from labelset.artefact import Part
    >>> run = Run(names=["fork", "knife"], loss="spa")
    >>> Pipeline(run)(torch.tensor([[2.0, -1.0]]))[2]
    tensor([[ True, False]])
    """

    def __init__(self, run: Run, decisions: bool = True) -> None:
        super().__init__()
        n = len(run.names)
        run.probabilities(torch.zeros(1, n))  # an error of its own where there are none
        if decisions:
            _refuse_rule(run)
        self.product = None if run.head is None else product_of(run.head)
        self.width = n if self.product is None else self.product.width
        scales = run.head is not None and run.encoder is not None and run.encoder.name == "features"
        self.scaling = _Scaling(run) if scales else None
        self.probabilities = _Probabilities(run)
        self.rule = (run.rule or build("fixed", threshold=0.5)) if decisions else None
        self.taken = _taken(run)

    @property
    def dtype(self) -> torch.dtype:
        """Of the features: float32, unless the head or the scaling is of float64."""
        if self.product is None:
            return torch.float32
        held = () if self.scaling is None else self.scaling.buffers()
        wide = any(t.dtype == torch.float64 for t in held)
        return torch.float64 if wide else self.product.first.dtype

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what comes out."""
        return OUTPUTS if self.rule is not None else OUTPUTS[:2]

    def forward(self, features: Tensor) -> tuple[Tensor, ...]:
        """(rows, width) to logits, probabilities and decisions, (rows, labels) each."""
        x = features if self.scaling is None else self.scaling(features)
        v = x.clone() if self.product is None else self.product(x.to(self.product.first.dtype))
        p = self.probabilities(v.double()).to(v.dtype)
        if self.rule is None:
            return v, p
        return v, p, self.rule.decide(p.double())


class _Scaling(nn.Module):
    """What the `features` encoder does with dense rows."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        assert run.encoder is not None
        run.encoder.fact("width")
        for name, t in run.encoder.learnt.items():
            self.register_buffer(name, t)

    @property
    def standardises(self) -> bool:
        """As for dense training rows; sparse ones are only divided."""
        return hasattr(self, "mean")

    def forward(self, x: Any) -> Any:
        if self.standardises:
            return scaled(x, self.mean, self.deviation)  # type: ignore[arg-type]
        return (x / self.largest).nan_to_num(0.0)


class _Probabilities(nn.Module):
    """What the run's map does, or the link of its loss, or the sigmoid; in float64."""

    low: Tensor | None
    high: Tensor | None

    def __init__(self, run: Run) -> None:
        super().__init__()
        fitted = run.map
        self.loss = run.loss if fitted is None else fitted.loss
        self.loss = None if not linked(self.loss) else self.loss.to("cpu")
        _refuse_derived(self.loss)
        telling = fitted is not None and not isinstance(fitted, Link)
        ends: tuple[Tensor | None, Tensor | None] = (None, None)
        if telling and self.loss is not None:
            width = self.loss.per_label() or 1
            if not _finite(self.loss, width):
                ends = tuple(_crossing(self.loss, width, level) for level in (-REACH, REACH))  # type: ignore[assignment]
        self.register_buffer("low", ends[0])
        self.register_buffer("high", ends[1])
        self.after = _after(fitted)

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


def _after(fitted: ProbMap | None) -> Callable[[Tensor], Tensor]:
    """From log-odds to probabilities; fitted curves need a form without loops over labels."""
    if fitted is None:
        return torch.sigmoid
    return BlendedCurves(fitted) if isinstance(fitted, Blended) else fitted._map


def _refuse_derived(loss: Any) -> None:
    """A link that torch differentiates as it goes has no graph."""
    if not isinstance(loss, Loss):
        return
    for part in [*loss._values().values(), *(part for _, part in getattr(loss, "parts", ()))]:
        _refuse_derived(part)
    stated = ("log_rise", "log_fall")
    if isinstance(loss, Separable) and loss._inherits(Separable, *stated):
        raise ValueError(
            f"the link of {type(loss).__name__} is found by differentiation, which no graph can "
            "hold; state its log_rise and log_fall, as the losses of labelset do, or fit a map "
            "with loss=None (labelset calibrate)"
        )


def _refuse_rule(run: Run) -> None:
    rule = run.rule
    if rule is None:
        return
    rule.refuse_width(torch.zeros(1, len(run.names)))
    without = "or export without decisions (decisions=False, --no-decisions) and apply the rule"
    if not rule.row_by_row:
        raise ValueError(
            f"the rule {rule.name!r} decides rows together, which no graph of one row can; fit it "
            f"on held-out rows (labelset decide), {without}"
        )
    if rule.name == "expected-f1":
        raise ValueError(
            f"the rule {rule.name!r} searches over sets of every size and has no graph; choose a "
            f"threshold (labelset decide RUN --rule per-class), {without}"
        )


def _taken(run: Run) -> str:
    """What the input must be, in words."""
    if run.head is None:
        return "scores of the model, before any sigmoid"
    if run.encoder is None:
        return "features as the head was trained on"
    if run.encoder.name == "features":
        return "features as in the data; they are scaled inside"
    return f"features as the encoder {run.encoder.name!r} gives them, which runs before this graph"
