"""All that a model does after its encoder, as one module of torch, and what it is about."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

import labelset
from labelset.calibrate import FAR, REACH, Blended, crossing, finite_range, linked
from labelset.calibrate import catalog as maps
from labelset.calibrate.histogram import Histogram
from labelset.calibrate.isotonic import Isotonic
from labelset.calibrate.link import Link
from labelset.decide import Rule
from labelset.decide.expected_f1 import ExpectedF1
from labelset.encode import scaled
from labelset.heads import Head
from labelset.losses import Loss, Separable, describe_loss
from labelset.losses import catalog as losses
from labelset.model import Predictor, SavedModel

OUTPUTS = ("logits", "probabilities", "decisions")


class Pipeline(nn.Module):
    """All that a run does after its encoder, in the run's own order and precision.

    The scaling of the `features` encoder is part of it. Other encoders come before it: it takes
    what they give. A run without a head takes scores.

    decisions: whether label sets come out too; False for a rule that looks at several rows.

    >>> from labelset.model import Split
    >>> run = SavedModel(names=["fork", "knife"], loss="spa")
    >>> Pipeline(run)(torch.tensor([[2.0, -1.0]]))[2]
    tensor([[ True, False]])
    """

    def __init__(self, run: SavedModel, decisions: bool = True) -> None:
        super().__init__()
        n = len(run.names)
        predictor = run.predictor
        predictor.probabilities(torch.zeros(1, n))  # an error of its own where there are none
        if decisions:
            _refuse_rule(predictor.rule, n)
        self.product = None if run.head is None else product_of(run.head)
        self.width = n if self.product is None else self.product.width
        scales = run.head is not None and run.encoder is not None and run.encoder.name == "features"
        self.scaling = _Scaling(run) if scales else None
        self.probabilities = _Probabilities(predictor)
        self.rule = predictor.rule if decisions else None
        self.decide: Callable[[Tensor], Tensor] = predictor.rule.decide
        if isinstance(self.rule, ExpectedF1):  # which works row by row, until the last is settled
            self.decide = ExpectedSets(n, self.rule.empty)
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
        return v, p, self.decide(p.double())


class _Scaling(nn.Module):
    """What the `features` encoder does with dense rows."""

    def __init__(self, run: SavedModel) -> None:
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
    """What the calibrator does, in float64."""

    low: Tensor | None
    high: Tensor | None

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        calibrator = predictor.calibrator
        assert calibrator is not None
        self.loss = calibrator.loss.to("cpu") if linked(calibrator.loss) else None
        _refuse_derived(self.loss)
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
            BlendedCurves(calibrator) if isinstance(calibrator, Blended) else calibrator._map
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


def _refuse_derived(loss: Any) -> None:
    """A link that torch differentiates as it goes has no graph."""
    if not isinstance(loss, Loss):
        return
    for part in [*loss._values().values(), *(part for _, part in getattr(loss, "parts", ()))]:
        _refuse_derived(part)
    stated = ("log_neg_slope", "log_pos_slope")
    if isinstance(loss, Separable) and all(
        getattr(type(loss), name) is getattr(Separable, name) for name in stated
    ):
        raise ValueError(
            f"the link of {type(loss).__name__} is found by differentiation, which no graph can "
            "hold; state its log_neg_slope and log_pos_slope, as the losses of labelset do, or "
            "fit a map with loss=None (labelset calibrate)"
        )


def _refuse_rule(rule: Rule, labels: int) -> None:
    rule.refuse_width(torch.zeros(1, labels))
    without = "or export without decisions (decisions=False, --no-decisions) and apply the rule"
    if not rule.row_by_row:
        raise ValueError(
            f"the rule {rule.name!r} decides rows together, which no graph of one row can; fit it "
            f"on held-out rows (labelset decide), {without}"
        )
    if rule.name == "expected-f1" and labels > LABELS:
        raise ValueError(
            f"the rule {rule.name!r} takes a table of labels x labels numbers for every row, too "
            f"much for {labels} labels (at most {LABELS}); choose a threshold (labelset decide RUN "
            f"--rule per-class), {without}"
        )


def _taken(run: SavedModel) -> str:
    """What the input must be, in words."""
    if run.estimator is not None:
        return f"scores of the {run.estimator.kind}, which has no head and is not in this graph"
    if run.head is None:
        return "scores of the model, before any sigmoid"
    if run.encoder is None:
        return "features as the head was trained on"
    if run.encoder.name == "features":
        return "features as in the data; they are scaled inside"
    return f"features as the encoder {run.encoder.name!r} gives them, which runs before this graph"


LABELS = 512
"""Up to so many labels `expected-f1` has a graph: 2 MB for a row."""


class ExpectedSets(nn.Module):
    """What the rule `expected-f1` decides, all sizes of all rows at once.

    Of independent labels with falling probabilities p_j the first k, the best set of k, have

        E[F1 of k] = 2 integral_0^1 t^k prod_j (1 - p_j + p_j t) sum_{j<=k} p_j / (1 - p_j + p_j t)

    since F1 is 2 a / (k + b), with a of these k and b of all labels on, and a / (k + b) is the
    integral of a t^(k + b - 1). What is integrated is a polynomial of degree k + labels - 1, for
    which Gauss's rule with a node per label is exact.

    >>> ExpectedSets(3, empty=0.0)(torch.tensor([[0.6, 0.4, 0.05]], dtype=torch.float64))
    tensor([[ True,  True, False]])
    """

    nodes: Tensor
    weights: Tensor
    sizes: Tensor

    def __init__(self, labels: int, empty: float) -> None:
        super().__init__()
        x, w = np.polynomial.legendre.leggauss(labels)
        nodes, sizes = torch.from_numpy((x + 1) / 2)[:, None], torch.arange(labels + 1)
        self.register_buffer("nodes", nodes)
        self.register_buffer("weights", torch.from_numpy(w)[:, None] * nodes ** sizes[1:])
        self.register_buffer("sizes", sizes)
        self.empty = empty

    def forward(self, p: Tensor) -> Tensor:
        """(rows, labels) bool from float64 probabilities."""
        falling, order = p.nan_to_num(0.0).sort(dim=1, descending=True, stable=True)
        q = falling.unsqueeze(1)
        some = (1 - q) + q * self.nodes  # (rows, nodes, labels), never 0
        hits = (q / some).cumsum(2) * some.log().sum(2, keepdim=True).exp()
        none = (1 - falling).clamp(min=1e-300).log().sum(1, keepdim=True).exp() * self.empty
        value = torch.cat([none, (hits * self.weights).sum(1)], 1)
        best = value >= value.amax(1, keepdim=True) - 1e-12
        size = torch.where(best, self.sizes, len(self.sizes)).amin(1, keepdim=True)
        place = order.sort(dim=1, stable=True).indices
        return place < size


class BlendedCurves(nn.Module):
    """What a fitted `histogram` or `isotonic` map does with (rows, labels) log-odds."""

    share: Tensor | None

    def __init__(self, fitted: Blended) -> None:
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


class Product(nn.Module):
    """logits = M e + m, M = W P and m = W c + b; or W (P e + c) + b where P and W are smaller.

    M and m are worked out in float64 and rounded once.

    >>> from labelset import heads
    >>> made = product_of(heads.build("dft", features=4, labels=9, k=2))
    >>> made.first.shape, made.second
    (torch.Size([9, 4]), None)
    """

    first: Tensor
    first_bias: Tensor | None
    second: Tensor | None
    second_bias: Tensor | None

    def __init__(self, *layers: tuple[Tensor, Tensor | None]) -> None:
        super().__init__()
        padded = (*layers, (None, None))[:2]
        for name, (weight, bias) in zip(("first", "second"), padded, strict=True):
            self.register_buffer(name, weight)
            self.register_buffer(f"{name}_bias", bias)

    @property
    def width(self) -> int:
        """Numbers that a row of features has."""
        return self.first.shape[1]

    def forward(self, features: Tensor) -> Tensor:
        """(rows, features) to (rows, labels)."""
        x = linear(features, self.first, self.first_bias)
        return x if self.second is None else linear(x, self.second, self.second_bias)

    def size(self, features: Tensor) -> Tensor:
        """sum |w x| + |b|, in float64: the size of what is added up to a logit."""
        x = features.double().abs()
        layers = (self.first, self.first_bias), (self.second, self.second_bias)
        for weight, bias in layers:
            if weight is not None:
                shift = None if bias is None else bias.double().abs()
                x = linear(x, weight.double().abs(), shift)
        return x


def product_of(head: Head) -> Product:
    """What the head computes, the fixed Fourier matrix of `dft` included."""
    with torch.no_grad():
        dtype = torch.float64 if head.matrix()[0].dtype == torch.float64 else torch.float32
        head = copy.deepcopy(head).cpu().double()  # a Fourier matrix is then made in float64
        layers = [head.matrix()]
        projection: Any = getattr(head, "projection", nn.Identity())
        if isinstance(projection, nn.Linear):
            layers.insert(0, (projection.weight, projection.bias))
        elif not isinstance(projection, nn.Identity):
            raise ValueError(
                f"cannot export the head {head.name!r}: its projection is a "
                f"{type(projection).__name__}, not a linear layer"
            )
        if len(layers) == 2 and _worth_folding(layers[0][0], layers[1][0]):
            layers = [_folded(*layers[0], *layers[1])]
        return Product(*(_rounded(dtype, *layer) for layer in layers))


def _rounded(
    dtype: torch.dtype, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    return weight.detach().to(dtype), None if bias is None else bias.detach().to(dtype)


def _worth_folding(first: Tensor, second: Tensor) -> bool:
    """Whether one product takes no more multiplications than two."""
    (inner, features), labels = first.shape, len(second)
    return labels * features <= inner * (labels + features)


def _folded(
    p: Tensor, c: Tensor | None, w: Tensor, b: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    shift = b if c is None else w @ c if b is None else w @ c + b
    return w @ p, shift


def about(run: SavedModel, pipeline: Pipeline) -> dict[str, str]:
    """Key -> text: names and versions, what goes in, and what was done to get out of it."""
    name = losses.name_of(type(run.loss))
    loss = describe_loss(run.loss) if name in losses.classes or run.loss is None else name
    return {
        "labelset.labels": json.dumps(run.names, ensure_ascii=False),
        "labelset.version": labelset.__version__,
        "labelset.torch": str(torch.__version__),
        "labelset.input": pipeline.taken,
        "labelset.encoder": "none" if run.encoder is None else run.encoder.name,
        "labelset.head": "none" if run.head is None else run.head.name,
        "labelset.loss": json.dumps(loss),
        "labelset.calibrator": _calibrator(run),
        "labelset.rule": "none" if pipeline.rule is None else pipeline.rule.name,
    }


def _calibrator(run: SavedModel) -> str:
    if run.calibrator is not None:
        return maps.name_of(type(run.calibrator))
    return "sigmoid" if run.loss is None else "the loss's own link"


def opened(given: Any) -> SavedModel:
    """A run as it is; from the path of its folder, what `SavedModel.open` gives.

    >>> opened(SavedModel(names=["fork"])).names
    ['fork']
    >>> opened(3)
    Traceback (most recent call last):
    TypeError: run must be a SavedModel or the folder of one, got int
    """
    if isinstance(given, (str, Path)):
        return SavedModel.open(given)
    if not isinstance(given, SavedModel):
        raise TypeError(
            f"run must be a SavedModel or the folder of one, got {type(given).__name__}"
        )
    return given
