"""From a function written in torch to the formula that it computes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from labelset.kernels._formula import Formula

__all__ = ["NotTraceable", "trace"]


class NotTraceable(TypeError):
    """A function uses an operation of which no formula is known."""


def trace(
    function: Callable[..., tuple[Tensor, ...]], inputs: int, width: int = 1, device: Any = "cpu"
) -> tuple[Formula, tuple[int, ...], list[Tensor]]:
    """The formula of a function of `inputs` (1, width) tensors, entry by entry.

    Returns the formula, the places of the function's results, and the tensors with a number per
    label that it reads: they are the formula's further inputs, numbered after those given.
    """
    samples = [torch.full((1, width), 0.5, device=device) for _ in range(inputs)]
    graph = make_fx(function)(*samples)
    walk = _Walk(graph, inputs)
    for node in graph.graph.nodes:
        walk.visit(node)
    return walk.formula, walk.results, walk.columns


class _Walk:
    """One pass over a traced graph, writing its formula."""

    def __init__(self, graph: Any, inputs: int) -> None:
        self.graph, self.formula = graph, Formula()
        self.at: dict[Any, Any] = {}
        self.inputs, self.seen = inputs, 0
        self.columns: list[Tensor] = []
        self.results: tuple[int, ...] = ()

    def visit(self, node: Any) -> None:
        if node.op == "placeholder":
            self.at[node] = self.formula.input(self.seen)
            self.seen += 1
        elif node.op == "get_attr":
            self.at[node] = self._column(getattr(self.graph, node.target))
        elif node.op == "output":
            self.results = tuple(self._place(x) for x in node.args[0])
        elif node.target is operator.getitem:
            self.at[node] = self.at[node.args[0]]  # only the first result is ever used
        else:
            name = node.target.overloadpacket.__name__
            if name not in OPERATIONS:
                raise NotTraceable(f"no formula is known for torch's {node.target}")
            args = [self._place(x) if _is_number(x) else x for x in node.args]
            self.at[node] = OPERATIONS[name](self.formula, *args, **_scalars(node.kwargs))

    def _place(self, x: Any) -> int:
        if isinstance(x, (int, float)):
            return self.formula.constant(x)
        place: int = self.at[x]
        return place

    def _column(self, tensor: Tensor) -> int:
        self.columns.append(tensor)
        return self.formula.input(self.inputs + len(self.columns) - 1)


def _is_number(x: Any) -> bool:
    return isinstance(x, (torch.fx.Node, int, float)) and not isinstance(x, bool)


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
