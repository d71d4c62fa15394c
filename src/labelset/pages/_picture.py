"""The pictures of the docs: what losses do to positives, negatives and probabilities."""

from __future__ import annotations

import torch

from labelset._svg import Line, Panel, chart
from labelset.losses import Separable, build, catalog

__all__ = ["curves", "overview"]


def curves(name: str) -> str:
    """What one separable loss does to a positive and a negative, and what its scores mean."""
    loss = build(name, **catalog.get(name).examples[0])
    assert isinstance(loss, Separable)
    me = loss.given(10)
    panels = [Panel("what one entry costs", 6.0, {"positive": me.pos, "negative": me.neg})]
    if loss.link_missing() is None:
        meaning: dict[str, Line] = {"sigmoid": torch.sigmoid, "link": me.link}
        panels.append(Panel("what a score means", 1.0, meaning))
    return chart(
        panels, f"{name}: the loss of a positive and of a negative entry by score", "sigmoid"
    )


def overview() -> str:
    """The README's picture: how well-known losses treat positives, negatives and probabilities."""
    shown = ("bce", "focal", "asl", "spa", "hill")
    losses = {name: build(name) for name in shown}
    pos = {n: loss.pos for n, loss in losses.items() if isinstance(loss, Separable)}
    neg = {n: loss.neg for n, loss in losses.items() if isinstance(loss, Separable)}
    link = {n: loss.link for n, loss in losses.items() if loss.link_missing() is None}
    panels = [
        Panel("cost of a label that is on", 6.0, pos),
        Panel("cost of a label that is off", 6.0, neg),
        Panel("probability that a score means", 1.0, link),
    ]
    return chart(panels, "How five losses treat positives, negatives and probabilities", "bce")
