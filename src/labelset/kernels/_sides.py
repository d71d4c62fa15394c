"""Formulas with choices: what only one side of a choice needs, and what follows from that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from labelset.kernels._formula import Formula, Step
from labelset.kernels._rebuild import Move, Outputs, put, rebuilt

__all__ = ["settled", "shared"]

COSTLY = frozenset({"decay", "exp", "log", "log1p", "log1p_unit", "power", "sqrt", "tanh", "unit"})
YES, NO = 1, 2


def settled(formula: Formula, outputs: Sequence[int]) -> tuple[Formula, Outputs]:
    """Without choices that are needed only where the answer is known.

    where(t, f(where(t, a, b)), c) is where(t, f(a), c): b was there for autograd's sake, for whom
    f must have a slope everywhere.
    """
    known: dict[int, int] = {}
    choices = [(z, step.args) for z, step in enumerate(formula.steps) if step.op == "where"]
    for truth in {args[0] for _, args in choices}:
        asked = _asked(formula, outputs, truth)
        for z, args in choices:
            if args[0] == truth and asked[z] in (YES, NO):
                known[z] = args[asked[z]]
    return rebuilt(formula, outputs, lambda new, z, move: move(known[z]) if z in known else None)


def shared(formula: Formula, outputs: Sequence[int], chosen_by: int) -> tuple[Formula, Outputs]:
    """With fewer costly steps where an input chooses between two sides.

    f(a), needed only where the input is true, and f(b), needed only where it is false, are one
    step f(c) of the choice c between a and b. A cheap step is joined where c is there already.
    """
    outputs = tuple(outputs)
    while (truth := formula.places.get(Step("input", value=chosen_by))) is not None:
        pair = next(_pairs(formula, outputs, truth), None)
        if pair is None:
            break
        formula, outputs = _joined(formula, outputs, truth, pair)
    return formula, outputs


def _asked(formula: Formula, outputs: Sequence[int], truth: int) -> list[int]:
    """Where each step is needed: where that one is true (YES), where it is false, or both."""
    asked = [YES + NO if place in outputs else 0 for place in range(len(formula.steps))]
    for place in range(len(formula.steps) - 1, -1, -1):
        step = formula.steps[place]
        chosen = step.op == "where" and step.args[0] == truth
        sides = (YES + NO, YES, NO) if chosen else (YES + NO,) * len(step.args)
        for arg, side in zip(step.args, sides, strict=True):
            asked[arg] |= asked[place] & side
    return asked


def _pairs(formula: Formula, outputs: Sequence[int], truth: int) -> Iterator[tuple[int, int]]:
    """Steps of one operation, one of them for one side alone and one for the other."""
    asked = _asked(formula, outputs, truth)
    for one, (op, args, value) in enumerate(formula.steps):
        if asked[one] != YES or not args:
            continue
        for other, step in enumerate(formula.steps):
            if asked[other] == NO and (step.op, step.value) == (op, value):
                arguments = zip(args, step.args, strict=True)
                if op in COSTLY or all(_chosen(formula, truth, *both) for both in arguments):
                    yield one, other


def _chosen(formula: Formula, truth: int, one: int, other: int) -> bool:
    """Whether the choice between the two costs nothing: they are one, or it is made already."""
    return one == other or Step("where", (truth, one, other)) in formula.places


def _joined(
    formula: Formula, outputs: Sequence[int], truth: int, pair: tuple[int, int]
) -> tuple[Formula, Outputs]:
    """One step in place of the pair."""
    (op, one, value), (_, other, _) = (formula.steps[z] for z in pair)

    def join(new: Formula, z: int, move: Move) -> int | None:
        if z not in pair:
            return None
        sides = zip(one, other, strict=True)
        args = [put(new, "where", [move(truth), move(a), move(b)]) for a, b in sides]
        return put(new, op, args, value)

    return rebuilt(formula, outputs, join)
