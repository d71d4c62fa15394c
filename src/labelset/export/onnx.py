"""A model as an ONNX file: the graph of the pipeline, written operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from labelset.export.check import Exported, compare, failing
from labelset.export.network import (
    Begun,
    compare_network,
    graph_of,
    joined,
    taken,
    tokeniser_of,
)
from labelset.export.pipeline import Pipeline, about, begins, opened
from labelset.files import optional, write_bytes
from labelset.model import SavedModel
from labelset.torch_private import DispatchMode

OPSET = 17
IR = 8
"""Format of the file: with opset 17, read by onnxruntime 1.12 and all later ones."""
ROWS = 3
LARGEST = (1 << 31) - 1
"""Bytes that an ONNX file can have."""


def to_onnx(
    run: SavedModel | str | Path, path: str | Path, *, decisions: bool = True, seed: int = 0
) -> None:
    """Write an ONNX file of all that the run does after its encoder, or, where that is a network
    that was trained with its head, from tokens or pixels on.

    Input `features` (rows, width), or `scores` (rows, labels) where the run has no head; outputs
    `logits`, `probabilities` and, unless `decisions` is False, `decisions` (bool), (rows, labels)
    each; any number of rows. Label names, versions and what the input must be are in the file's
    metadata. Before anything is written onnxruntime runs the model on random rows (`seed`) and
    edge cases, and `ExportFailed` is raised unless it gives what the run gives.

    >>> import tempfile
    >>> run = SavedModel(names=["fork", "knife"], loss="spa")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_onnx(run, Path(folder) / "model.onnx")
    ...     (Path(folder) / "model.onnx").stat().st_size > 500
    True
    """
    saved = opened(run)
    write_bytes(Path(path), onnx_file(saved, decisions, seed))
    if begins(saved) and (tokeniser := tokeniser_of(saved)) is not None:
        write_bytes(beside(path), tokeniser)


def beside(path: str | Path) -> Path:
    """Where the tokeniser of a file goes.

    >>> str(beside("run.onnx"))
    'run.tokenizer.json'
    """
    return Path(path).with_suffix(".tokenizer.json")


def onnx_file(run: SavedModel, decisions: bool, seed: int) -> bytes:
    """What `to_onnx` writes, held to the run."""
    pipeline = Pipeline(run, decisions).eval()
    begun = Begun(run) if begins(run) else None
    content = model_bytes(run, pipeline, begun)
    if begun is None:
        compare(run, pipeline, session(content), seed)
    else:
        compare_network(run, begun, pipeline, session(content), seed)
    return content


def model_bytes(run: SavedModel, pipeline: Pipeline, begun: Begun | None = None) -> bytes:
    """The file, not yet tried."""
    helper = optional("onnx.helper", "ONNX files", "onnx")
    name = "scores" if pipeline.model is None else "features"
    sample = torch.zeros(ROWS, pipeline.width, dtype=pipeline.dtype)
    graph, types = traced_graph(pipeline, sample, name, pipeline.outputs)

    def described(called: str, dtype: torch.dtype, width: int) -> Any:
        return helper.make_tensor_value_info(called, TYPES[dtype], ["rows", width])

    outputs = [
        described(called, dtype, len(run.names))
        for called, dtype in zip(pipeline.outputs, types, strict=True)
    ]
    inputs = [described(name, pipeline.dtype, pipeline.width)]
    drawn = helper.make_graph(graph.nodes, "labelset", inputs, outputs, graph.constants)
    facts = about(run, pipeline) | ({} if begun is None else {"labelset.input": taken(run)})
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(
        drawn,
        opset_imports=[opset],
        ir_version=IR,
        producer_name="labelset",
        producer_version=facts["labelset.version"],
        doc_string=f"{name}: {pipeline.taken}",
    )
    if begun is not None:
        model = joined(graph_of(begun, OPSET, IR), model)
    helper.set_model_props(model, facts)
    if model.ByteSize() > LARGEST:
        raise ValueError(
            f"an ONNX file holds up to {LARGEST:,} bytes, this model has {model.ByteSize():,}; "
            "export it with torch.export (to_torch, --torch-export)"
        )
    optional("onnx.checker", "ONNX files", "onnx").check_model(model)
    content: bytes = model.SerializeToString()
    return content


def session(content: bytes) -> Exported:
    """The model as a function of torch tensors, run by onnxruntime on the CPU."""
    runtime = optional("onnxruntime", "trying ONNX files out", "onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    with failing("onnxruntime does not read the exported model"):
        held = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in held.get_inputs()]

    def run(*given: Tensor) -> list[Tensor]:
        inputs = {name: x.numpy() for name, x in zip(names, given, strict=True)}
        return [torch.from_numpy(out) for out in held.run(None, inputs)]

    return run


TYPES = {
    torch.float32: 1,
    torch.int32: 6,
    torch.int64: 7,
    torch.bool: 9,
    torch.float16: 10,
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


class _Recorder(DispatchMode):
    """Writes down every operation on something that depends on the sample.

    All else is a constant, whatever it was computed from.
    """

    def __init__(self, graph: Graph, sample: Tensor, name: str) -> None:
        super().__init__()
        self.graph, self.names = graph, {id(sample): name}
        self.constants: dict[tuple[int, int], str] = {}
        self.alive: list[Any] = [sample]  # so that no two tensors ever have one id

    def name(self, x: Tensor) -> str:
        """Of a value in the graph, or of a constant made of it."""
        if id(x) in self.names:
            return self.names[id(x)]
        key = id(x), x._version
        if key not in self.constants:
            self.constants[key] = self.graph.constant(x, x.dtype)
            self.alive.append(x)
        return self.constants[key]

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        from labelset.export.onnx import write

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


class Call(NamedTuple):
    """One operation: what it was given, what came of it, and how its tensors are called."""

    graph: Graph
    args: Sequence[Any]
    kwargs: dict[str, Any]
    result: Tensor
    names: dict[int, str]

    def get(self, k: int, key: str = "", default: Any = None) -> Any:
        """An argument by its place or its keyword."""
        return self.args[k] if k < len(self.args) else self.kwargs.get(key, default)

    def value(self, x: Any, dtype: torch.dtype | None = None) -> str:
        """The name of an argument, in that type or else in that of the result."""
        dtype = dtype or self.result.dtype
        if not isinstance(x, Tensor):
            return self.graph.constant(x, dtype)
        name = self.names[id(x)]
        return name if x.dtype == dtype else self.graph.cast(name, dtype)

    def put(self, op: str, *inputs: Any, **attributes: Any) -> str:
        """A node of the given arguments, each in the type of the result."""
        values = [x if isinstance(x, str) else self.value(x) for x in inputs]
        return str(self.graph.put(op, *values, **attributes))


def write(
    graph: Graph,
    name: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    result: Tensor,
    names: dict[int, str],
) -> list[str]:
    """Put an operation into the graph; the names of its results."""
    plain = name.removesuffix("_") if not name.startswith("_") else name  # in place or not
    if plain not in OPERATIONS or result.dtype not in TYPES:
        raise NotExportable(
            f"no ONNX form is known of torch's operation {name} ({result.dtype}); write the link, "
            "map or rule that uses it in other operations, or export with torch.export (to_torch)"
        )
    written = OPERATIONS[plain](Call(graph, args, kwargs, result, names))
    return [written] if isinstance(written, str) else written


Written = Callable[[Call], "str | list[str]"]


def _plain(op: str, count: int) -> Written:
    return lambda c: c.put(op, *c.args[:count])


def _compared(op: str) -> Written:
    def write(c: Call) -> str:
        dtype = torch.result_type(c.args[0], c.args[1])
        return c.put(op, *(c.value(x, dtype) for x in c.args[:2]))

    return write


def _sum_of(c: Call, first: Any, second: Any, op: str) -> str:
    alpha = c.kwargs.get("alpha", 1)
    scaled = second if alpha == 1 else c.put("Mul", second, alpha)
    return c.put(op, first, scaled)


def _log1p(c: Call, x: Any) -> str:
    """log(w) x / (w - 1) with w = 1 + x, and x where w is 1: exact however small x is."""
    one = c.value(1.0)
    w = c.put("Add", x, one)
    away = c.put("Sub", w, one)
    near = str(c.graph.put("Equal", away, c.value(0.0)))
    safe = c.put("Where", near, one, away)
    # only where w is small does the quotient matter, and there w is finite
    ratio = c.put("Div", c.put("Mul", c.put("Log", w), x), safe)
    large = str(c.graph.put("Greater", w, c.value(2.0)))
    return c.put("Where", near, x, c.put("Where", large, c.put("Log", w), ratio))


def _logsigmoid(c: Call, x: Any) -> str:
    """min(x, 0) - log1p(exp(-|x|))"""
    decay = c.put("Exp", c.put("Neg", c.put("Abs", x)))
    return c.put("Sub", c.put("Min", x, c.value(0.0)), _log1p(c, decay))


def _softplus(c: Call) -> str:
    beta = c.get(1, "beta", 1)
    scaled = c.put("Mul", c.args[0], -beta)
    return c.put("Div", c.put("Neg", _logsigmoid(c, scaled)), beta)


def _clamp(c: Call) -> str:
    low, high = c.get(1, "min"), c.get(2, "max")
    x = c.value(c.args[0])
    x = x if low is None else c.put("Max", x, low)
    return x if high is None else c.put("Min", x, high)


def _numbers_only(c: Call) -> str:
    """nan_to_num: NaN becomes a number, and the infinite the largest there is."""
    x, largest = c.args[0], torch.finfo(c.result.dtype).max
    nan, top, bottom = c.get(1, "nan"), c.get(2, "posinf"), c.get(3, "neginf")
    is_nan = str(c.graph.put("IsNaN", c.value(x)))
    filled = c.put("Where", is_nan, nan or 0.0, x)
    ends = largest if top is None else top, -largest if bottom is None else bottom
    return c.put("Max", c.put("Min", filled, ends[0]), ends[1])


def _copy(c: Call) -> str:
    return c.value(c.args[0])


def _filled(number: float) -> Written:
    def write(c: Call) -> str:
        shape = str(c.graph.put("Shape", c.names[id(c.args[0])]))
        return c.put("Expand", c.value(number), shape)

    return write


def _addmm(c: Call) -> str:
    product = c.put("MatMul", c.args[1], c.args[2])
    terms = (c.args[0], c.kwargs.get("beta", 1)), (product, c.kwargs.get("alpha", 1))
    return c.put("Add", *(x if times == 1 else c.put("Mul", x, times) for x, times in terms))


def _sum(c: Call) -> str:
    axes = c.get(1, "dim")
    keep = int(bool(c.get(2, "keepdim", False)))
    places = c.graph.constant([axes] if isinstance(axes, int) else list(axes), torch.int64)
    return c.put("ReduceSum", c.value(c.args[0]), places, keepdims=keep)


def _topk(c: Call) -> list[str]:
    axis, largest = c.get(2, "dim", -1), c.get(3, "largest", True)
    k = c.graph.constant([c.args[1]], torch.int64)
    x = c.value(c.args[0])
    return list(c.graph.put("TopK", x, k, outputs=2, axis=axis, largest=int(largest)))


def _sort(c: Call) -> list[str]:
    """Of equal numbers the first comes first, as in a stable sort."""
    axis, falling = c.kwargs.get("dim", -1), c.kwargs.get("descending", False)
    x = c.value(c.args[0])
    k = c.graph.constant([c.args[0].shape[axis]], torch.int64)
    return list(c.graph.put("TopK", x, k, outputs=2, axis=axis, largest=int(falling)))


def _ends(op: str) -> Written:
    def write(c: Call) -> str:
        keep = int(bool(c.get(2, "keepdim", False)))
        return c.put(op, c.args[0], axes=list(c.args[1]), keepdims=keep)

    return write


def _unsqueeze(c: Call) -> str:
    return c.put("Unsqueeze", c.args[0], c.graph.constant([c.args[1]], torch.int64))


def _slice(c: Call) -> str:
    whole = 1 << 62
    parts = c.get(1, "dim", 0), c.get(2, "start") or 0, c.get(3, "end"), c.get(4, "step", 1)
    axis, start, end, step = (whole if x is None else x for x in parts)
    ends = (c.graph.constant([x], torch.int64) for x in (start, end, axis, step))
    return c.put("Slice", c.args[0], *ends)


def _take(c: Call) -> str:
    table, where = c.args
    if table.ndim != 1:
        raise NotExportable("torch.take of a matrix has no ONNX form here; flatten it first")
    return c.put("Gather", table, c.value(where, torch.int64))


def _select(c: Call) -> str:
    axis, place = c.args[1], c.graph.constant(c.args[2], torch.int64)
    return c.put("Gather", c.args[0], place, axis=axis)


def _gather(c: Call) -> str:
    return c.put("GatherElements", c.args[0], c.value(c.args[2], torch.int64), axis=c.args[1])


def _scatter_add(c: Call) -> str:
    places = c.value(c.args[2], torch.int64)
    return c.put("ScatterElements", c.args[0], places, c.args[3], axis=c.args[1], reduction="add")


def _layer_norm(c: Call) -> str:
    x, shape, weight, bias, eps = c.args
    if len(shape) != 1 or weight is not None or bias is not None:
        raise NotExportable("layer_norm has an ONNX form here over one axis and without weights")
    ones = c.graph.constant(torch.ones(shape), c.result.dtype)
    return c.put("LayerNormalization", x, ones, epsilon=eps)


def _stacked(c: Call) -> str:
    axis = c.get(1, "dim", 0)
    places = c.graph.constant([axis], torch.int64)
    return c.put("Concat", *(c.put("Unsqueeze", x, places) for x in c.args[0]), axis=axis)


def _logsumexp(c: Call) -> str:
    axes, keep = c.args[1], int(bool(c.get(2, "keepdim", False)))
    listed = [axes] if isinstance(axes, int) else list(axes)
    return c.put("ReduceLogSumExp", c.args[0], axes=listed, keepdims=keep)


def _divided(c: Call) -> str:
    if c.kwargs.get("rounding_mode") is not None:
        raise NotExportable("division with rounding has no ONNX form here")
    return c.put("Div", *c.args[:2])


OPERATIONS: dict[str, Written] = {
    "add": lambda c: _sum_of(c, c.args[0], c.args[1], "Add"),
    "sub": lambda c: _sum_of(c, c.args[0], c.args[1], "Sub"),
    "rsub": lambda c: _sum_of(c, c.args[1], c.args[0], "Sub"),
    "mul": _plain("Mul", 2),
    "div": _divided,
    "floor_divide": _plain("Div", 2),  # of places, which are never below 0
    "reciprocal": _plain("Reciprocal", 1),
    "neg": _plain("Neg", 1),
    "abs": _plain("Abs", 1),
    "exp": _plain("Exp", 1),
    "log": _plain("Log", 1),
    "sqrt": _plain("Sqrt", 1),
    "tanh": _plain("Tanh", 1),
    "sigmoid": _plain("Sigmoid", 1),
    "logit": lambda c: c.put("Log", c.put("Div", c.args[0], c.put("Sub", 1.0, c.args[0]))),
    "relu": _plain("Relu", 1),
    "pow": _plain("Pow", 2),
    "square": lambda c: c.put("Mul", c.args[0], c.args[0]),
    "log1p": lambda c: _log1p(c, c.args[0]),
    "log_sigmoid_forward": lambda c: _logsigmoid(c, c.args[0]),
    "softplus": _softplus,
    "addcmul": lambda c: c.put("Add", c.args[0], c.put("Mul", c.args[1], c.args[2])),
    "clamp": _clamp,
    "clamp_min": lambda c: c.put("Max", *c.args[:2]),
    "clamp_max": lambda c: c.put("Min", *c.args[:2]),
    "maximum": _plain("Max", 2),
    "minimum": _plain("Min", 2),
    "nan_to_num": _numbers_only,
    "isnan": lambda c: str(c.graph.put("IsNaN", c.names[id(c.args[0])])),
    "where": lambda c: c.put("Where", c.value(c.args[0], torch.bool), *c.args[1:3]),
    "bitwise_and": _plain("And", 2),
    "bitwise_or": _plain("Or", 2),
    "bitwise_not": _plain("Not", 1),
    "logical_not": _plain("Not", 1),
    "zeros_like": _filled(0.0),
    "ones_like": _filled(1.0),
    "mm": _plain("MatMul", 2),
    "addmm": _addmm,
    "native_layer_norm": _layer_norm,
    "sum": _sum,
    "mean": _ends("ReduceMean"),
    "cumsum": lambda c: c.put("CumSum", c.args[0], c.graph.constant(c.args[1], torch.int64)),
    "topk": _topk,
    "sort": _sort,
    "amax": _ends("ReduceMax"),
    "amin": _ends("ReduceMin"),
    "unsqueeze": _unsqueeze,
    "permute": lambda c: c.put("Transpose", c.args[0], perm=list(c.args[1])),
    "cat": lambda c: c.put("Concat", *c.args[0], axis=c.get(1, "dim", 0)),
    "slice": _slice,
    "select": _select,
    "take": _take,
    "gather": _gather,
    "scatter_add": _scatter_add,
    "stack": _stacked,
    "logsumexp": _logsumexp,
    **{
        name: _compared(op)
        for name, op in {
            "gt": "Greater",
            "ge": "GreaterOrEqual",
            "lt": "Less",
            "le": "LessOrEqual",
            "eq": "Equal",
        }.items()
    },
    **dict.fromkeys(("_to_copy", "clone", "detach", "alias"), _copy),
}
