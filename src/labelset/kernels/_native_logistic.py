"""Which steps of a formula are sigmoids and their kin, so that C finds them from one exp(-|x|)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from labelset.kernels._formula import Step

__all__ = ["Logistic", "logistic"]


class Logistic(NamedTuple):
    """A formula in which the slope of a sigmoid is the product of the two sigmoids."""

    steps: list[Step]
    needed: list[int]
    """The steps that its outputs are computed from."""
    results: dict[int, tuple[int, int]]
    """Place of a step -> x and what of x it is: sigmoid(x) (0), sigmoid(-x) (1), softplus(x) (2) or
    logsigmoid(x) (3)."""


def logistic(steps: Sequence[Step], outputs: Sequence[int]) -> Logistic:
    """Finds the steps that the results of a sigmoid were lowered to.

    e = exp(-|x|), near = 1 / (1 + e), far = e near: sigmoid(x) and sigmoid(-x) are these two in
    some order, and near far is their product. Where any other result of x is needed, that product
    is written as such; else e would be computed twice, here and inside the results.
    """
    mended = list(steps)
    results, products = _found(mended, _needed(mended, outputs))
    for x, product in products.items():
        at = {which: z for z, (y, which) in results.items() if y == x}
        if not at:
            continue
        for which in {0, 1} - at.keys():
            at[which] = len(mended)
            mended.append(Step("sigmoid", (x,)))
            results[at[which]] = x, which
        mended[product] = Step("mul", (at[0], at[1]))
    return Logistic(mended, _needed(mended, outputs), results)


def _needed(steps: Sequence[Step], outputs: Sequence[int]) -> list[int]:
    found, waiting = set[int](), list(outputs)
    while waiting:
        z = waiting.pop()
        if z not in found:
            found.add(z)
            waiting += steps[z].args
    return sorted(found)


def _found(
    steps: Sequence[Step], needed: Sequence[int]
) -> tuple[dict[int, tuple[int, int]], dict[int, int]]:
    """The results among the steps needed, and x -> the place of near far."""
    at = {steps[z]: z for z in needed}
    zero = at.get(Step("constant", (), 0.0), -1)

    def place(op: str, *args: int) -> int:
        return at.get(Step(op, args), -1)

    results, products = dict[int, tuple[int, int]](), dict[int, int]()
    for z in needed:
        if steps[z].op != "decay":
            continue
        (x,) = steps[z].args
        near, rest, sign = place("unit", z), place("log1p_unit", z), place("ge", x, zero)
        far, low, high = place("mul", *sorted((z, near))), *sorted((x, zero))
        each = (
            place("where", sign, near, far),
            place("where", sign, far, near),
            place("add", *sorted((rest, place("max", low, high)))),
            place("sub", place("min", low, high), rest),
        )
        results |= {y: (x, which) for which, y in enumerate(each) if y >= 0}
        product = place("mul", *sorted((near, far)))
        products |= {x: product} if product >= 0 else {}
    return results, products
