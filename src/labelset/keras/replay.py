"""What Keras needs of a loss, as formulas of torch, replayed with keras.ops on any back end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops
from numpy.typing import NDArray

from labelset.formulas import Formula, NotTraceable, Step, trace
from labelset.losses import ConfusionLoss, Loss, NoLink, Separable

REACH = 30.0


class Recorded(NamedTuple):
    """A formula, where its results are, and the per-label parameters that it reads."""

    formula: Formula
    outputs: tuple[int, ...]
    columns: tuple[NDArray[np.float64], ...]
    reach: float | None = None
    """Scores beyond it are to be taken for it: further out its slopes drown in rounding."""


def sides_of(loss: Separable, n: int) -> Recorded:
    """pos(v) and neg(v) of a separable loss of n labels."""
    me = loss.bind(n)
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


def replayed(formula: Formula, outputs: Sequence[int], inputs: Sequence[Any]) -> list[Any]:
    """What the formula computes from these tensors; gradients are the back end's.

    Constants stay Python numbers, so that the dtype is that of the tensors.
    """
    found: dict[int, Any] = {}
    for place in _needed(formula, outputs):
        step = formula.steps[place]
        if step.op == "input":
            found[place] = inputs[int(step.value)]
        elif step.op == "constant":
            found[place] = step.value
        else:
            found[place] = OPERATIONS[step.op](step, *(found[arg] for arg in step.args))
    shape = ops.zeros_like(inputs[0])
    return [shape + y if isinstance(y := found[place], float) else y for place in outputs]


def _needed(formula: Formula, outputs: Sequence[int]) -> list[int]:
    """The steps that the outputs are computed from, in order."""
    asked = set(outputs)
    for place in range(len(formula.steps) - 1, -1, -1):
        if place in asked:
            asked.update(formula.steps[place].args)
    return sorted(asked)


def _power(step: Step, x: Any) -> Any:
    """x^c; where c is no whole number, of x > 0 only, its slope 0 elsewhere and not infinite."""
    if step.value == int(step.value):
        return ops.power(x, step.value)
    inside = x > 0
    base = ops.where(inside, x, ops.ones_like(x))
    return ops.where(inside, ops.exp(step.value * ops.log(base)), ops.zeros_like(x))


def _where(_: Step, truth: Any, x: Any, y: Any) -> Any:
    return ops.where(truth, *_alike(x, y))


def _alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands of which one may be a number, in the dtype of the other."""
    if isinstance(x, float) and not isinstance(y, float):
        x = ops.full_like(y, x)
    elif isinstance(y, float) and not isinstance(x, float):
        y = ops.full_like(x, y)
    return x, y


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _, *args: function(*args)


def _paired(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _, x, y: function(*_alike(x, y))


OPERATIONS: dict[str, Callable[..., Any]] = {
    "neg": lambda _, x: -x,
    "add": lambda _, x, y: x + y,
    "sub": lambda _, x, y: x - y,
    "mul": lambda _, x, y: x * y,
    "div": lambda _, x, y: x / y,
    "power": _power,
    "where": _where,
    "min": _paired(ops.minimum),
    "max": _paired(ops.maximum),
    "gt": lambda _, x, y: x > y,
    "ge": lambda _, x, y: x >= y,
    "lt": lambda _, x, y: x < y,
    "le": lambda _, x, y: x <= y,
    "eq": _paired(ops.equal),
    "exp": _plain(ops.exp),
    "log": _plain(ops.log),
    "log1p": _plain(ops.log1p),
    "sqrt": _plain(ops.sqrt),
    "tanh": _plain(ops.tanh),
    "abs": _plain(ops.abs),
    "sigmoid": _plain(ops.sigmoid),
    "logsigmoid": _plain(ops.log_sigmoid),
    "stop": lambda _, x: x if isinstance(x, float) else ops.stop_gradient(x),
}
