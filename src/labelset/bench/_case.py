"""One case of the benchmark: a loss on one shape, and its random scores and labels."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple
from zlib import crc32

import torch
from torch import Tensor

from labelset import check
from labelset.labels import Labels

__all__ = ["DTYPES", "LABEL_KINDS", "Case", "Inputs", "shape", "usual_density"]

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
LABEL_KINDS = ("dense", "float", "sparse")
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
        scores = drawn.to(DTYPES[self.dtype]).requires_grad_()
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
