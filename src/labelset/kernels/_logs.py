"""Sums of logarithms as the logarithms of products: one for many entries."""

from __future__ import annotations

from typing import NamedTuple

from labelset.kernels._formula import Formula
from labelset.kernels._rebuild import pruned

__all__ = ["Apart", "log_apart"]


class Apart(NamedTuple):
    """One side of a loss as the formula of (value, slope), or of (rest, e, slope).

    The latter where there is a `share`: the value is rest + share log(1 + e), 0 <= e <= 1.
    """

    formula: Formula
    outputs: tuple[int, ...]
    share: float | None


def log_apart(formula: Formula, value: int, slope: int) -> Apart:
    """A lowered formula, with a logarithm that is merely added to the rest of the value apart."""
    copy = Formula(list(formula.steps), dict(formula.places))
    rest, shares = _linear(copy, value)
    if len(shares) != 1:
        return Apart(*pruned(formula, (value, slope)), None)
    ((e, share),) = shares.items()
    return Apart(*pruned(copy, (rest, e, slope)), share)


def _linear(formula: Formula, z: int) -> tuple[int, dict[int, float]]:
    """A step as a rest and multiples of log(1 + e), by the place of e."""
    op, args, _ = formula.steps[z]
    if op == "log1p_unit":
        return formula.constant(0.0), {args[0]: 1.0}
    if op == "neg":
        rest, shares = _linear(formula, args[0])
        return formula.neg(rest), {e: -share for e, share in shares.items()}
    if op == "mul" and (factor := formula.known(args[0])) is not None:
        rest, shares = _linear(formula, args[1])
        times = {e: factor * share for e, share in shares.items()}
        return formula.mul(formula.constant(factor), rest), times
    if op in ("add", "sub"):
        (first, shares), (second, others) = (_linear(formula, arg) for arg in args)
        sign = 1.0 if op == "add" else -1.0
        for e, share in others.items():
            shares[e] = shares.get(e, 0.0) + sign * share
        return (formula.add if op == "add" else formula.sub)(first, second), shares
    return z, {}
