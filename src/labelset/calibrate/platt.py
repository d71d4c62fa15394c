"""Platt scaling, for each label."""

from __future__ import annotations

from dataclasses import dataclass

from labelset.calibrate._affine import Scaling


@dataclass(kw_only=True, eq=False)
class Platt(Scaling):
    """A line through the log-odds, fitted to targets that keep off 0 and 1.

        p = sigmoid(a u + b), a >= 0
        targets: (N+ + 1) / (N+ + 2) for labels that are on, 1 / (N- + 2) for those off

    The targets are Platt's: labels whose scores separate perfectly keep modest probabilities.

    Use it: by default. With `per="shrunk"` common labels get a line of their own and rare ones
    nearly that of the pool.

    >>> m = Platt(per="label").fit([[-1.0], [0.0], [1.0], [2.0]], [[0], [1], [0], [1]])
    >>> m([[0.0], [1.0]])
    tensor([[0.4487],
            [0.5513]], dtype=torch.float64)
    """

    smoothed = True
