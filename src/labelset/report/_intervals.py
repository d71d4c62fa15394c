"""How sure thresholds are: where they fall when the validation rows are drawn anew."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from labelset.artefact import Part, Run
from labelset.decide._base import aligned
from labelset.decide.global_threshold import Global
from labelset.report._probabilities import probabilities_of

__all__ = ["threshold_intervals"]

ROUNDS = 100  # of the bootstrap
FEWEST = 40  # rounds, below which its ends say nothing
CELLS = 4_000_000  # held-out entries beyond which thresholds per label get no interval
SORTED = 20_000_000  # entries sorted in all for the interval of one threshold


def threshold_intervals(run: Run) -> Tensor | None:
    """(labels, 2): 95% bootstrap intervals of fitted thresholds; None where there are none.

    One threshold for all labels has one interval, which every label then shows.
    """
    part = run.parts.get("valid")
    if run.rule is None or part is None or part.scores is None or not len(part):
        return None
    if isinstance(run.rule, Global):
        return _of_one(run, run.rule, part)
    if not hasattr(run.rule, "intervals") or part.scores.numel() > CELLS:
        return None
    ends: Tensor = run.rule.intervals(probabilities_of(run, part), part.labels, rounds=ROUNDS)
    return ends


def _of_one(run: Run, rule: Global, part: Part, seed: int = 0) -> Tensor | None:
    """Fitted anew to as many rows drawn with replacement, as often as there is time for."""
    p, on, known = aligned(probabilities_of(run, part), part.labels)
    rounds = min(ROUNDS, SORTED // max(p.numel(), 1))
    if rounds < FEWEST:
        return None
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(rounds):
        rows = torch.from_numpy(draw.integers(len(p), size=len(p)))
        found.append(float(rule.learn(p[rows], on[rows], known[rows])["thresholds"]))
    ends = torch.from_numpy(np.quantile(found, [0.025, 0.975]))
    return ends.expand(len(run.names), 2)
