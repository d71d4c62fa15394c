"""Isotonic regression, for each label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from labelset.calibrate._curves import Blended, Curves, isotonic_curves
from labelset.learned import LearnedSpec


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

    def _curve_parts(self, curves: str) -> dict[str, LearnedSpec]:
        return {
            "start": LearnedSpec(f"{curves}+1", low=0.0, whole=True, rising=True),
            "x": LearnedSpec(f"knots-of-{curves}"),
            "p": LearnedSpec(f"knots-of-{curves}", low=0.0, high=1.0),
        }

    def refuse_learnt(self, who: str) -> None:
        """Besides: knots rise within a curve, and every knot belongs to one."""
        super().refuse_learnt(who)
        for whose in ("pool",) if self.per == "pool" else ("pool", "label"):
            start, x, p = (self.learnt[f"{whose}_{name}"] for name in Curves._fields)
            if int(start[0]) != 0 or int(start[-1]) != len(x):
                raise ValueError(f"{who} {whose}_start must go from 0 to {len(x)}")
            within = torch.ones(max(len(x) - 1, 0), dtype=torch.bool)
            within[start[(start > 0) & (start < len(x))] - 1] = False
            if bool((within & ((x.diff() <= 0) | (p.diff() < -1e-9))).any()):
                raise ValueError(f"{who} {whose}_x and {whose}_p must rise within each curve")

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
