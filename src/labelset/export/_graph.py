"""What torch computes, written down as an ONNX graph while it is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from labelset.data._optional import optional

__all__ = ["Graph", "NotExportable", "traced_graph"]

TYPES = {
    torch.float32: 1,
    torch.int32: 6,
    torch.int64: 7,
    torch.bool: 9,
    torch.float64: 11,
}
"""ONNX's numbers of torch's types."""


class NotExportable(ValueError):
    """Something has no form in ONNX; the message says what."""


class Graph:
    """Nodes and constants of an ONNX graph; a value is known by its name."""

    def __init__(self) -> None:
        self.helper = optional("onnx.helper", "ONNX files", "onnx")
        self.nodes, self.constants = list[Any](), list[Any]()
        self.known: dict[tuple[str, bytes, tuple[int, ...]], str] = {}

    def put(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """The name of a node's result, or the names where there are several."""
        names = [f"v{len(self.nodes)}" + (f"_{k}" if k else "") for k in range(outputs)]
        self.nodes.append(self.helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value: Any, dtype: torch.dtype) -> str:
        """The name of a number or an array; equal ones are kept once."""
        given = isinstance(value, Tensor)
        # without its type a number would be rounded to float32 first
        held = value.detach().cpu() if given else torch.tensor(value, dtype=dtype)
        array = np.ascontiguousarray(held.to(dtype).numpy()).reshape(tuple(held.shape))
        key = str(array.dtype), array.tobytes(), array.shape
        if key not in self.known:
            self.known[key] = name = f"c{len(self.known)}"
            tensor = optional("onnx.numpy_helper", "ONNX files", "onnx")
            self.constants.append(tensor.from_array(array, name))
        return self.known[key]

    def cast(self, x: str, dtype: torch.dtype) -> str:
        """The value in another type."""
        return str(self.put("Cast", x, to=TYPES[dtype]))

    def named(self, x: str, name: str) -> None:
        """Call a value so: what the graph gives out."""
        self.nodes.append(self.helper.make_node("Identity", [x], [name]))


def traced_graph(
    module: nn.Module, sample: Tensor, name: str, outputs: Sequence[str]
) -> tuple[Graph, list[torch.dtype]]:
    """The graph of a module of one (rows, width) tensor, and the types of its outputs."""
    graph = Graph()
    with torch.no_grad(), _Recorder(graph, sample, name) as recorder:
        results = module(sample)
    for result, called in zip(results, outputs, strict=True):
        graph.named(recorder.name(result), called)
    return graph, [result.dtype for result in results]


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down every operation on something that depends on the sample.

    All else is a constant, whatever it was computed from.
    """

    def __init__(self, graph: Graph, sample: Tensor, name: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph, self.names = graph, {id(sample): name}
        self.alive: list[Any] = [sample]  # so that no two tensors ever have one id

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No compiler is at work here; to tell it so, torch would load all of it, for a second."""
        return False

    def name(self, x: Tensor) -> str:
        """Of a value in the graph, or of a constant made of it."""
        return self.names[id(x)] if id(x) in self.names else self.graph.constant(x, x.dtype)

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        from labelset.export._operations import write

        kwargs = kwargs or {}
        given = [x for x in (*args, *kwargs.values()) for x in (x if isinstance(x, list) else [x])]
        moving = any(isinstance(x, Tensor) and id(x) in self.names for x in given)
        if moving and operation is torch.ops.aten._local_scalar_dense.default:
            raise NotExportable(
                "a link, map or rule looks at a number (float(x), bool(x), x.item()) to choose "
                "what to do, which no graph can; write it with torch.where"
            )
        before = {id(x): self.name(x) for x in given if isinstance(x, Tensor)} if moving else {}
        result = operation(*args, **kwargs)
        results = result if isinstance(result, tuple) else (result,)
        if moving and isinstance(results[0], Tensor):
            name = operation.overloadpacket.__name__
            written = write(self.graph, name, args, kwargs, results[0], before)
            self.names |= {id(r): w for r, w in zip(results, written, strict=False)}
            self.alive.append((args, kwargs, result))
        return result
