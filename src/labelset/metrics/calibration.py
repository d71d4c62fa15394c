"""Are the probabilities true? Calibration errors over bins, and the two proper scores."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labelset.metrics._reliability import Binned, EntryMean

# Worked by hand below, two bins each: gaps |1/3 - 1/6| of three entries and 1 - 0.9 of one; gaps
# 0.5 - 0.15 and 0.5 - 0.35; gaps 0.5 - 0.3 in the first class, 1 - 0.7 in the second, none in the
# third.
WIDTH = {
    "given": ((0.1, 0.1, 0.3, 0.9, 0.9),),
    "labels": ((0, 0, 1, 1, torch.nan),),
    "settings": {"bins": 2},
}
MASS = {
    "given": ((0.1, 0.2, 0.3, 0.4),),
    "labels": ((0, 1, 0, 1),),
    "settings": {"bins": 2, "binning": "mass"},
}
BY_CLASS = {
    "given": ((0.2, 0.6, 0.5), (0.4, 0.8, 0.5)),
    "labels": ((0, 1, torch.nan), (1, 1, torch.nan)),
    "settings": {"bins": 2, "average": "class"},
    "value": (0.2 + 0.3) / 2,
    "left_out": 1,
}


class ACE(Binned):
    """Average calibration error: the mean gap over the bins that are not empty.

    15 bins of equal width, pooled over all entries, by default (the SPA paper does not
    say; this is the usual choice). Classes of which nothing is known are left out.

    >>> ACE()([[0.25, 0.75]], [[0, 1]])
    0.25
    """

    name = "ace"
    worked = (
        {**WIDTH, "value": (1 / 6 + 0.1) / 2},
        {**MASS, "value": (0.35 + 0.15) / 2},
        BY_CLASS,
    )
    gap = "ace"


class MCE(Binned):
    """Maximum calibration error: the largest gap of a bin that is not empty."""

    name = "mce"
    worked = ({**WIDTH, "value": 1 / 6}, {**MASS, "value": 0.35}, BY_CLASS)
    gap = "mce"


class ECE(Binned):
    """Expected calibration error: the mean gap, bins weighted by how many entries they hold."""

    name = "ece"
    worked = (
        {**WIDTH, "value": (3 * 1 / 6 + 1 * 0.1) / 4},
        {**MASS, "value": (0.35 + 0.15) / 2},
        BY_CLASS,
    )
    gap = "ece"


class Brier(EntryMean):
    """Brier score: the mean of (p - y)^2 over known entries.

    >>> Brier()([[0.5, 1.0]], [[1, 1]])
    0.125
    """

    name = "brier"
    worked = (
        {
            "given": ((0.5, 0.2, 0.9),),
            "labels": ((1, 0, torch.nan),),
            "value": (0.25 + 0.04) / 2,
        },
    )

    def entries(self, p: Tensor, y: Tensor) -> Tensor:
        return (p - y).square()


class NLL(EntryMean):
    """Log loss: the mean of -y log p - (1 - y) log(1 - p) over known entries.

    A label that is on where the probability is 0 makes it infinite, and that is what it says.

    >>> round(NLL()([[0.5, 1.0]], [[1, 1]]), 4)
    0.3466
    """

    name = "nll"
    worked = (
        {
            "given": ((0.5, 0.25, 0.9),),
            "labels": ((1, 0, torch.nan),),
            "value": -(math.log(0.5) + math.log(0.75)) / 2,
        },
    )

    def entries(self, p: Tensor, y: Tensor) -> Tensor:
        on, off = torch.special.xlogy(y, p), torch.special.xlog1py(1 - y, -p)
        return torch.neg(on + off)
