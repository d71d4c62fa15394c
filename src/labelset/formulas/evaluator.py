"""Formulas computed by numpy, in the precision of what they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from labelset.formulas.formula import Formula

OPERATIONS: dict[str, Callable[..., Any]] = {
    "neg": np.negative,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "where": np.where,
    "min": np.minimum,
    "max": np.maximum,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "log1p_unit": np.log1p,
    "tanh": np.tanh,
    "decay": lambda x: np.exp(-np.abs(x)),
    "unit": lambda x: 1.0 / (1.0 + x),
    "reciprocal": lambda x: 1.0 / x,
}


def evaluate(formula: Formula, outputs: Sequence[int], inputs: Sequence[Any]) -> list[Any]:
    """The steps named in `outputs` for arrays (or numbers) as inputs.

    >>> f = Formula()
    >>> y = f.mul(f.input(0), f.add(f.input(0), f.input(1)))
    >>> evaluate(f, [y], [np.array([1.0, 2.0]), 3.0])
    [array([ 4., 10.])]
    """
    found: list[Any] = []
    with np.errstate(all="ignore"):  # infinities and NaN go through, as they do in torch
        for op, args, value in formula.steps:
            if op == "input":
                found.append(inputs[int(value)])
            elif op == "constant":
                found.append(value)
            elif op == "power":
                found.append(np.power(found[args[0]], value))
            else:
                found.append(OPERATIONS[op](*(found[arg] for arg in args)))
    return [found[y] for y in outputs]
