"""What Keras needs of a loss of labelset, as formulas: traced once for each number of labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelset.kernels._formula import Formula
from labelset.kernels._trace import NotTraceable, trace
from labelset.losses import Loss, NoLink, Separable
from labelset.losses._confusion import ConfusionLoss

__all__ = ["Recorded", "link_of", "ratio_of", "sides_of", "steps_of"]

REACH = 30.0


class Recorded(NamedTuple):
    """A formula, where its results are, and the numbers per label that it reads."""

    formula: Formula
    outputs: tuple[int, ...]
    columns: tuple[NDArray[np.float64], ...]
    reach: float | None = None
    """Scores beyond it are to be taken for it: further out its slopes drown in rounding."""


def sides_of(loss: Separable, n: int) -> Recorded:
    """pos(v) and neg(v) of a separable loss of n labels."""
    me = loss.given(n)
    return _recorded(loss, lambda v: (me.pos(v), me.neg(v)), 1, _width(loss, n))


def steps_of(loss: ConfusionLoss, n: int) -> Recorded:
    """How much a score says on, and how much it says off."""
    return _recorded(loss, loss.decide, 1, _width(loss, n))


def ratio_of(loss: ConfusionLoss) -> Recorded:
    """The loss of tp, fp, fn and tn."""
    return _recorded(loss, lambda *counts: (loss.loss(*counts),), 4, 1)


def link_of(loss: Loss, n: int) -> Recorded:
    """The log-odds of the probability that a score means.

    Without a closed form it is log(neg' / -pos'), the slopes being derived from the formula.
    """
    reason = loss.link_missing()
    if reason is not None:
        raise NoLink(f"{type(loss).__name__} has no link: {reason}")
    try:
        return _recorded(loss, lambda v: (loss.log_odds(v),), 1, n)
    except TypeError:
        if not isinstance(loss, Separable):
            raise
    formula, (pos, neg), columns, _ = sides_of(loss, n)
    v = formula.input(0)
    rise, fall = formula.slope(neg, v), formula.neg(formula.slope(pos, v))
    odds = formula.function("log", formula.div(rise, fall))
    return Recorded(formula, (odds,), columns, REACH)


def _width(loss: Loss, n: int) -> int:
    """One score stands for all labels where none has a number of its own."""
    return n if loss.per_label() else 1


def _recorded(loss: Loss, function: Callable[..., Any], inputs: int, width: int) -> Recorded:
    try:
        formula, outputs, columns = trace(function, inputs, width)
    except NotTraceable as error:
        raise TypeError(
            f"{type(loss).__name__} cannot be carried over to Keras: {error}; write it in the "
            "operations that the losses of labelset use"
        ) from None
    held = (t.detach().cpu().double().numpy() for t in columns)
    return Recorded(formula, outputs, tuple(held))
