"""From a function written in torch to the formula that it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labelset.formulas.formula import Formula
from labelset.torch_private import DispatchMode


class NotTraceable(TypeError):
    """A function uses an operation of which no formula is known, or more than a kernel holds."""


def trace(
    function: Callable[..., tuple[Tensor, ...]], inputs: int, width: int = 1, device: Any = "cpu"
) -> tuple[Formula, tuple[int, ...], list[Tensor]]:
    """The formula of a function of `inputs` (1, width) tensors, entry by entry.

    Returns the formula, the places of the function's results, and the tensors with a number per
    label that it reads: they are the formula's further inputs, numbered after those given.
    """
    with torch.inference_mode(False), torch.no_grad():  # in which operations have other names
        samples = [torch.full((1, width), 0.5, device=device) for _ in range(inputs)]
        with _StepRecorder(samples) as recorder:
            results = function(*samples)
    return recorder.formula, tuple(recorder.place(y) for y in results), recorder.columns


class _StepRecorder(DispatchMode):
    """Writes down every operation that torch carries out on the samples."""

    def __init__(self, samples: list[Tensor]) -> None:
        super().__init__()
        self.formula, self.columns = Formula(), list[Tensor]()
        self.inputs = len(samples)
        self.places = {id(x): self.formula.input(k) for k, x in enumerate(samples)}
        self.alive: list[Any] = [*samples]  # so that no two tensors ever have one id

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = operation.overloadpacket.__name__
        if name not in OPERATIONS or kwargs.get("dtype") == torch.float64:
            raise NotTraceable(f"no formula is known for torch's {operation}")
        given = [self.place(x) if _is_number(x) else x for x in args]
        place = OPERATIONS[name](self.formula, *given, **_scalars(kwargs))
        result = operation(*args, **kwargs)
        first = result[0] if isinstance(result, tuple) else result  # no other is ever used
        self.places[id(first)] = place
        self.alive.append(result)
        return result

    def place(self, x: Any) -> int:
        """Where a number, a tensor of the trace, or one that was there before it, is kept."""
        if isinstance(x, (int, float)):
            return self.formula.constant(x)
        if id(x) not in self.places:
            self.columns.append(x)
            self.alive.append(x)
            self.places[id(x)] = self.formula.input(self.inputs + len(self.columns) - 1)
        return self.places[id(x)]


def _is_number(x: Any) -> bool:
    return isinstance(x, (Tensor, int, float)) and not isinstance(x, bool)


def _scalars(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in kwargs.items() if name in ("alpha", "min", "max")}


def _scaled(f: Formula, y: int, alpha: float) -> int:
    return f.mul(f.constant(alpha), y)


def _clamp(f: Formula, x: int, low: int | None = None, high: int | None = None, **ends: Any) -> int:
    low = f.constant(ends["min"]) if ends.get("min") is not None else low
    high = f.constant(ends["max"]) if ends.get("max") is not None else high
    x = x if low is None else f.most(x, low)
    return x if high is None else f.least(x, high)


def _logaddexp(f: Formula, x: int, y: int) -> int:
    """max(x, y) + log1p(exp(-|x - y|))"""
    rest = f.neg(f.function("logsigmoid", f.function("abs", f.sub(x, y))))
    return f.add(f.most(x, y), rest)


def _softplus(f: Formula, x: int, beta: int | None = None, *_: Any) -> int:
    scaled = x if beta is None else f.mul(beta, x)
    value = f.neg(f.function("logsigmoid", f.neg(scaled)))
    return value if beta is None else f.div(value, beta)


def _named(name: str) -> Callable[..., int]:
    return lambda f, x, *_: f.function(name, x)


def _compared(name: str) -> Callable[..., int]:
    return lambda f, x, y: f.compare(name, x, y)


def _same(f: Formula, x: int, *_: Any) -> int:
    return x


OPERATIONS: dict[str, Callable[..., int]] = {
    "neg": lambda f, x: f.neg(x),
    "add": lambda f, x, y, alpha=1: f.add(x, _scaled(f, y, alpha)),
    "sub": lambda f, x, y, alpha=1: f.sub(x, _scaled(f, y, alpha)),
    "rsub": lambda f, x, y, alpha=1: f.sub(y, _scaled(f, x, alpha)),
    "mul": lambda f, x, y: f.mul(x, y),
    "div": lambda f, x, y: f.div(x, y),
    "reciprocal": lambda f, x: f.div(f.constant(1.0), x),
    "square": lambda f, x: f.power(x, 2.0),
    "pow": lambda f, x, y: f.power(x, _exponent(f, y)),
    "relu": lambda f, x: f.most(x, f.constant(0.0)),
    "where": lambda f, truth, x, y: f.where(truth, x, y),
    "minimum": lambda f, x, y: f.least(x, y),
    "maximum": lambda f, x, y: f.most(x, y),
    "clamp": _clamp,
    "clamp_min": lambda f, x, low: f.most(x, low),
    "clamp_max": lambda f, x, high: f.least(x, high),
    "logaddexp": _logaddexp,
    "softplus": _softplus,
    "log_sigmoid_forward": _named("logsigmoid"),
    "detach": lambda f, x: f.put("stop", x),
    "full_like": lambda f, x, value: value,
    "zeros_like": lambda f, x: f.constant(0.0),
    "ones_like": lambda f, x: f.constant(1.0),
    "scalar_tensor": lambda f, value: value,
    **{name: _named(name) for name in ("exp", "log", "log1p", "sigmoid", "sqrt", "abs", "tanh")},
    **{name: _compared(name) for name in ("gt", "ge", "lt", "le", "eq")},
    **dict.fromkeys(("_to_copy", "expand", "clone", "alias", "lift_fresh_copy"), _same),
}


def _exponent(f: Formula, place: int) -> float:
    exponent = f.known(place)
    if exponent is None:
        raise NotTraceable("a power whose exponent is not a constant")
    return exponent
