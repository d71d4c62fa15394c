"""What is true of each label on held-out rows, before anything is concluded from it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelset.artefact import Part, Run
from labelset.labels import Labels
from labelset.metrics._base import ratio
from labelset.metrics._confusion import confusion, known_counts
from labelset.metrics._ranks import ranks
from labelset.metrics.counts import f_score
from labelset.metrics.ranking import average_precision

__all__ = ["Facts", "facts", "found_by"]


@dataclass(frozen=True)
class Facts:
    """One number per label."""

    trained: Tensor | None
    """Training rows in which it is on; None where the run holds no training labels."""
    on: Tensor
    """Held-out rows in which it is on."""
    known: Tensor
    """Held-out rows in which it is known."""
    predicted: Tensor
    """Held-out rows for which it is predicted."""
    found: Tensor
    """Those of them in which it is on."""
    f1: Tensor
    ap: Tensor
    """Average precision of its ranking; NaN where it is never on."""
    z: Tensor
    """How many standard errors its ranking is above chance (Mann-Whitney); 0 where undefined."""
    mean: Tensor
    """Mean probability over the rows in which it is known."""

    @property
    def silent(self) -> Tensor:
        """On somewhere, and found nowhere."""
        return (self.on > 0) & (self.found == 0)


def facts(run: Run, part: Part, probabilities: Tensor) -> Facts:
    """The facts of every label, from probabilities of the rows of `part`."""
    assert part.scores is not None
    train = run.parts.get("train")
    counts = confusion(run.decide(probabilities), part.labels, by_class=True)
    found = ranks(part.scores, part.labels, by_class=True)
    known = known_counts(part.labels, by_class=True)
    mask = part.labels.known()
    total = (probabilities if mask is None else torch.where(mask, probabilities, 0.0)).double()
    return Facts(
        trained=None if train is None else _on(train.labels),
        on=found.on,
        known=known,
        predicted=counts[0] + counts[1],
        found=counts[0],
        f1=f_score(counts, 1.0, 0.0),
        ap=average_precision(found),
        z=_above_chance(part.scores, part.labels, known),
        mean=ratio(total.sum(0), known),
    )


def found_by(predicted: Labels, labels: Labels) -> Tensor:
    """How many rows in which each label is on are found."""
    return confusion(predicted, labels, by_class=True)[0]


def _on(labels: Labels) -> Tensor:
    on = labels.indices if labels.values is None else labels.indices[labels.values > 0]
    return torch.bincount(on, minlength=labels.n)


def _above_chance(v: Tensor, y: Labels, known: Tensor) -> Tensor:
    """(AUC - 1/2) over its standard error for a ranking at random."""
    up, down = ranks(v, y, by_class=True), ranks(-v, y, by_class=True)
    # off labels at least as high, and off labels at least as low: ties are in both
    high = up.sums((up.at_least - up.on_at_least).double())
    low = down.sums((down.at_least - down.on_at_least).double())
    on, off = up.on.double(), (known - up.on).double()
    excess = ratio((low - high) / 2, on * off, 0.0)
    error = ((on + off + 1) / (12 * on * off).clamp(min=1)).sqrt()
    return torch.where((on > 0) & (off > 0), excess / error, 0.0)
