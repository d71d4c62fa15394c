"""Formulas written anew: only what is asked for, some steps replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from labelset.kernels._formula import Formula

__all__ = ["Move", "Outputs", "pruned", "put", "rebuilt"]

COMMUTES = frozenset({"add", "mul", "min", "max"})

Outputs = tuple[int, ...]
Move = Callable[[int], int]
"""From the place of a step in the old formula to its place in the new one."""


def pruned(formula: Formula, outputs: Sequence[int]) -> tuple[Formula, Outputs]:
    """Without the steps that nothing asks for."""
    return rebuilt(formula, outputs, lambda new, z, move: None)


def rebuilt(
    formula: Formula,
    outputs: Sequence[int],
    instead: Callable[[Formula, int, Move], int | None],
) -> tuple[Formula, Outputs]:
    """What the outputs need, anew, with another step `instead` of some."""
    new, moved = Formula(), dict[int, int]()

    def move(z: int) -> int:
        if z not in moved:
            other = instead(new, z, move)
            if other is None:
                op, args, value = formula.steps[z]
                other = put(new, op, [move(arg) for arg in args], value)
            moved[z] = other
        return moved[z]

    return new, tuple(move(y) for y in outputs)


def put(new: Formula, op: str, args: list[int], value: float = 0.0) -> int:
    """A step, in one order of its arguments; no choice between two that are one."""
    if op == "where" and args[1] == args[2]:
        return args[1]
    if op in COMMUTES and new.known(args[0]) is None:
        args = sorted(args)
    return new.put(op, *args, value=value)
