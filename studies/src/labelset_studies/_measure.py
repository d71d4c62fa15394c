"""From a trained candidate to its numbers, with resamples of the test rows behind them."""

from __future__ import annotations

import torch
from torch import Tensor

from labelset.labels import Labels
from labelset.losses import NoLink
from labelset.metrics import build
from labelset.metrics.ranking import MAPClass
from labelset.runs import draws, resampled
from labelset_studies._fit import Fit
from labelset_studies._scored import Scored
from labelset_studies._special import (
    SPECIAL,
    epochs_to_loss,
    expressible,
    parameters,
    queries,
    stage_and_metric,
)

TIMES, FEWEST = 200, 50  # resamples
ENTRIES = 2**28  # that resampling may touch per metric
LONGEST = 5  # labels of a query
Found = dict[str, tuple[float, Tensor | None]]
"""Metric -> its value, and those of resamples; None where only seeds vary."""


def on_validation(scored: Scored, metric: str) -> float:
    """The number by which a search decides."""
    stage, name = stage_and_metric(metric)
    return float(build(name)(scored.given(stage, name, "valid"), scored.labels["valid"]))


def measure(
    metrics: list[str], fit: Fit, scored: Scored, train: Labels, device: str, asked: int
) -> Found:
    """Every metric on the test rows; one that this candidate does not define is left out."""
    found: Found = {}
    labels = scored.labels["test"]
    cells = max(len(labels) * labels.n, 1)
    weights = draws(len(labels), max(min(TIMES, ENTRIES // cells), FEWEST), seed=0)
    for metric in metrics:
        stage, name = stage_and_metric(metric)
        if name in SPECIAL or name.startswith("queries@"):
            continue
        try:
            given = scored.given(stage, name, "test")
        except NoLink:
            continue
        found[metric] = (
            float(build(name)(given, labels)),
            _drawn(name, given, labels, weights, device),
        )
    found |= _queries(metrics, scored, weights, asked)
    return found | _special(metrics, fit, scored, train, device)


def _drawn(name: str, given: object, labels: Labels, weights: Tensor, device: str) -> Tensor:
    """Resamples, computed where the device is; its context puts what `resampled` makes there.

    Average precision, one class after the other, is quicker where nothing has to be launched.
    """
    if device == "cpu" or isinstance(build(name), MAPClass):
        return resampled(build(name), given, labels, weights)
    there = given.to(device) if isinstance(given, (Tensor, Labels)) else given
    with torch.device(device):
        return resampled(build(name), there, labels.to(device), weights.to(device)).cpu()


def _queries(metrics: list[str], scored: Scored, weights: Tensor, asked: int) -> Found:
    """Retrieval, for every stage that a metric names."""
    found: Found = {}
    wanted = [stage_and_metric(metric) for metric in metrics]
    for stage in dict.fromkeys(stage for stage, name in wanted if name.startswith("queries@")):
        try:
            p = scored.probabilities(stage, "test")
        except NoLink:
            continue
        by_length = queries(p, scored.labels["test"], LONGEST, asked, weights)
        found |= {f"{stage} queries@{length}": both for length, both in by_length.items()}
    return {metric: found[metric] for metric in metrics if metric in found}


def _special(metrics: list[str], fit: Fit, scored: Scored, train: Labels, device: str) -> Found:
    """What is one number per training, and varies over seeds only."""
    values: dict[str, float] = {}
    names = {stage_and_metric(metric)[1] for metric in metrics}
    if names & {"expressible", "unsayable"}:
        said = expressible(fit.head, scored.labels["test"], device, seconds=5.0)
        values |= {f"head {name}": share for name, share in said.items()}
    if "parameters" in names:
        values["head parameters"] = parameters(fit.head)
    if "epochs-to-loss" in names:
        values["head epochs-to-loss"] = epochs_to_loss(fit.history, train)
    return {metric: (values[metric], None) for metric in metrics if metric in values}
