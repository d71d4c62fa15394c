"""A model as a torch.export program."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import torch

from labelset.export.check import compare
from labelset.export.pipeline import Pipeline, about, opened
from labelset.files import write_bytes
from labelset.model import SavedModel

ROWS = 3


def to_torch(
    run: SavedModel | str | Path, path: str | Path, *, decisions: bool = True, seed: int = 0
) -> None:
    """Write a `torch.export` program (.pt2) of all that the run does after its encoder.

    `torch.export.load(path).module()(features)` gives logits, probabilities and, unless
    `decisions` is False, decisions. The file, read back, is held to the run as by `to_onnx`. What
    the metadata of an ONNX file say is in its extra files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_torch(SavedModel(names=["fork"], loss="bce"), Path(folder) / "model.pt2")
    ...     program = torch.export.load(Path(folder) / "model.pt2")
    >>> program.module()(torch.zeros(2, 1))[1]
    tensor([[0.5000],
            [0.5000]])
    """
    write_bytes(Path(path), torch_file(opened(run), decisions, seed))


def torch_file(run: SavedModel, decisions: bool, seed: int) -> bytes:
    """What `to_torch` writes, held to the run."""
    pipeline = Pipeline(run, decisions).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about its own insides
        content = _saved(run, pipeline)
        program = torch.export.load(io.BytesIO(content)).module()
        compare(run, pipeline, lambda x: program(x), seed)
    return content


def _saved(run: SavedModel, pipeline: Pipeline) -> bytes:
    sample = torch.zeros(ROWS, pipeline.width, dtype=pipeline.dtype)
    rows: Any = {0: torch.export.Dim("rows", min=0)}
    with torch.no_grad():
        program = torch.export.export(
            pipeline, (sample,), dynamic_shapes={"features": rows}, strict=False
        )
    file = io.BytesIO()
    torch.export.save(program, file, extra_files=dict[str, Any](about(run, pipeline)))
    return file.getvalue()
