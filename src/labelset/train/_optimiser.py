"""Optimisers over a model, quick for the matrix that meets sparse features as well."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from labelset.train._sharded import is_cut
from labelset.train._shared_adam import SharedAdamW

__all__ = ["OPTIMISERS", "Optimiser", "store_by_feature"]

OPTIMISERS = ("shared-adamw", "adamw", "sgd")
MOMENTUM = 0.9


def store_by_feature(head: nn.Module, features: int) -> None:
    """Store the matrices that meet features with the numbers of one feature side by side.

    Products with sparse rows then read and write whole lines of memory; shapes stay as they are.
    """
    for p in head.parameters():
        if p.ndim == 2 and p.shape[1] == features:
            p.data = p.data.T.contiguous().T


class Optimiser:
    """AdamW or SGD with momentum 0.9. Biases and norms (1-D) do not decay.

    A matrix that is stored by feature is turned, its memory being shared: torch's optimisers are
    slow for others. `shared-adamw` gives it one second moment per output (`SharedAdamW`).
    """

    def __init__(self, model: nn.Module, kind: str, weight_decay: float) -> None:
        self._trained = [p for p in model.parameters() if p.requires_grad]
        by_feature = [p for p in self._trained if p.ndim == 2 and not p.is_contiguous()]
        self._turned = [(p, nn.Parameter(p.data.T)) for p in by_feature]
        turned = [leaf for _, leaf in self._turned]
        plain = [p for p in self._trained if all(p is not other for other in by_feature)]
        self.inner: list[torch.optim.Optimizer] = []
        if kind == "sgd":
            groups = _groups(plain + turned, weight_decay)
            fused = not any(is_cut(p) for p in plain)  # torch has no fused steps for these
            self.inner.append(torch.optim.SGD(groups, lr=0.0, momentum=MOMENTUM, fused=fused))
            return
        shared = turned if kind == "shared-adamw" else []
        rest = plain if shared else plain + turned
        if rest:
            self.inner.append(torch.optim.AdamW(_groups(rest, weight_decay), fused=True))
        if shared:
            self.inner.append(SharedAdamW(shared, weight_decay=weight_decay))

    def step(self, lr: float) -> None:
        """One step down the gradients, at this learning rate; then the gradients are dropped."""
        for p, leaf in self._turned:
            leaf.grad = None if p.grad is None else p.grad.T
        for optimiser in self.inner:
            for group in optimiser.param_groups:
                group["lr"] = lr
            optimiser.step()
        for p in self._trained:
            p.grad = None
        for _, leaf in self._turned:
            leaf.grad = None

    def state(self) -> list[dict[str, Any]]:
        """For `restore`."""
        return [optimiser.state_dict() for optimiser in self.inner]

    def restore(self, state: list[dict[str, Any]]) -> None:
        """Go on where `state` was."""
        for optimiser, held in zip(self.inner, state, strict=True):
            optimiser.load_state_dict(held)


def _groups(leaves: list[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    both = [
        {"params": [p for p in leaves if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in leaves if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return [group for group in both if group["params"]]
