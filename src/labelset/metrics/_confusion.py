"""What is predicted instead of a label that is missed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labelset import inputs
from labelset.metrics._base import entry_keys, is_among


def confusion(predicted: Any, labels: Any) -> Tensor:
    """(labels, labels + 1) float64: each missed label of a row is shared equally over the labels
    that are predicted there and off; where there are none, it goes to the last column, nothing.

    A line adds up to how often its label is missed. Entries that are unknown are left out.

    >>> confusion([[0, 1, 1], [0, 0, 0]], [[1, 0, 0], [1, 0, 0]])
    tensor([[0.0000, 0.5000, 0.5000, 1.0000],
            [0.0000, 0.0000, 0.0000, 0.0000],
            [0.0000, 0.0000, 0.0000, 0.0000]], dtype=torch.float64)
    """
    said, y = inputs.label_sets(predicted, labels)
    n, ours, theirs = y.n, entry_keys(said), entry_keys(y)
    on = theirs if y.values is None else theirs[~y.values.isnan()]
    missed, extra = on[~is_among(on, ours)], ours[~is_among(ours, theirs)]
    width = max(n, 1)
    extras = torch.bincount(extra // width, minlength=len(y))
    first = extras.cumsum(0) - extras
    row = missed // width
    times = extras[row].clamp(min=1)  # cells that each missed label is shared over
    cell = torch.repeat_interleave(missed % width * (n + 1), times)
    step = torch.arange(len(cell), device=cell.device) - torch.repeat_interleave(
        times.cumsum(0) - times, times
    )
    taken = torch.cat([extra % width, extra.new_full((1,), n)])  # the last: nothing
    begin = torch.where(extras[row] > 0, first[row], len(extra))
    cell += taken[torch.repeat_interleave(begin, times) + step]
    share = torch.repeat_interleave(1.0 / times.double(), times)
    return torch.bincount(cell, share, minlength=n * (n + 1)).reshape(n, n + 1)
