"""Blend: the weighted mean of the probabilities of several models, as one model."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelset import calibrate, heads
from labelset.calibrate import ProbMap
from labelset.charts import Panel, shares
from labelset.display import Shown
from labelset.heads import Head
from labelset.model.contributions import (
    ENTRIES,
    Contributions,
    apart,
    chord,
    in_blocks,
    logit,
    of_model,
    placed,
)
from labelset.model.forest import Forest, log_odds
from labelset.model.kernel import KernelMachine
from labelset.model.mlp import Mlp
from labelset.model.scorer import Scorer, all_numbers

Array = NDArray[Any]

CLIP = 1e-9
"""How far from 0 and 1 a mean of probabilities stays before it becomes log-odds."""
MOST = 64
"""Parts of a blend: a crafted file must not cost more."""


@dataclass(frozen=True, eq=False)
class Part:
    """One model of a blend."""

    name: str
    """What the candidate was called."""
    weight: float
    model: Any
    """A head, or an estimator such as a `Forest`."""
    calibrator: ProbMap
    """Its scores to probabilities."""
    view: int | None = None
    """Which of several encoders gives its features; None: all parts share one."""

    @functools.cached_property
    def scorer(self) -> Scorer:
        """Features to its scores."""
        return Scorer(self.model)

    def probabilities(self, features: Any) -> Tensor:
        """(rows, labels) float64."""
        own = features if self.view is None else features[self.view]
        return self.calibrator(all_numbers(self.scorer.of_features(own))).double()


@dataclass(frozen=True, eq=False)
class Blend(Shown):
    """scores = log-odds of sum over parts of weight * probabilities, the weights adding up to 1.

    >>> def constant(p):
    ...     head = heads.build("linear", features=1, labels=1)
    ...     head.load_state_dict({"classifier.weight": torch.zeros(1, 1),
    ...         "classifier.bias": torch.logit(torch.tensor([p]))})
    ...     return Part(str(p), 0.5, head, calibrate.build("link"))
    >>> Blend((constant(0.25), constant(0.75))).scores(torch.ones(2, 1)).flatten()
    tensor([0., 0.])
    """

    kind: ClassVar[str] = "blend"

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.parts) <= MOST:
            raise ValueError(f"a blend has 1 to {MOST} parts, got {len(self.parts)}")
        weights = [part.weight for part in self.parts]
        if not all(0 < w <= 1 for w in weights) or abs(sum(weights) - 1) > 1e-6:
            raise ValueError(f"the weights of a blend must add up to 1, got {weights}")
        if len({part.view is None for part in self.parts}) != 1:
            raise ValueError("the parts of a blend share one encoder, or each names its own")
        if len({part.scorer.labels for part in self.parts}) != 1:
            raise ValueError("the parts of a blend must have the same labels")

    def headline(self) -> str:
        return f"A blend of {len(self.parts)} models: the weighted mean of their probabilities"

    def records(self) -> list[dict[str, Any]]:
        """A line for each model, by weight: what it is, and what it holds."""
        return [
            {
                "model": part.name,
                "weight": part.weight,
                "kind": type(part.model).__name__,
                "calibrator": part.calibrator.as_json()["name"],
            }
            for part in sorted(self.parts, key=lambda part: -part.weight)
        ]

    def panels(self) -> list[Panel]:
        """The weights."""
        rows = [(line["model"], line["weight"]) for line in self.records()]
        return [shares(rows, "Weights in the blend", "weight")]

    def check_views(self, encoders: Sequence[Any] | None) -> None:
        """ValueError unless each part finds its encoder."""
        views = [part.view for part in self.parts if part.view is not None]
        if (encoders is None) == bool(views) or any(v >= len(encoders or ()) for v in views):
            count = "one" if encoders is None else len(encoders)
            raise ValueError(f"the parts of the blend see by encoders {views}, there is {count}")

    @property
    def labels(self) -> int:
        """How many labels it scores."""
        return self.parts[0].scorer.labels

    @property
    def nbytes(self) -> int:
        """Bytes held by its parts."""
        return sum(t.numel() * t.element_size() for t in self.tensors().values())

    def scores(self, features: Any) -> Tensor:
        """(rows, labels) float32 of what the encoder gives."""
        return mixed([part.probabilities(features) for part in self.parts], self.weights)

    @property
    def weights(self) -> list[float]:
        """Of the parts."""
        return [part.weight for part in self.parts]

    # ---- explained ------------------------------------------------------------------------------

    def contributions(self, features: Any, rows: Array, labels: Array) -> Contributions:
        """Those of all parts, each through its calibrator and the log-odds of the mean; features of
        several encoders stand side by side."""
        views = features if isinstance(features, tuple) else (features,)
        size = max(1, ENTRIES // (self.labels + sum(int(view.shape[1]) for view in views)))
        return in_blocks(rows, labels, size, lambda *pairs: self._contributions(views, *pairs))

    def _contributions(self, views: tuple[Any, ...], rows: Array, labels: Array) -> Contributions:
        different, row = np.unique(rows, return_inverse=True)
        at, ends = np.arange(len(rows)), np.cumsum([int(view.shape[1]) for view in views])
        found: list[Contributions] = []
        for part in self.parts:
            view = part.view or 0
            some = views[view][torch.from_numpy(different)]
            scores = part.scorer.of_features(getattr(some, "features", some)).double()[row]

            def p(v: Array, part: Part = part, scores: Tensor = scores) -> Array:
                every = scores.clone()
                every[at, labels] = torch.from_numpy(v)
                chances: Array = part.calibrator(every)[at, labels].numpy() * part.weight
                return chances

            own = of_model(part.scorer.model, some, row, labels)
            found.append(placed(own.through(p, 0.1), int(ends[view]), int(ends[-1])))
        base = np.sum([own.base for own in found], axis=0)
        total = np.sum([own.total() for own in found], axis=0)
        slope = chord(lambda q: logit(q, CLIP), base, total, apart(base, total, CLIP))
        found = [Contributions(slope * own.base, own.scaled(slope)) for own in found]
        members = zip((part.name for part in self.parts), found, strict=True)
        values = functools.reduce(operator.add, (own.values for own in found))
        return Contributions(logit(base, CLIP), values, tuple(members))

    # ---- in files -------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """What a safetensors file keeps, for `from_tensors`."""
        about: list[dict[str, Any]] = []
        tensors: dict[str, Tensor] = {}
        for number, part in enumerate(self.parts):
            described: dict[str, Any] = {"name": part.name, "weight": part.weight}
            described["calibrator"] = part.calibrator.as_json()
            if part.view is not None:
                described["view"] = part.view
            state = _state(part.model)
            if isinstance(part.model, Head):
                described["head"] = {"name": part.model.name, "settings": part.model.settings}
            else:
                described["kind"] = part.model.kind
            about.append(described)
            tensors |= {f"{number}.{name}": t.contiguous().cpu() for name, t in state.items()}
        text = json.dumps(about).encode()
        return tensors | {"about": torch.from_numpy(np.frombuffer(text, dtype=np.uint8).copy())}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Blend:
        """The blend that `tensors` described; ValueError where they describe none."""
        if "about" not in tensors or tensors["about"].dtype != torch.uint8:
            raise ValueError("a blend says in `about`, as bytes, what its parts are")
        try:
            described = json.loads(tensors["about"].numpy().tobytes())
        except (ValueError, RecursionError):
            raise ValueError("`about` of a blend is no JSON") from None
        if not isinstance(described, list) or len(described) > MOST:
            raise ValueError(f"a blend has a list of at most {MOST} parts")
        parts = [_part(number, one, tensors) for number, one in enumerate(described)]
        known = {f"{i}.{name}" for i, part in enumerate(parts) for name in _state(part.model)}
        if known | {"about"} != {*tensors}:
            raise ValueError(f"a blend of {len(parts)} parts has tensors of others, too")
        return cls(tuple(parts))


ESTIMATORS = (Blend, Forest, KernelMachine, Mlp)
"""What may stand in the place of a head."""


def mixed(probabilities: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """(rows, labels) float32: log-odds of the weighted mean.

    >>> mixed([torch.tensor([[0.25]]), torch.tensor([[0.75]])], [0.5, 0.5])
    tensor([[0.]])
    """
    mean = torch.zeros((), dtype=torch.float64)
    for p, weight in zip(probabilities, weights, strict=True):
        mean = mean + weight * p.double()
    return log_odds(mean, CLIP)


def _state(model: Any) -> dict[str, Tensor]:
    state: dict[str, Tensor] = model.state_dict() if isinstance(model, Head) else model.tensors()
    return state


def _part(number: int, described: Any, tensors: Mapping[str, Tensor]) -> Part:
    prefix = f"{number}."
    state = {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
    if not isinstance(described, dict):
        raise ValueError(f"part {number} of a blend must be a dict, got {described!r}")
    head = described.get("head")
    if head is None:
        if described["kind"] == Blend.kind:
            raise ValueError("a blend of blends is not kept")
        model = estimator(described["kind"]).from_tensors(state)
    else:
        model = heads.restored(head["name"], head["settings"], state)
    calibrator = calibrate.from_json(described["calibrator"])
    view = described.get("view")
    if view is not None and not (isinstance(view, int) and 0 <= view < MOST):
        raise ValueError(f"part {number} of a blend sees by encoder {view!r}, which is no number")
    return Part(str(described["name"]), float(described["weight"]), model, calibrator, view)


def estimator(kind: Any) -> Any:
    """The class of the estimators of that kind, which `SavedModel` keeps in place of a head.

    Each has `labels`, `nbytes`, `scores(features)`, `contributions(features, rows, labels)`,
    `tensors()` and `from_tensors(tensors)`, and all but the blend have `width` and, for graphs,
    `module()`.
    """
    kinds: dict[Any, Any] = {each.kind: each for each in ESTIMATORS}
    if not isinstance(kind, str) or kind not in kinds:
        raise ValueError(f"no estimator is called {kind!r}; there are {', '.join(kinds)}")
    return kinds[kind]
