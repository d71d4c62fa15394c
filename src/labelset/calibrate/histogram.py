"""Histogram binning (Zadrozny and Elkan), for each label."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelset import check
from labelset.calibrate._curves import Blended
from labelset.catalog import hyper
from labelset.learned import LearnedSpec


@dataclass(kw_only=True, eq=False)
class Histogram(Blended):
    """The frequency of labels that are on, in bins of scores.

        p = mean of y over the entries whose u is in the same bin

    `binning="mass"`: edges at the quantiles of u, so that bins hold equally many entries.
    `binning="width"`: edges at equal steps of sigmoid(u). Bins are closed on the right; the outer
    ones are open-ended. An empty bin takes the value of the nearest bin below that is not, or of
    the nearest above where there is none below.

    Use it: to see what a score was worth in the data. Probabilities come in steps and need not
    rise with the score; `isotonic` and `platt` do.

    >>> m = Histogram(bins=2, per="label").fit([[0.0], [1.0], [2.0], [3.0]], [[0], [0], [0], [1]])
    >>> m([[0.2], [2.9]])
    tensor([[0.0000],
            [0.5000]], dtype=torch.float64)
    """

    bins: int = hyper(15, "how many bins")
    binning: str = hyper("mass", "`mass`: equally many entries in each; `width`: equal steps of p")

    rises = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("bins", self.bins, low=1)
        check.one_of("binning", self.binning, ("mass", "width"))

    @property
    def scales(self) -> bool:
        """Bins of equal width may be too coarse where the scores are."""
        return self.binning == "mass"

    @property
    def shifts(self) -> bool:
        """Bins of equal width may be too coarse where the scores are."""
        return self.binning == "mass"

    def _curve_parts(self, curves: str) -> dict[str, LearnedSpec]:
        return {
            "edges": LearnedSpec(f"{curves} {self.bins - 1}", rising=True),
            "p": LearnedSpec(f"{curves} {self.bins}", low=0.0, high=1.0),
        }

    def _curves(self, u: Tensor, y: Tensor) -> dict[str, Tensor]:
        if self.binning == "mass":
            edges = quantiles(u, ~y.isnan(), self.bins)
        else:
            inner = torch.arange(1, self.bins).to(u) / self.bins
            edges = torch.logit(inner).expand(len(u), -1).contiguous()
        where = torch.searchsorted(edges, u)
        known = ~y.isnan()
        empty = u.new_zeros(len(u), self.bins)
        count = empty.scatter_add(1, where, known.to(u))
        on = empty.scatter_add(1, where, y.nan_to_num(0.0))
        filled = nearest_seen(count > 0)
        return {"edges": edges, "p": (on / count.clamp(min=1.0)).gather(1, filled)}

    def _read(self, curves: dict[str, Tensor], u: Tensor) -> Tensor:
        edges, p = curves["edges"].to(u.device), curves["p"].to(u.device)
        return p.gather(1, torch.searchsorted(edges, u))


def quantiles(u: Tensor, known: Tensor, bins: int) -> Tensor:
    """(labels, bins - 1): where the known u of each label fall into equal parts, 0 for none.

    >>> u = torch.tensor([[3.0, 1.0, 2.0, 9.0]])
    >>> quantiles(u, torch.tensor([[True, True, True, False]]), 2)
    tensor([[2.]])
    """
    ordered = torch.where(known, u, torch.inf).sort(dim=1).values
    last = (known.sum(1, keepdim=True) - 1).clamp(min=0)
    rank = torch.arange(1, bins, device=u.device) / bins * last.to(u)
    low, high = (ordered.gather(1, r.long()) for r in (rank.floor(), rank.ceil()))
    edges = low + (rank - rank.floor()) * (high - low)
    return torch.where(known.any(1, keepdim=True), edges, 0.0)


def nearest_seen(seen: Tensor) -> Tensor:
    """For each bin itself if seen, else the nearest below that is, else the first that is.

    >>> nearest_seen(torch.tensor([[False, True, False, True]]))
    tensor([[1, 1, 1, 3]])
    """
    number = torch.arange(seen.shape[1], device=seen.device).expand(seen.shape)
    below = torch.where(seen, number, -1).cummax(1).values
    first = seen.to(torch.int64).argmax(1, keepdim=True)
    return torch.where(below >= 0, below, first)
