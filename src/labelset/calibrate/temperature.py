"""Temperature scaling (Guo et al.)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from labelset.calibrate._affine import Scaling


@dataclass(kw_only=True, eq=False)
class Temperature(Scaling):
    """Log-odds divided by a temperature of least log loss: over-confidence undone, nothing more.

        p = sigmoid(u / T), 1 / T >= 0

    The loss is convex in 1 / T. Where higher scores go with fewer positives, 1 / T is 0 and every
    probability 1/2.

    Use it: with little data to calibrate on, when scores are centred well but too sure. No
    probability crosses 1/2, so that it cannot help where all of them are too high.

    >>> import torch
    >>> v = torch.tensor([[-4.0], [-4.0], [4.0], [4.0], [4.0]])
    >>> m = Temperature(per="label").fit(v, [[0], [1], [1], [0], [1]])
    >>> m.temperature
    tensor([9.8652], dtype=torch.float64)
    """

    with_offset = False

    @property
    def temperature(self) -> Tensor:
        """T of each label, or of all; infinite where 1 / T is 0."""
        return 1 / self.found("slope")
