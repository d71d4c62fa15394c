"""Formulas with choices: what only one side of a choice needs, and what follows from that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from labelset.kernels._formula import Formula, Step
from labelset.kernels._rebuild import Outputs, put, rebuilt

__all__ = ["settled", "shared"]

COSTLY = frozenset({"decay", "exp", "log", "log1p", "log1p_unit", "power", "sqrt", "tanh", "unit"})
YES, NO = 1, 2


def settled(formula: Formula, outputs: Sequence[int]) -> tuple[Formula, Outputs]:
    """Without choices that are needed only where the answer is known.

    where(t, f(where(t, a, b)), c) is where(t, f(a), c): b was there for autograd's sake, for whom
    f must have a slope everywhere.
    """
    before = None
    while formula.steps != before:
        before, known = formula.steps, dict[int, int]()
        choices = [(z, step.args) for z, step in enumerate(formula.steps) if step.op == "where"]
        for truth in {args[0] for _, args in choices}:
            asked = _asked(formula, outputs, truth)
            for z, args in choices:
                if args[0] == truth and asked[z] in (YES, NO):
                    known[z] = args[asked[z]]
        formula, outputs = rebuilt(formula, outputs, known)
    return formula, tuple(outputs)


def shared(formula: Formula, outputs: Sequence[int], chosen_by: int) -> tuple[Formula, Outputs]:
    """With fewer costly steps where an input chooses between two sides.

    f(a), needed only where the input is true, and f(b), needed only where it is false, are one
    step f(c) of the choice c between a and b. A cheap step is joined where c is there already.
    """
    while (truth := formula.places.get(Step("input", value=chosen_by))) is not None:
        pair = next(_pairs(formula, outputs, truth), None)
        if pair is None:
            break
        formula, outputs = _joined(formula, outputs, truth, *pair)
    return settled(formula, outputs)


def _asked(formula: Formula, outputs: Sequence[int], truth: int) -> list[int]:
    """Where each step is needed: where that one is true (YES), where it is false, or both."""
    asked = [0] * len(formula.steps)
    for y in outputs:
        asked[y] = YES + NO
    for place in range(len(formula.steps) - 1, -1, -1):
        step = formula.steps[place]
        chosen = step.op == "where" and step.args[0] == truth
        sides = (YES + NO, YES, NO) if chosen else (YES + NO,) * len(step.args)
        for arg, side in zip(step.args, sides, strict=True):
            asked[arg] |= asked[place] & side
    return asked


def _pairs(formula: Formula, outputs: Sequence[int], truth: int) -> Iterator[tuple[int, int]]:
    """Steps of one operation, one of them for one side alone and one for the other."""
    asked, below = _asked(formula, outputs, truth), _below(formula)
    costly: dict[tuple[str, float], list[int]] = {}
    chosen: dict[int, list[int]] = {}  # what there is a choice between, by its first
    for z, (op, args, value) in enumerate(formula.steps):
        if op == "where" and args[0] == truth:
            chosen.setdefault(args[1], []).append(args[2])
        elif op in COSTLY and asked[z] == NO:
            costly.setdefault((op, value), []).append(z)
    for one, (op, args, value) in enumerate(formula.steps):
        if asked[one] != YES or not args or args[0] == truth:
            continue
        if op in COSTLY:
            others = costly.get((op, value), [])
        else:
            there = product(*([arg, *chosen.get(arg, ())] for arg in args))
            found = (formula.places.get(Step(op, other, value)) for other in there)
            others = [z for z in found if z is not None and asked[z] == NO]
        for other in others:  # neither may be needed for the step that takes their place
            if not (below[one] >> other & 1 or below[other] >> one & 1):
                yield one, other


def _below(formula: Formula) -> list[int]:
    """The steps that each step needs, as the bits of a number."""
    below: list[int] = []
    for _, args, _ in formula.steps:
        below.append(0)
        for arg in args:
            below[-1] |= below[arg] | 1 << arg
    return below


def _joined(
    formula: Formula, outputs: Sequence[int], truth: int, one: int, other: int
) -> tuple[Formula, Outputs]:
    """One step in place of the two."""
    more = Formula(list(formula.steps), dict(formula.places))
    (op, args, value), others = formula.steps[one], formula.steps[other].args
    choices = [put(more, "where", [truth, a, b]) for a, b in zip(args, others, strict=True)]
    both = put(more, op, choices, value)
    return rebuilt(more, outputs, {one: both, other: both})
