"""Numbers of a trained model beyond the metrics of scores: what its head can say, and queries."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from labelset import metrics, retrieve
from labelset.heads import Head
from labelset.labels import Labels
from labelset.proofs import independent, verify

SPECIAL = {"expressible": True, "unsayable": False, "parameters": False, "epochs-to-loss": False}
"""Whether higher is better; `queries@k` besides."""
SHARE = 0.9
"""Of the loss of label frequencies: what training must come below."""
FEW, RESAMPLES = 60, 50
PRODUCTS = 5e10
"""Of verification: rows times labels times the square of the head's numbers."""


def stage_and_metric(given: str) -> tuple[str, str]:
    """`platt ace` -> ('platt', 'ace')."""
    stage, space, metric = given.partition(" ")
    if not space:
        raise ValueError(
            f"a metric is given with its stage, such as `raw map@class`, got {given!r}"
        )
    return stage, metric


def direction(given: str) -> bool:
    """Whether more of it is better.

    >>> direction("sigmoid f1-micro"), direction("link ace"), direction("head parameters")
    (True, False, False)
    """
    metric = stage_and_metric(given)[1]
    if metric.startswith("queries@"):
        return True
    return SPECIAL[metric] if metric in SPECIAL else metrics.build(metric).higher_is_better


def expressible(head: Head, labels: Labels, device: str, seconds: float) -> dict[str, float]:
    """Shares of the rows whose label sets the head provably can say, and provably cannot.

    Where all rows would be too many, of the first ones of an order by chance, the same for all
    heads.
    """
    weights = head.matrix()[0].detach().double().cpu().numpy()
    if independent(weights):
        return {"expressible": 1.0, "unsayable": 0.0}
    most = max(int(PRODUCTS / (weights.shape[0] * weights.shape[1] ** 2)), 1)
    if len(labels) > most:
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
        labels = labels[order[:most]]
    where: Any = None if device == "cpu" else device
    counts = verify(head, labels, seconds=seconds, device=where).counts()
    rows = max(len(labels), 1)
    return {"expressible": counts["argmaxable"] / rows, "unsayable": counts["unargmaxable"] / rows}


def parameters(head: Head) -> float:
    """Numbers that are learnt."""
    return float(sum(p.numel() for p in head.parameters() if p.requires_grad))


def epochs_to_loss(history: list[dict[str, Any]], labels: Labels) -> float:
    """Epochs until the mean training loss (bce) is below 0.9 times that of label frequencies.

    One more than there were where it never is.

    >>> y = Labels.from_dense([[1.0], [0.0]])  # log 2 = 0.69 by frequencies
    >>> epochs_to_loss([{"loss": 0.7}, {"loss": 0.6}], y)
    2.0
    """
    share = labels.dense(torch.float64).nanmean(0).clamp(1e-12, 1 - 1e-12)
    each = -(share * share.log() + (1 - share) * (1 - share).log())
    aim = SHARE * float(each.mean())
    below = [epoch + 1 for epoch, held in enumerate(history) if held["loss"] < aim]
    return float(below[0] if below else len(history) + 1)


def queries(
    p: Tensor, labels: Labels, most: int, asked: int, weights: Tensor
) -> dict[int, tuple[float, Tensor]]:
    """Mean average precision of queries, by their length: the value, and resamples of the rows.

    Resamples ask `FEW` queries per length; how far they are off what the same few give on the rows
    themselves is added to the value.
    """
    value, few = (_by_length(p, labels, most, number) for number in (asked, FEW))
    drawn: dict[int, list[float]] = {length: [] for length in value if length in few}
    for weight in weights[:RESAMPLES]:
        rows = torch.repeat_interleave(torch.arange(len(weight)), weight.long())
        again = _by_length(p[rows], labels[rows], most, FEW)
        for length, held in drawn.items():
            held.append(value[length] + again.get(length, math.nan) - few[length])
    return {n: (value[n], torch.tensor(held, dtype=torch.float64)) for n, held in drawn.items()}


def _by_length(p: Tensor, labels: Labels, most: int, asked: int) -> dict[int, float]:
    found = retrieve.evaluate(p, labels, most=most, queries=asked)
    return {group.length: group.map for group in found.by_length if not math.isnan(group.map)}
