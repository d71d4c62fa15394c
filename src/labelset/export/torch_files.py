"""A model as files of torch: a torch.export program; its tensors in safetensors, with calibrator
and rule in the metadata."""

from __future__ import annotations

import io
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from labelset import heads
from labelset.export.check import ExportFailed, compare
from labelset.export.pipeline import Pipeline, about, opened
from labelset.files import write_bytes
from labelset.model import SavedModel
from labelset.model.blend import estimator

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
    if run.head is not None and run.head.places:
        raise ValueError(
            "a torch.export program begins at features, and the head attends to tokens or patches: "
            "export an ONNX file, which begins before the network (to_onnx, --onnx)"
        )
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


def to_safetensors(run: SavedModel | str | Path, path: str | Path) -> None:
    """Write the head as `labelset.heads.save` does, so that `labelset.heads.load` reads it.

    Of an estimator the tensors are those of its `tensors()`, which its `from_tensors` takes; its
    kind is under `labelset.estimator` in the metadata.

    The metadata say besides what an ONNX file's do, and hold map and rule in full, as JSON. With
    the `features` encoder its scaling is there too, as JSON under `labelset.scaling`.

    >>> import tempfile
    >>> run = SavedModel(names=["fork"], head=heads.build("linear", features=3, labels=1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_safetensors(run, Path(folder) / "head.safetensors")
    ...     heads.load(Path(folder) / "head.safetensors").settings["features"]
    3
    """
    write_bytes(Path(path), safetensors_file(opened(run)))


def safetensors_file(run: SavedModel) -> bytes:
    """What `to_safetensors` writes, read back once."""
    if run.model is None:
        raise ValueError(
            f"{run.folder or 'this run'} holds no head and no estimator, only scores; there are no "
            "tensors to export"
        )
    facts = about(run, Pipeline(run, decisions=False)) | _in_full(run)
    return _of_estimator(run, facts) if run.head is None else _of_head(run.head, facts)


def _of_estimator(run: SavedModel, facts: dict[str, str]) -> bytes:
    due = run.estimator.tensors()
    content = save_tensors(due, facts)
    got = estimator(run.estimator.kind).from_tensors(load_tensors(content)).tensors()
    if {*due} != {*got} or not all(torch.equal(due[name], got[name]) for name in due):
        raise ExportFailed("the estimator that was read back differs; nothing was written")
    return content


def _of_head(head: heads.Head, facts: dict[str, str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "head.safetensors"
        heads.save(head, file)
        with safe_open(file, framework="pt") as held:
            facts |= held.metadata()
            tensors = {name: held.get_tensor(name) for name in held.keys()}  # noqa: SIM118
        content = save_tensors(tensors, facts)
        file.write_bytes(content)
        _refuse_other(head, heads.load(file))
    return content


def _in_full(run: SavedModel) -> dict[str, str]:
    scaling: dict[str, Any] = {}
    if run.encoder is not None and run.encoder.name == "features":
        scaling = {name: t.tolist() for name, t in run.encoder.learnt.items()}
    rule = None if run.rule is None else run.rule.as_json()
    calibrator = None if run.calibrator is None else run.calibrator.as_json()
    parts = {"labelset.calibrator": calibrator, "labelset.rule": rule, "labelset.scaling": scaling}
    return {key: json.dumps(part) for key, part in parts.items()}


def _refuse_other(due: heads.Head, got: heads.Head) -> None:
    held, other = due.state_dict(), got.state_dict()
    if {*held} != {*other} or not all(torch.equal(t.cpu(), other[k]) for k, t in held.items()):
        raise ExportFailed("the head that was read back differs; nothing was written")
