"""Formulas of torch, replayed with keras.ops: on TensorFlow, JAX or torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from labelset.kernels._formula import Formula, Step

__all__ = ["replayed"]


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
