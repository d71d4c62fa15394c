"""One split on disk: labels as compressed rows, scores, and what the rows are called."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from labelset.labels import Labels

__all__ = ["read_part", "write_part"]


def write_part(
    file: IO[bytes], labels: Labels, scores: Tensor | None, ids: Sequence[str] | None
) -> None:
    """The `.npz` file that `read_part` and `labelset.data.read_labels` read."""
    labels = labels.to("cpu")
    held = {"Y_indptr": labels.indptr, "Y_indices": labels.indices}
    arrays = {name: t.numpy() for name, t in held.items()}
    arrays["Y_shape"] = np.array(labels.shape)
    if labels.values is not None:
        arrays["Y_values"] = labels.values.numpy()
    if scores is not None:
        arrays["scores"] = scores.cpu().numpy()
    if ids is not None:
        arrays["ids"] = np.array(ids, dtype=np.str_)
    np.savez(file, **arrays)  # type: ignore[arg-type]


def read_part(path: Path) -> tuple[Labels, Tensor | None, list[str] | None]:
    """Labels, scores and ids."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            held = {name: file[name] for name in file.files}
    except (OSError, EOFError, zipfile.BadZipFile, ValueError) as error:
        raise ValueError(f"{path}: damaged or missing ({error})") from None
    labels = Labels.from_csr(
        held["Y_indptr"], held["Y_indices"], int(held["Y_shape"][1]), held.get("Y_values")
    )
    scores = torch.from_numpy(held["scores"]) if "scores" in held else None
    return labels, scores, held["ids"].tolist() if "ids" in held else None
