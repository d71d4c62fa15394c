"""The tensors of a model, with calibrator and rule in the metadata."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from labelset import heads
from labelset.export.check import ExportFailed
from labelset.export.pipeline import Pipeline, about, opened
from labelset.files import write_bytes
from labelset.model import SavedModel
from labelset.model.blend import estimator


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
    pairs = zip(due.matrix(), got.matrix(), strict=True)
    for one, other in pairs:
        if one is not None and (other is None or not torch.equal(one.cpu(), other)):
            raise ExportFailed("the head that was read back differs; nothing was written")
