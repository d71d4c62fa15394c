"""Features to scores, as modules of plain operations: every model that a run keeps."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from labelset.export.maps import Probabilities, refuse_derived
from labelset.heads import Head
from labelset.model import Blend, Mlp, mixed

OTHERS = "or choose a candidate without its networks (labelset export RUN/work/CANDIDATE/0)"


class Scoring(nn.Module):
    """(rows, width) features to (rows, labels) scores."""

    width: int
    """Numbers that a row of features has."""
    dtype: torch.dtype
    """Of the features and the scores."""


def scoring_of(model: Any) -> Scoring:
    """What the head or the estimator computes.

    >>> from labelset import heads
    >>> scoring_of(heads.build("linear", features=4, labels=9)).width
    4
    """
    if isinstance(model, Head):
        return product_of(model)
    return Mixture(model) if isinstance(model, Blend) else Estimate(model)


class Estimate(Scoring):
    """An estimator, by its own module."""

    dtype = torch.float32

    def __init__(self, estimator: Any) -> None:
        super().__init__()
        if isinstance(estimator, Mlp) and estimator.linked:
            refuse_derived(estimator.loss, OTHERS)
        self.width, self.model = estimator.width, estimator.module()

    def forward(self, features: Tensor) -> Tensor:
        """(rows, features) to (rows, labels)."""
        scores: Tensor = self.model(features)
        return scores


class Mixture(Scoring):
    """A blend: each part with its own map to probabilities."""

    dtype = torch.float32

    def __init__(self, blend: Blend) -> None:
        super().__init__()
        if blend.parts[0].view is not None:
            raise ValueError(
                "cannot export a blend of networks that were trained whole: the graph begins at "
                f"features, and each part has its own; give the run itself, {OTHERS}"
            )
        self.parts = nn.ModuleList(scoring_of(part.model) for part in blend.parts)
        self.maps = nn.ModuleList(Probabilities(part.calibrator) for part in blend.parts)
        self.weights, self.width = blend.weights, int(self.parts[0].width)  # type: ignore[arg-type]

    def forward(self, features: Tensor) -> Tensor:
        """(rows, features) to (rows, labels)."""
        each = []
        for part, probabilities in zip(self.parts, self.maps, strict=True):
            assert isinstance(part, Scoring)
            scores = part(features.to(part.dtype)).float()
            each.append(probabilities(scores.double()).float())
        return mixed(each, self.weights)


class Product(Scoring):
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
        self.width, self.dtype = self.first.shape[1], self.first.dtype

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
