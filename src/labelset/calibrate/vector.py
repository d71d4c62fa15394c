"""Vector scaling (Guo et al.)."""

from __future__ import annotations

from dataclasses import dataclass

from labelset.calibrate._affine import PER, Scaling
from labelset.catalog import hyper


@dataclass(kw_only=True, eq=False)
class Vector(Scaling):
    """A line of maximum likelihood for each label by itself.

        p = sigmoid(a u + b), a >= 0

    Use it: when every label has positives in plenty. It is `platt` with the labels themselves as
    targets, so that a label whose scores separate perfectly comes out all but certain.

    >>> m = Vector().fit([[-1.0], [0.0], [1.0], [2.0]], [[0], [1], [0], [1]])
    >>> m([[0.0], [1.0]])
    tensor([[0.3884],
            [0.6116]], dtype=torch.float64)
    """

    per: str = hyper("label", PER)
