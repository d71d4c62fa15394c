"""The laws of links: what a score means, and whether the loss really says so."""

from __future__ import annotations

import torch
from torch import Tensor

from labelset.losses import Loss, NoLink, Separable
from labelset.testing._cases import LawBroken, hold, near

__all__ = ["link", "properness"]


def link(loss: Loss) -> None:
    """The link rises within [0, 1] and equals neg' / (neg' - pos'); or `NoLink` gives advice."""
    if not isinstance(loss, Loss):
        return
    v = torch.linspace(-30, 30, 1201, dtype=torch.float64)[:, None]
    try:
        p = loss.link(v)
    except NoLink as error:
        hold(len(str(error)) > 40, f"NoLink gives no advice: {error}")
        return
    ends = loss.link(torch.tensor([[-1e4], [-90.0], [90.0], [1e4]]))
    for part in (p, ends):
        hold(((part >= 0) & (part <= 1)).all(), "the link leaves [0, 1] or is not a number")
        hold((part.diff(dim=0) >= -1e-12).all(), "the link falls as the score rises")
    if isinstance(loss, Separable):
        v = torch.linspace(-12, 12, 481, dtype=torch.float64)[:, None]
        near(loss.link(v), derived_link(loss, v), "not neg' / (neg' - pos')", 1e-6, 1e-9)


def derived_link(loss: Separable, v: Tensor) -> Tensor:
    """The link from the derivatives alone, whatever closed form the loss has."""
    me = loss.given(v.shape[-1])
    rises, falls = (_slope(side, v) for side in (me.neg, me.pos))
    return (rises / (rises - falls)).clamp(0, 1)


def _slope(side: object, v: Tensor) -> Tensor:
    v = v.detach().clone().requires_grad_()
    value = side(v)  # type: ignore[operator]
    return torch.autograd.grad(value.sum(), v)[0]


def properness(loss: Loss) -> None:
    """Minimising the conditional risk (11) gives back the posterior through the link.

    A loss that claims to be strictly proper has one minimum for every posterior, and its link
    there is that posterior. One that says it is not is shown not to be: at the minimum
    sigmoid(v) is not the posterior. Without a claim, a link must still be right where the
    minimum is attained.
    """
    if not isinstance(loss, Separable):
        return
    eta = torch.tensor([0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97], dtype=torch.float64)
    v, single = minimisers(loss, eta)
    inside = v.abs() < REACH - 1e-3
    if loss.proper is False:
        wrong = ~inside | ((torch.sigmoid(v) - eta).abs() > 1e-3)
        hold(wrong.any(), "claims not to be proper, yet sigmoid(v) is the posterior throughout")
    if loss.proper:
        hold(inside.all(), f"claims to be proper; the risk has no minimum at eta = {eta[~inside]}")
        hold(single.all(), f"claims to be proper; several minima at eta = {eta[~single]}")
    try:
        p = loss.link(v[inside][:, None])[:, 0]
    except NoLink:
        if loss.proper:
            raise LawBroken("claims to be proper, yet has no link") from None
        return
    for got, want, at in zip(p, eta[inside], v[inside], strict=True):
        near(got, want, f"the risk of eta = {want:g} is smallest at v = {at:.4f}", 0, 2e-3)


REACH = 25.0


def minimisers(loss: Separable, eta: Tensor) -> tuple[Tensor, Tensor]:
    """For each posterior the score of least risk, and whether the risk falls and rises once."""
    v = torch.linspace(-REACH, REACH, 50001, dtype=torch.float64)[:, None]
    me = loss.given(1)
    risk = eta * me.pos(v) + (1 - eta) * me.neg(v)
    step = risk.diff(dim=0)
    # rounding makes the flat ends tremble; a step counts from there on
    sign = torch.where(step.abs() > 1e-13 * (1 + risk[1:].abs()), step.sign(), 0.0)
    turns = torch.stack([_turns(column) for column in sign.T])
    return v[risk.argmin(0), 0], turns <= 1


def _turns(sign: Tensor) -> Tensor:
    moved = sign[sign != 0]
    return (moved.diff() != 0).sum()
