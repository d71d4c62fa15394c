"""What a run makes of scores: probabilities, and thresholds to hold against them."""

from __future__ import annotations

import torch
from torch import Tensor

from labelset.artefact import Part, Run
from labelset.decide._thresholds import Thresholds

__all__ = ["own_thresholds", "probabilities_of"]


def probabilities_of(run: Run, part: Part) -> Tensor:
    """(rows, labels) on the CPU; 0 where the label is unknown and the score says nothing."""
    assert part.scores is not None
    known = part.labels.known()
    v = part.scores if known is None else torch.where(known, part.scores, 0.0)
    return run.current_probabilities(v).cpu()


def own_thresholds(run: Run) -> tuple[Tensor, bool]:
    """(labels,) float64, and whether the rule is made of nothing but them; else they are 0.5."""
    n = len(run.names)
    if not isinstance(run.rule, Thresholds):
        return torch.full((n,), 0.5, dtype=torch.float64), run.rule is None
    return run.rule.thresholds.double().cpu().expand(n).clone(), True
