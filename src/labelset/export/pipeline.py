"""All that a model does after its encoder, as one module of torch, and what it is about."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import labelset
from labelset.calibrate import catalog as maps
from labelset.decide import Rule
from labelset.decide.expected_f1 import ExpectedF1
from labelset.encode import scaled
from labelset.export.maps import Probabilities
from labelset.export.scoring import scoring_of
from labelset.losses import catalog as losses
from labelset.losses import describe_loss
from labelset.model import SavedModel

OUTPUTS = ("logits", "probabilities", "decisions")


def begins(run: SavedModel) -> bool:
    """Whether the graph of a run begins at tokens or pixels."""
    encoder = run.encoder
    if encoder is None or encoder.module is None or run.head is None:
        return False
    several = int(getattr(encoder, "windows", 1)) > 1  # how many is in no shape
    return not several and encoder.name in ("transformer", "text", "vision", "conv")


class Pipeline(nn.Module):
    """All that a run does after its encoder, in the run's own order and precision.

    The scaling of the `features` encoder is part of it. Other encoders come before it: it takes
    what they give. A run without a model takes scores, and so does one whose head attends to tokens
    or patches: the head belongs to the network.

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
        attends = run.head is not None and run.head.places
        if attends and not begins(run):
            raise ValueError(
                "cannot export a head that attends to the tokens of several windows: how many are "
                "there is in no graph; train with windows=1, or give the run itself"
            )
        self.model = None if run.model is None or attends else scoring_of(run.model)
        self.width = n if self.model is None else self.model.width
        encoder = None if run.model is None else run.encoder
        scales = encoder is not None and encoder.name == "features"
        self.scaling = _Scaling(run) if scales else None
        assert predictor.calibrator is not None
        self.probabilities = Probabilities(predictor.calibrator)
        self.rule = predictor.rule if decisions else None
        self.decide: Callable[[Tensor], Tensor] = predictor.rule.decide
        if isinstance(self.rule, ExpectedF1):  # which works row by row, until the last is settled
            self.decide = ExpectedSets(n, self.rule.empty)
        self.taken = _taken(run)

    @property
    def dtype(self) -> torch.dtype:
        """Of the features: float32, unless the head or the scaling is of float64."""
        if self.model is None:
            return torch.float32
        held = () if self.scaling is None else self.scaling.buffers()
        wide = any(t.dtype == torch.float64 for t in held)
        return torch.float64 if wide else self.model.dtype

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what comes out."""
        return OUTPUTS if self.rule is not None else OUTPUTS[:2]

    def forward(self, features: Tensor) -> tuple[Tensor, ...]:
        """(rows, width) to logits, probabilities and decisions, (rows, labels) each."""
        x = features if self.scaling is None else self.scaling(features)
        v = x.clone() if self.model is None else self.model(x.to(self.model.dtype))
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
    if run.model is None:
        return "scores of the model, before any sigmoid"
    if run.encoder is None:
        return "features as the model was trained on"
    if run.encoder.name == "features":
        return "features as in the data; they are scaled inside"
    if run.head is not None and run.head.places:
        return f"scores of {run.encoder.name!r} and its head, which run before this graph"
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
        "labelset.estimator": "none" if run.estimator is None else run.estimator.kind,
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
