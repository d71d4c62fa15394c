"""Formulas as the source of Triton functions."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from math import isfinite
from typing import Any

from labelset.formulas.formula import Formula

FUNCTIONS = ("exp", "log", "log1p", "tanh", "decay", "unit", "log1p_unit", "reciprocal")

SHORT = ("decay", "log", "log1p_unit")  # functions with a version for 16-bit scores

OPERATIONS = {
    "neg": "-{0}",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "abs": "tl.abs({0})",
    "sqrt": "tl.sqrt({0})",
    "where": "tl.where({0}, {1}, {2})",
    "min": "tl.minimum({0}, {1}, tl.PropagateNan.ALL)",
    "max": "tl.maximum({0}, {1}, tl.PropagateNan.ALL)",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "eq": "{0} == {1}",
    "power": "math.power({0}, {value!r})",
    **{name: f"math.{name}({{0}})" for name in (*FUNCTIONS, *(f"{name}_short" for name in SHORT))},
}


def source(formula: Formula, outputs: Sequence[int], inputs: int, short: bool = False) -> str:
    """A Triton function of `inputs` blocks that returns the steps named in `outputs`, as text."""
    names: dict[int, str] = {}
    lines = [f"def formula({', '.join(f'x{i}' for i in range(inputs))}):"]
    for place, (op, args, value) in enumerate(formula.steps):
        if op == "input":
            names[place] = f"x{int(value)}"
        elif op == "constant":
            names[place] = _number(value)
        else:
            names[place] = f"t{place}"
            op = f"{op}_short" if short and op in SHORT else op
            text = OPERATIONS[op].format(*(names[arg] for arg in args), value=value)
            lines.append(f"    t{place} = {text}")
    results = ", ".join(_as_block(names[y], formula.known(y)) for y in outputs)
    return "\n".join([*lines, f"    return {results}", ""])


def _as_block(name: str, constant: float | None) -> str:
    """A result as a block: a constant one takes the shape of the first input."""
    return name if constant is None else f"tl.full(x0.shape, {_number(constant)}, tl.float32)"


def _number(value: float) -> str:
    return repr(value) if isfinite(value) else f'float("{value}")'


@lru_cache(maxsize=256)
def compiled(text: str) -> Any:
    """The Triton function of that text, which Triton reads back through `linecache`.

    It gets a name of its own: Triton takes two functions of one name in one kernel for the same.
    """
    import triton
    import triton.language as tl

    from labelset.kernels.triton import device_math

    name = f"formula_{sha256(text.encode()).hexdigest()[:16]}"
    text = text.replace("def formula(", f"def {name}(", 1)
    linecache.cache[f"<{name}>"] = (len(text), None, text.splitlines(keepends=True), f"<{name}>")
    space: dict[str, Any] = {"tl": tl, "math": device_math}
    exec(compile(text, f"<{name}>", "exec"), space)  # its text is written above, from numbers alone
    return triton.jit(space[name])
