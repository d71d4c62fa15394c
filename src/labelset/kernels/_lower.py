"""Formulas written out in the few operations that kernels know."""

from __future__ import annotations

from collections.abc import Sequence

from labelset.kernels._formula import Formula
from labelset.kernels._sides import settled

__all__ = ["lowered"]


def lowered(formula: Formula, outputs: Sequence[int]) -> tuple[Formula, tuple[int, ...]]:
    """The steps that `outputs` need, sigmoids written out in exp(-|x|), which they share.

    e = exp(-|x|), r = 1 / (1 + e):  sigmoid(x) = r where x >= 0, else e r
    logsigmoid(x) = min(x, 0) - log1p(e): both exact in both tails.
    """
    low, moved = Formula(), dict[int, int]()

    def decay(x: int) -> int:
        return low.put("decay", low.peel(x)[0])

    def sigmoid(x: int) -> int:
        base, negative = low.peel(x)
        e = decay(x)
        near = low.put("unit", e)
        far = low.mul(e, near)
        positive = low.compare("ge", base, low.constant(0.0))
        return low.where(positive, *((far, near) if negative else (near, far)))

    def logsigmoid(x: int) -> int:
        base, negative = low.peel(x)
        zero, rest = low.constant(0.0), low.put("log1p_unit", decay(x))
        if negative:  # min(-x, 0) = -max(x, 0)
            return low.neg(low.add(low.most(base, zero), rest))
        return low.sub(low.least(base, zero), rest)

    def move(z: int) -> int:
        if z not in moved:
            step = formula.steps[z]
            args = [move(arg) for arg in step.args]
            if step.op in ("sigmoid", "logsigmoid"):
                moved[z] = (sigmoid if step.op == "sigmoid" else logsigmoid)(*args)
            elif step.op == "div":
                moved[z] = low.mul(args[0], low.put("reciprocal", args[1]))
            elif step.op in ("neg", "add", "sub", "mul", "where"):
                moved[z] = getattr(low, step.op)(*args)
            elif step.op == "stop":
                moved[z] = args[0]
            else:
                moved[z] = low.put(step.op, *args, value=step.value)
        return moved[z]

    return settled(low, [move(y) for y in outputs])
