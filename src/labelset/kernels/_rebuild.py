"""Formulas written anew: only what is asked for, some steps replaced by others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labelset.kernels._formula import Formula

__all__ = ["Outputs", "pruned", "put", "rebuilt"]

COMMUTES = frozenset({"add", "mul", "min", "max"})

Outputs = tuple[int, ...]


def pruned(formula: Formula, outputs: Sequence[int]) -> tuple[Formula, Outputs]:
    """Without the steps that nothing asks for."""
    return rebuilt(formula, outputs, {})


def rebuilt(
    formula: Formula, outputs: Sequence[int], instead: Mapping[int, int]
) -> tuple[Formula, Outputs]:
    """What the outputs need, with other steps `instead` of some; none of these needs itself."""
    new, moved = Formula(), dict[int, int]()

    def last(z: int) -> int:
        while z in instead:
            z = instead[z]
        return z

    outputs = [last(y) for y in outputs]
    todo = outputs[::-1]
    while todo:  # (no recursion: a formula may be deep)
        z = todo[-1]
        op, args, value = formula.steps[z]
        args = tuple(last(arg) for arg in args)
        first = [arg for arg in args if arg not in moved]
        if first and z not in moved:
            todo.extend(reversed(first))
            continue
        todo.pop()
        if z not in moved:
            moved[z] = put(new, op, [moved[arg] for arg in args], value)
    return new, tuple(moved[y] for y in outputs)


def put(new: Formula, op: str, args: list[int], value: float = 0.0) -> int:
    """A step, in one order of its arguments; no choice between two that are one."""
    if op == "where" and args[1] == args[2]:
        return args[1]
    if op in COMMUTES and new.known(args[0]) is None:
        args = sorted(args)
    return new.put(op, *args, value=value)
