"""What is measured: a loss on one shape, its random inputs, and what can compute it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from zlib import crc32

import torch
from torch import Tensor

from labelset import check, losses
from labelset.bench import DTYPES, IMPLEMENTATIONS
from labelset.kernels import missing
from labelset.labels import Labels
from labelset.losses import Loss

TORCH_DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in DTYPES}
SPREAD = 3.0  # standard deviation of the scores: some labels are easy, some are not


class Inputs(NamedTuple):
    """Scores, a leaf that wants a gradient, and the labels as the case has them."""

    scores: Tensor
    labels: Tensor | Labels


@dataclass(frozen=True, kw_only=True)
class Case:
    """A loss, the shape and kind of its inputs, and the seed they are drawn with."""

    loss: str
    rows: int
    labels: int
    dtype: str = "float32"
    device: str = "cpu"
    label_kind: str = "dense"
    density: float = 0.01
    seed: int = 0

    def inputs(self) -> Inputs:
        """Fresh scores N(0, 3) and labels, the same for every implementation of the loss.

        >>> Case(loss="bce", rows=2, labels=3).inputs().scores.shape
        torch.Size([2, 3])
        """
        unseeded = replace(self, seed=0)
        seed = (self.seed + crc32(repr(unseeded).encode())) % 2**63
        g = torch.Generator(self.device).manual_seed(seed)
        size = self.rows, self.labels
        drawn = torch.randn(size, generator=g, device=self.device) * SPREAD
        on = torch.rand(size, generator=g, device=self.device) < self.density
        scores = drawn.to(TORCH_DTYPES[self.dtype]).requires_grad_()
        return Inputs(scores, self._as_kind(on))

    def _as_kind(self, on: Tensor) -> Tensor | Labels:
        if self.label_kind == "sparse":
            return Labels.from_dense(on)
        return on.float() if self.label_kind == "float" else on


def usual_density(labels: int) -> float:
    """One label of a hundred is on, and no more than fifty of a row on average.

    >>> usual_density(80), usual_density(20_000)
    (0.01, 0.0025)
    """
    return min(0.01, 50 / labels)


def shape(text: str) -> tuple[int, int]:
    """Rows and labels from `512x80`.

    >>> shape("512x80")
    (512, 80)
    """
    found = re.fullmatch(r"([0-9]{1,9})x([0-9]{1,9})", text.strip().lower())
    if found is None:
        raise ValueError(f"a shape is ROWSxLABELS such as 512x80, got {text!r}")
    rows, labels = map(int, found.groups())
    return check.whole("rows of a shape", rows, low=1), check.whole("labels", labels, low=1)


COMPILED = ("torch.compile", "compiled")


Function = Callable[[Tensor, Tensor], Tensor]
Peers = Mapping[str, Mapping[str, Callable[[], Function]]]
"""Package -> loss -> what makes its function of scores and a floating-point target."""


class Ready(NamedTuple):
    """A function of scores and labels, and the labels in the form that it takes."""

    function: Callable[[Tensor, Any], Tensor]
    labels: Any


def usual(device: str, everything: bool = False) -> list[str]:
    """Those that are there on this device; on a CPU the compiled ones only with `everything`.

    >>> usual("cpu")[0]
    'eager'
    """
    scores = torch.empty(1, 1, device=device)
    kernels = [name for name in ("triton", "native") if missing(name, scores) is None]
    compiled = COMPILED if everything or scores.device.type != "cpu" else ()
    return ["eager", *compiled, *kernels]


def chosen(names: list[str]) -> list[str]:
    """The names, each checked, each once."""
    for name in names:
        if name not in IMPLEMENTATIONS:
            hint = check.nearest(name, IMPLEMENTATIONS)
            raise ValueError(f"no implementation is called {name!r}: {hint}")
    return list(dict.fromkeys(names))


def ready(
    loss: str, implementation: str, labels: Tensor | Labels, dtype: torch.dtype, peers: Peers
) -> Ready:
    """The implementation of the loss at its first example, with labels made ready beforehand."""
    if implementation in peers:
        return Ready(peers[implementation][loss](), as_target(labels, dtype))
    if implementation == "torch.compile":
        return Ready(torch.compile(example(loss, "eager").eager), labels)
    return Ready(example(loss, implementation), labels)


def as_target(labels: Tensor | Labels, dtype: torch.dtype) -> Tensor:
    """Labels as losses elsewhere read them."""
    return labels.dense(dtype) if isinstance(labels, Labels) else labels.to(dtype)


def example(loss: str, impl: str) -> Loss:
    """The loss with the first of the hyperparameters that it gives as examples."""
    return losses.build(loss, **{**losses.catalog.get(loss).examples[0], "impl": impl})
