"""ONNX files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelset._atomic import write_bytes
from labelset.artefact import Run
from labelset.data._optional import optional
from labelset.export._about import about
from labelset.export._check import Exported, compare, failing
from labelset.export._graph import TYPES, traced_graph
from labelset.export._opened import opened
from labelset.export._pipeline import Pipeline

__all__ = ["IR", "OPSET", "onnx_file", "to_onnx"]

OPSET = 17
IR = 8
"""Format of the file: with opset 17, read by onnxruntime 1.12 and all later ones."""
ROWS = 3
LARGEST = (1 << 31) - 1
"""Bytes that an ONNX file can have."""


def to_onnx(
    run: Run | str | Path, path: str | Path, *, decisions: bool = True, seed: int = 0
) -> None:
    """Write an ONNX file of all that the run does after its encoder.

    Input `features` (rows, width), or `scores` (rows, labels) where the run has no head; outputs
    `logits`, `probabilities` and, unless `decisions` is False, `decisions` (bool), (rows, labels)
    each; any number of rows. Label names, versions and what the input must be are in the file's
    metadata. Before anything is written onnxruntime runs the model on random rows (`seed`) and
    edge cases, and `ExportFailed` is raised unless it gives what the run gives.

    >>> import tempfile
    >>> run = Run(names=["fork", "knife"], loss="spa")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_onnx(run, Path(folder) / "model.onnx")
    ...     (Path(folder) / "model.onnx").stat().st_size > 500
    True
    """
    write_bytes(Path(path), onnx_file(opened(run), decisions, seed))


def onnx_file(run: Run, decisions: bool, seed: int) -> bytes:
    """What `to_onnx` writes, held to the run."""
    pipeline = Pipeline(run, decisions).eval()
    content = model_bytes(run, pipeline)
    compare(run, pipeline, session(content), seed)
    return content


def model_bytes(run: Run, pipeline: Pipeline) -> bytes:
    """The file, not yet tried."""
    helper = optional("onnx.helper", "ONNX files", "onnx")
    name = "scores" if pipeline.product is None else "features"
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
    facts = about(run, pipeline)
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(
        drawn,
        opset_imports=[opset],
        ir_version=IR,
        producer_name="labelset",
        producer_version=facts["labelset.version"],
        doc_string=f"{name}: {pipeline.taken}",
    )
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
    name = held.get_inputs()[0].name

    def run(x: Tensor) -> list[Tensor]:
        return [torch.from_numpy(out) for out in held.run(None, {name: x.numpy()})]

    return run
