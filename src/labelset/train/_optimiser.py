"""Optimisers, learning rates over time, and the average of weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

OPTIMISERS = ("shared-adamw", "adamw", "sgd")
MOMENTUM = 0.9


class Optimiser:
    """AdamW or SGD with momentum 0.9. Biases and norms (1-D) do not decay.

    A matrix that is stored by feature is turned, its memory being shared: torch's optimisers are
    slow for others. `shared-adamw` gives it one second moment per output (`SharedAdamW`).
    """

    def __init__(
        self,
        model: nn.Module,
        kind: str,
        weight_decay: float,
        rates: Mapping[str, float] | None = None,
    ) -> None:
        """`rates`: parameters, by name, with a learning rate that is a share of the others'."""
        self._trained = [p for p in model.parameters() if p.requires_grad]
        own = rates or {}
        shares = {id(p): own.get(name, 1.0) for name, p in model.named_parameters()}
        by_feature = [p for p in self._trained if p.ndim == 2 and not p.is_contiguous()]
        self._turned = [(p, nn.Parameter(p.data.T)) for p in by_feature]
        turned = [leaf for _, leaf in self._turned]
        plain = [p for p in self._trained if all(p is not other for other in by_feature)]
        self.inner: list[torch.optim.Optimizer] = []
        self.recordable = False
        from labelset.train._over_ranks import is_cut

        if kind == "sgd":
            groups = _groups(plain + turned, weight_decay, shares)
            fused = not any(is_cut(p) for p in plain)  # torch has no fused steps for these
            self.inner.append(torch.optim.SGD(groups, lr=0.0, momentum=MOMENTUM, fused=fused))
            return
        shared = turned if kind == "shared-adamw" else []
        rest = plain if shared else plain + turned
        if rest:
            cuda = all(p.is_cuda and not is_cut(p) for p in rest)
            groups = _groups(rest, weight_decay, shares)
            self.inner.append(torch.optim.AdamW(groups, fused=True, capturable=cuda))
            self.recordable = cuda and not shared
        if shared:
            self.inner.append(SharedAdamW(shared, weight_decay=weight_decay))
        if self.recordable:
            self._rates_on_device()

    def step(self, lr: float) -> None:
        """One step down the gradients, at this learning rate; then the gradients are dropped."""
        self.at(lr)
        self.move()
        self.forget()

    def at(self, lr: float) -> None:
        """The learning rate of the coming steps."""
        if self.recordable:
            torch.mul(self._shares, lr, out=self._rates)
            return
        for optimiser in self.inner:
            for group in optimiser.param_groups:
                group["lr"] = lr * group.get("share", 1.0)

    def move(self) -> None:
        """One step down the gradients."""
        for p, leaf in self._turned:
            leaf.grad = None if p.grad is None else p.grad.T
        for optimiser in self.inner:
            optimiser.step()

    @property
    def begun(self) -> bool:
        """Whether it has made a step, and so has all it keeps."""
        return all(optimiser.state for optimiser in self.inner)

    def _rates_on_device(self) -> None:
        """Where steps can be recorded, their rates are read from the GPU each time."""
        (optimiser,) = self.inner
        groups = optimiser.param_groups
        place = groups[0]["params"][0].device
        self._shares = torch.tensor([group["share"] for group in groups], device=place)
        self._rates = torch.zeros_like(self._shares)
        for group, rate in zip(groups, self._rates, strict=True):
            group["lr"] = rate

    def forget(self) -> None:
        """Drop the gradients."""
        for p in self._trained:
            p.grad = None
        for _, leaf in self._turned:
            leaf.grad = None

    def state(self) -> list[dict[str, Any]]:
        """For `restore`."""
        held = [optimiser.state_dict() for optimiser in self.inner]
        for group in (group for one in held for group in one["param_groups"]):
            group["lr"] = 0.0  # it follows from the step
        return held

    def restore(self, state: list[dict[str, Any]]) -> None:
        """Go on where `state` was."""
        for optimiser, saved in zip(self.inner, state, strict=True):
            optimiser.load_state_dict(saved)
        if self.recordable:
            self._rates_on_device()


def _groups(
    leaves: list[nn.Parameter], weight_decay: float, shares: Mapping[int, float]
) -> list[dict[str, Any]]:
    """Parameters that decay and that do not, of each learning rate."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for p in sorted(leaves, key=lambda p: p.ndim <= 1):
        decay = weight_decay if p.ndim > 1 else 0.0
        groups.setdefault((decay, shares.get(id(p), 1.0)), []).append(p)
    return [
        {"params": held, "weight_decay": decay, "share": share}
        for (decay, share), held in groups.items()
    ]


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


SCHEDULES = ("one-cycle", "cosine", "constant")
WARM = 0.3
"""Share of a one-cycle schedule that rises."""
START, END = 1 / 25, 1 / 25e4
"""Where a one-cycle schedule begins and ends."""


def share(schedule: str, step: int, steps: int) -> float:
    """The learning rate of a step, counted from 0, divided by the highest one.

        one-cycle  half a cosine wave from 1/25 up to 1, then another down to almost 0
        cosine     (1 + cos(pi step / steps)) / 2
        constant   1

    >>> [round(share("cosine", step, 4), 3) for step in range(4)]
    [1.0, 0.854, 0.5, 0.146]
    """
    if schedule == "constant":
        return 1.0
    if schedule == "cosine":
        return (1 + math.cos(math.pi * step / steps)) / 2
    top, last = WARM * steps - 1, steps - 1
    if step <= top:
        return _between(START, 1.0, step / top if top > 0 else 1.0)
    return _between(1.0, END, (step - top) / (last - top))


def _between(a: float, b: float, done: float) -> float:
    """From a to b on half a cosine wave."""
    return b + (a - b) / 2 * (1 + math.cos(math.pi * done))


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
