"""The metric on validation rows by which the best epoch is chosen."""

from __future__ import annotations

import torch
from torch import Tensor

from labelset import metrics
from labelset.labels import Labels
from labelset.losses import Loss, NoLink

__all__ = ["Monitor", "linked"]


class Monitor:
    """A metric of scores, of their probabilities, or of what is above 0.5, as it takes them.

    >>> from labelset.losses import build
    >>> Monitor("f1-micro", Labels.from_dense([[1, 0]]), build("bce"))(torch.tensor([[1.0, -1.0]]))
    1.0
    """

    def __init__(self, name: str, labels: Labels, loss: Loss) -> None:
        self.metric, self.loss = metrics.build(name), loss
        self.labels = _hard(labels)

    def __call__(self, scores: Tensor) -> float | None:
        """The metric; None where these labels do not define it."""
        given = scores if self.metric.takes == "scores" else linked(self.loss, scores)
        try:
            return self.metric(
                given > 0.5 if self.metric.takes == "label sets" else given, self.labels
            )
        except ValueError as error:
            if "not defined" in str(error):
                return None
            raise

    def better(self, new: float, old: float | None) -> bool:
        """Whether a value is better than one before it; NaN never is."""
        if old is None:
            return new == new
        return new > old if self.metric.higher_is_better else new < old


def linked(loss: Loss, scores: Tensor) -> Tensor:
    """Probabilities by the loss's own link, else by sigmoid."""
    try:
        return loss.link(scores)
    except NoLink:
        return torch.sigmoid(scores)


def _hard(labels: Labels) -> Labels:
    """Soft labels count as on from 0.5."""
    if labels.values is None:
        return labels
    y = labels.dense()
    return Labels.from_dense(torch.where(y.isnan(), y, (y >= 0.5).float()))
