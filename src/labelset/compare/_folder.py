"""The folder of a comparison: what is compared, and the rows that its report shows."""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import labelset
from labelset._atomic import write_bytes, write_with
from labelset.artefact._sums import file_sum
from labelset.compare._done import with_sum, without_sum
from labelset.compare._plan import Plan
from labelset.data import Dataset, StoredRows
from labelset.data._npz_write import Parts, write_npz
from labelset.data._stored import blocks

__all__ = ["PLAN", "SHOWN", "begin", "versions"]

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
        raise ValueError(f"{error}: start anew with --force, or in another folder") from None
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


def versions() -> dict[str, str]:
    """What the numbers depend on."""
    return {
        "labelset": labelset.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
