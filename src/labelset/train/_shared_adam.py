"""AdamW for the matrix that meets features: one second moment per output."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["SharedAdamW"]


class SharedAdamW(torch.optim.Optimizer):
    """AdamW with the squares of gradients averaged over features, for (features, outputs) weights.

        m <- b1 m + (1 - b1) g,   v_j <- b2 v_j + (1 - b2) mean_i g_ij^2
        w_ij <- (1 - lr decay) w_ij - lr (m_ij / (1 - b1^t)) / (sqrt(v_j / (1 - b2^t)) + eps)

    AdamW itself moves the weight of a word that is in two texts as far as that of one in half of
    them, and so learns rare words by heart: from the same start it ranks far worse on such features
    (benchmarks/train.py, `quality`); on others both are alike. Here the steps of one output keep
    the proportions of its gradient, while their size still does not depend on the loss's scale.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 0.03,
        betas: tuple[float, float] = (0.9, 0.99),
        eps: float = 1e-12,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step for every weight that has a gradient."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._move(p, p.grad, group)

    def _move(self, p: Tensor, g: Tensor, group: dict[str, Any]) -> None:
        state = self.state[p]
        if not state:
            state |= {"step": 0, "mean": torch.zeros_like(p), "square": p.new_zeros(p.shape[1])}
        state["step"] += 1
        (b1, b2), lr = group["betas"], group["lr"]
        state["mean"].lerp_(g, 1 - b1)
        square = torch.linalg.vector_norm(g, dim=0).square() / len(g)
        state["square"].lerp_(square, 1 - b2)
        size = (state["square"] / (1 - b2 ** state["step"])).sqrt() + group["eps"]
        if group["weight_decay"]:
            p.mul_(1 - lr * group["weight_decay"])
        p.addcmul_(state["mean"], -lr / (1 - b1 ** state["step"]) / size)
