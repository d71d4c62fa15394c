"""Exponential moving average of weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

__all__ = ["Average"]


class Average:
    """e <- d e + (1 - d) w after each step t = 1, 2, ..., d = min(decay, (1 + t) / (10 + t)).

    The first steps count for more, so that the random start is soon forgotten. Buffers of floating
    point (of batch norm) are averaged alike, others copied.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self.weights = {name: t.detach().clone() for name, t in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the weights after one more step."""
        self.steps += 1
        d = min(self.decay, (1 + self.steps) / (10 + self.steps))
        for name, t in model.state_dict().items():
            if t.is_floating_point():
                self.weights[name].lerp_(t, 1 - d)
            else:
                self.weights[name].copy_(t)

    def restore(self, steps: int, weights: Mapping[str, Tensor]) -> None:
        """Go on from an earlier average."""
        self.steps = steps
        for name, t in weights.items():
            self.weights[name].copy_(t)
