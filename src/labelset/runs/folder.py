"""RUN on disk: what is compared, which models are done, and the rows that are shown."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset.data import Dataset, StoredRows
from labelset.data.formats.npz import Parts, write_npz
from labelset.data.store import blocks
from labelset.files import file_sum, versions, write_bytes, write_with
from labelset.labels import Labels
from labelset.model import SavedModel, Split
from labelset.runs.judging import FIGURES, JUDGEMENT, Judge
from labelset.runs.plan import Plan

FILE = "done.json"
log = logging.getLogger("labelset")


def mark(folder: Path, failed: str | None = None) -> None:
    """Say that a model is done, with what it left, or why it failed."""
    sums = {} if failed else {path.name: file_sum(path) for path in _files(folder)}
    write_bytes(folder / FILE, with_sum({"failed": failed, "files": sums}))


def judge_and_save(run: SavedModel, train: Labels | None, folder: Path, optimise: str) -> None:
    """Write a model with what it is worth, and say that it is done.

    With the labels of its training rows, which the doctor looks at, it is readied for use, too.
    """
    judge = Judge(run)
    judge.figures().save(folder / FIGURES)
    if train is not None:
        judge.finish(optimise)
        run.splits["train"] = Split(train)
        judge.judgement().save(folder / JUDGEMENT)
        del run.splits["train"]
    run.save(folder)
    mark(folder)


def is_marked(folder: Path) -> bool:
    """Whether it says so, at a glance."""
    return (folder / FILE).is_file()


def failure(folder: Path) -> str | None:
    """Why the model of a folder failed; None: it did not."""
    found: str | None = without_sum(folder / FILE)["failed"]
    return found


def is_whole(folder: Path) -> bool:
    """Whether a model is done and every byte is still there; what is not is named."""
    if not is_marked(folder):
        return False
    try:
        sums = without_sum(folder / FILE)["files"]
    except ValueError as error:
        log.warning("%s; the model is trained again", error)
        return False
    for name, wanted in sums.items():
        if not (folder / name).is_file() or file_sum(folder / name) != wanted:
            log.warning("%s: is damaged or missing; the model is trained again", folder / name)
            return False
    return True


def with_sum(held: dict[str, Any]) -> bytes:
    """JSON with a checksum of itself, for `without_sum`."""
    text = json.dumps(held, indent=1)
    return json.dumps({"sha256": _digest(text)} | held, indent=1).encode()


def without_sum(path: Path) -> dict[str, Any]:
    """What `with_sum` was given; an error says that it is damaged."""
    try:
        held: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if held.pop("sha256") == _digest(json.dumps(held, indent=1)):
            return held
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    raise ValueError(f"{path}: is damaged")


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.is_file() and p.name != FILE)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


PLAN, SHOWN = "plan.json", "test_rows.npz"
LONGEST = 400  # characters of a text that are kept to be shown
log = logging.getLogger("labelset")


def begin(folder: Path, plan: Plan, dataset: Dataset, resume: bool) -> None:
    """Make the folder, or see that what is there is the same comparison."""
    about = {"plan": plan.as_json(), "data": dataset.fingerprint()}
    path, shown = folder / PLAN, folder / SHOWN
    if path.is_file():
        if not resume:
            raise ValueError(f"{folder}: there is a run already; go on with --resume, or --force")
        held = _same(path, about)
        if held["shown"] != _sum(shown):
            log.warning("%s: is damaged or missing; it is written again", shown)
            _keep_test_rows(shown, dataset.part("test"))
        return
    if (folder / "work").exists():  # models, perhaps of other data, that would pass as done
        raise ValueError(
            f"{path}: is missing, so that what {folder} holds is not known: delete the folder, or "
            "choose another"
        )
    folder.mkdir(parents=True, exist_ok=True)
    _keep_test_rows(shown, dataset.part("test"))
    about |= {"source": str(dataset.card.get("source", "data")), "versions": versions()}
    write_bytes(path, with_sum(about | {"shown": _sum(shown)}))


def _same(path: Path, about: dict[str, Any]) -> dict[str, Any]:
    """What is written there, which must be of the same comparison."""
    try:
        held = without_sum(path)
    except ValueError as error:
        raise ValueError(f"{error}: start again with --force, or in another folder") from None
    for what in ("plan", "data"):
        if held[what] != about[what]:
            raise ValueError(f"{path.parent}: holds a comparison with another {what}")
    return held


def _sum(path: Path) -> str | None:
    return file_sum(path) if path.is_file() else None


def _keep_test_rows(path: Path, test: Dataset) -> None:
    """What a reader of the report sees of a row: its text or its picture."""
    if test.texts is not None:
        kind = f"<U{LONGEST}"  # which cuts longer texts off
        each = (np.array(block, dtype=kind) for block in blocks(test.texts))
        held = {"texts": Parts((len(test),), kind, each)}
    elif test.images is not None:
        held = {"images": Parts(tuple(test.images.shape), np.uint8, _as_bytes(test.images))}
    else:
        return
    write_with(path, lambda file: write_npz(file, held, compress=True))


def _as_bytes(images: Tensor | StoredRows) -> Iterator[np.ndarray[Any, Any]]:
    """uint8 in 0..255, some pictures at a time."""
    low, high = torch.tensor(torch.inf), torch.tensor(-torch.inf)
    if images.dtype != torch.uint8:
        for block in blocks(images):
            low, high = torch.minimum(low, block.min()), torch.maximum(high, block.max())
    for block in blocks(images):
        if block.dtype != torch.uint8:
            block = ((block - low) / (high - low).clamp(min=1e-9) * 255).to(torch.uint8)
        yield block.numpy()
