"""Formulas rewritten: only what is asked for, some steps replaced by others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from labelset.formulas.formula import Formula, Step

COMMUTES = frozenset({"add", "mul", "min", "max"})

Outputs = tuple[int, ...]


def prune(formula: Formula, outputs: Sequence[int]) -> tuple[Formula, Outputs]:
    """Without the steps that nothing asks for."""
    return rebuild(formula, outputs, {})


def rebuild(
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


COSTLY = frozenset({"decay", "exp", "log", "log1p", "log1p_unit", "power", "sqrt", "tanh", "unit"})
YES, NO = 1, 2


def prune_branches(formula: Formula, outputs: Sequence[int]) -> tuple[Formula, Outputs]:
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
        formula, outputs = rebuild(formula, outputs, known)
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
    return prune_branches(formula, outputs)


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
    return rebuild(more, outputs, {one: both, other: both})


def lower(formula: Formula, outputs: Sequence[int]) -> tuple[Formula, tuple[int, ...]]:
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

    return prune_branches(low, [move(y) for y in outputs])


class SplitLog(NamedTuple):
    """One side of a loss as the formula of (value, slope), or of (rest, e, slope).

    The latter where there is a `share`: the value is rest + share log(1 + e), 0 <= e <= 1.
    """

    formula: Formula
    outputs: tuple[int, ...]
    share: float | None


def split_log(formula: Formula, value: int, slope: int) -> SplitLog:
    """A lowered formula, with a logarithm that is merely added to the rest of the value apart."""
    copy = Formula(list(formula.steps), dict(formula.places))
    rest, shares = _linear(copy, value)
    if len(shares) != 1:
        return SplitLog(*prune(formula, (value, slope)), None)
    ((e, share),) = shares.items()
    return SplitLog(*prune(copy, (rest, e, slope)), share)


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
