"""Isotonic regression, for each label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from labelset.calibrate._blended import Blended
from labelset.calibrate._pav import Curves, isotonic_curves

__all__ = ["Isotonic"]


@dataclass(kw_only=True, eq=False)
class Isotonic(Blended):
    """The rising curve of least squared error, linear between its steps, flat beyond its ends.

        p = argmin over rising f of sum (y - f(u))^2, by pooling adjacent violators, exactly

    Use it: with hundreds of positives per label, when the shape of the miscalibration is unknown.
    Scores far out get probabilities of exactly 0 or 1, which the log loss punishes without bound.

    >>> m = Isotonic(per="label").fit([[0.0], [1.0], [2.0], [3.0]], [[0], [1], [0], [1]])
    >>> m([[-9.0], [1.0], [2.5], [9.0]])
    tensor([[0.0000],
            [0.5000],
            [0.7500],
            [1.0000]], dtype=torch.float64)
    """

    def _curves(self, u: Tensor, y: Tensor) -> dict[str, Tensor]:
        curves = isotonic_curves(u.cpu().numpy(), y.cpu().numpy())
        return {name: torch.from_numpy(part) for name, part in curves._asdict().items()}

    def _read(self, curves: dict[str, Tensor], u: Tensor) -> Tensor:
        start, x, p = Curves(**{name: t.numpy() for name, t in curves.items()})
        scores = u.cpu().numpy()
        out = np.zeros_like(scores)  # also where a label was never seen, and has no share
        for j in range(len(scores)):
            own = slice(start[j], start[j + 1])
            if start[j] < start[j + 1]:
                out[j] = np.interp(scores[j], x[own], p[own])
        return torch.from_numpy(out).to(u.device)
