"""The tensors of a model's head, with calibrator and rule in the metadata."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save as save_tensors

from labelset import heads
from labelset.export.check import ExportFailed
from labelset.export.pipeline import Pipeline, about, opened
from labelset.files import write_bytes
from labelset.model import SavedModel


def to_safetensors(run: SavedModel | str | Path, path: str | Path) -> None:
    """Write the head as `labelset.heads.save` does, so that `labelset.heads.load` reads it.

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
    if run.head is None:
        kept = run.estimator
        held = "only scores" if kept is None else f"a {kept.kind}, in its estimator.safetensors"
        raise ValueError(f"this run holds no head, {held}; there are no tensors to export")
    facts = about(run, Pipeline(run, decisions=False)) | _in_full(run)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "head.safetensors"
        heads.save(run.head, file)
        with safe_open(file, framework="pt") as held:
            facts |= held.metadata()
            tensors = {name: held.get_tensor(name) for name in held.keys()}  # noqa: SIM118
        content = save_tensors(tensors, facts)
        file.write_bytes(content)
        _refuse_other(run.head, heads.load(file))
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
