"""The laws of links: what a score means, and whether the loss really says so."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from labelset.losses import Loss, NoLink, build
from labelset.testing.cases import Cases, hold, near

REACH, STEPS = 25.0, 20001


def link(loss: Loss) -> None:
    """The link rises within [0, 1] and equals neg' / (neg' - pos'); or `NoLink` gives advice."""
    if not callable(getattr(loss, "link", None)):
        return
    n = Cases(loss).width or 3
    v = _column(-35, 35, 1401).expand(-1, n)
    try:
        p = loss.link(v)
    except NoLink as error:
        hold(len(str(error)) > 40, f"NoLink gives no advice: {error}")
        return
    ends = loss.link(torch.tensor([[-1e4], [-90.0], [90.0], [1e4]]).expand(-1, n))
    for part in (p, ends):
        hold(part.shape[1:] == (n,), f"the link of {n} labels has shape {tuple(part.shape)}")
        hold(((part >= 0) & (part <= 1)).all(), "the link leaves [0, 1] or is not a number")
        hold((part.diff(dim=0) >= -1e-12).all(), "the link falls as the score rises")
    near(loss.link(v.float()), p, "float32 and float64 scores mean different things", 1e-4, 1e-6)
    _by_itself(loss, n)
    sides = partial_losses(loss)
    if sides is not None and not (isinstance(loss, Loss) and loss.per_label()):
        v = _column(-30, 30, 1201)
        rounding = 1e-9 + 1e-14 * v.abs().exp()  # of 1 - sigmoid(v), which slopes contain
        near(_of(loss, v, n), derived_link(sides, v, n), "not neg' / (neg' - pos')", 1e-6, rounding)


def _by_itself(loss: Loss, n: int) -> None:
    """The probability of a label depends on its own score alone."""
    v = torch.randn(5, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    other = v.clone()
    other[:, 1:] += 1.7
    near(loss.link(other)[:, 0], loss.link(v)[:, 0], "the link of a label depends on other labels")


def _column(low: float, high: float, steps: int) -> Tensor:
    return torch.linspace(low, high, steps, dtype=torch.float64)[:, None]


def _of(loss: Loss, v: Tensor, n: int) -> Tensor:
    return loss.link(v.expand(-1, n))[:, :1]


Sides = Callable[[Tensor, int], tuple[Tensor, Tensor]]


def partial_losses(loss: Loss) -> Sides | None:
    """(v, n) -> the loss of a positive and of a negative at each score, where there is such."""

    def sides(v: Tensor, n: int) -> tuple[Tensor, Tensor]:
        wide = v.expand(-1, n)
        each = loss._with(reduction="none")
        on, off = each(wide, torch.ones_like(wide)), each(wide, torch.zeros_like(wide))
        return on[:, :1], off[:, :1]

    if not isinstance(loss, Loss) or "none" not in loss.reductions or hasattr(loss, "parts"):
        return None
    v = _column(-1, 1, 4)
    try:
        shapes = {side.shape for side in sides(v, loss.per_label() or 3)}
    except (TypeError, ValueError, IndexError, RuntimeError):
        return None
    return sides if shapes == {v.shape} else None


def derived_link(sides: Sides, v: Tensor, n: int) -> Tensor:
    """The link from the derivatives alone, whatever closed form the loss has."""
    v = v.detach().clone().requires_grad_()
    falls, rises = (torch.autograd.grad(side.sum(), v)[0] for side in sides(v, n))
    return (rises / (rises - falls)).clamp(0, 1)


def properness(loss: Loss) -> None:
    """Minimising the conditional risk (11) gives back the posterior through the link.

    A loss that claims to be strictly proper has one minimum for every posterior, there the link
    is that posterior, and the link never rests. A loss that says it is not is written in
    sigmoid(v), and at the minimum that is not the posterior. Without a claim, a link must still be
    right where the minimum is attained.
    """
    sides = None if getattr(loss, "detached", False) else partial_losses(loss)
    if sides is None or not isinstance(loss, Loss):
        claimed = getattr(loss, "proper", None)
        hold(not claimed, "claims to be proper, but has no loss per entry to show it by")
        return
    n = loss.per_label() or 3
    eta = torch.tensor([0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97], dtype=torch.float64)
    v, single = minimisers(sides, eta, n)
    inside = v.abs() < REACH - 1e-2
    if not inside.any():
        return  # a regulariser has nothing to say about one label
    if loss.proper is False and not _at_proper_limit(loss):
        wrong = ~inside | ((_nominal(loss, v, n) - eta).abs() > 1e-3)
        hold(wrong.any(), "claims not to be proper, yet it gives the posterior throughout")
    if loss.proper:
        hold(inside.all(), f"claims to be proper; the risk has no minimum at eta = {eta[~inside]}")
        hold(single.all(), f"claims to be proper; several minima at eta = {eta[~single]}")
        right = (_nominal(loss, v, n) - eta).abs() < 2e-3
        hold(right.all(), f"claims to be proper; the minimum is elsewhere for eta = {eta[~right]}")
    if loss.link_missing() is not None:
        hold(not loss.proper, "claims to be proper, yet has no link")
        return
    step = 2 * REACH / (STEPS - 1)
    low, high = (_of(loss, (v + side * 2 * step)[:, None], n)[:, 0] for side in (-1, 1))
    for i in torch.nonzero(inside)[:, 0].tolist():
        hold(
            low[i] - 2e-3 <= eta[i] <= high[i] + 2e-3,
            f"the risk of eta = {eta[i]:g} is smallest at v = {v[i]:.4f}, where the link is "
            f"{_of(loss, v[i : i + 1, None], n).item():.4f}",
        )


def _nominal(loss: Loss, v: Tensor, n: int) -> Tensor:
    """The probability that a loss is written in: sigmoid(v), unless it states a link as its own."""
    if getattr(loss, "written_in_sigmoid", False) or loss.link_missing() is not None:
        return torch.sigmoid(v)
    return _of(loss, v[:, None], n)[:, 0]


def _at_proper_limit(loss: Loss) -> bool:
    """Whether these settings make it a loss that is proper: focal with gamma = 0 is bce."""
    return any(
        build(name).proper
        and all(getattr(loss, key, None) == value for key, value in given.items())
        for name, given in loss.limits.items()
    )


def minimisers(sides: Sides, eta: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """For each posterior the score of least risk, and whether the risk falls and rises once."""
    v = _column(-REACH, REACH, STEPS)
    pos, neg = sides(v, n)
    risk = eta * pos + (1 - eta) * neg
    step = risk.diff(dim=0)
    # rounding makes the flat ends tremble; a step counts from there on
    sign = torch.where(step.abs() > 1e-13 * (1 + risk[1:].abs()), step.sign(), 0.0)
    turns = torch.stack([_turns(column) for column in sign.T])
    return v[risk.argmin(0), 0], turns <= 1


def _turns(sign: Tensor) -> Tensor:
    moved = sign[sign != 0]
    return (moved.diff() != 0).sum()
