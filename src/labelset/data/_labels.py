"""Labels from a file: npz, npy, or one JSON object per line."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from labelset import check
from labelset.labels import Labels

__all__ = ["LabelFile", "read_labels"]


class LabelFile(NamedTuple):
    """What a file says: the labels, their names, and which split each row belongs to."""

    labels: Labels
    names: list[str] | None
    split: list[int] | None


def read_labels(path: str | Path, n: int | None = None) -> LabelFile:
    """Labels from `path`; `n` is how many there are, where the file does not say.

    .npz: `Y` dense, or `Y_indptr`, `Y_indices`, `Y_shape`, with `U_indptr`, `U_indices` for unknown
    entries; `label_names` and `split` if there. .npy: dense, NaN unknown. .jsonl, .jsonl.gz: a
    list of numbers under `labels` (and `unknown`) per line; a first line with `header` may hold
    `label_names`.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    readers = {"npz": _npz, "npy": _npy, "jsonl": _jsonl}
    if kind not in readers:
        raise ValueError(f"{path}: cannot read .{kind} files; give one of .npz, .npy, .jsonl")
    try:
        found = readers[kind](path, n)
        for what, values, count in (
            ("label_names", found.names, found.labels.n),
            ("split", found.split, len(found.labels)),
        ):
            if values is not None and len(values) != count:
                raise ValueError(f"has {len(values)} entries in {what} for {count}")
        return found
    except (
        OSError,
        EOFError,
        zipfile.BadZipFile,
        KeyError,
        IndexError,
        UnicodeDecodeError,
    ) as error:
        raise ValueError(f"{path}: damaged or not a .{kind} file ({error})") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def _npz(path: Path, n: int | None) -> LabelFile:
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        held = {key: file[key] for key in file.files if key[:2] in ("Y", "Y_", "U_", "la", "sp")}
    names = [str(name) for name in held["label_names"]] if "label_names" in held else None
    split = held["split"].tolist() if "split" in held else None
    if "Y" in held:
        return LabelFile(Labels.from_dense(held["Y"]), names, split)
    if "Y_indptr" not in held:
        raise ValueError("holds neither Y nor Y_indptr, Y_indices, Y_shape")
    width = int(held["Y_shape"][1]) if "Y_shape" in held else n
    if width is None:
        raise ValueError("does not say how many labels there are; give Y_shape")
    unknown = (held["U_indptr"], held["U_indices"]) if "U_indptr" in held else None
    labels = Labels.from_csr(held["Y_indptr"], held["Y_indices"], width, unknown=unknown)
    return LabelFile(labels, names, split)


def _npy(path: Path, n: int | None) -> LabelFile:
    with path.open("rb") as raw:
        return LabelFile(Labels.from_dense(np.load(raw, allow_pickle=False)), None, None)


def _jsonl(path: Path, n: int | None) -> LabelFile:
    names: list[str] | None = None
    rows, unknown, split = list[list[int]](), list[list[int]](), list[Any]()
    for number, item in _objects(path):
        if number == 1 and item.get("header"):
            names = [str(name) for name in item.get("label_names", [])] or None
            continue
        if "labels" not in item:
            raise ValueError(f"line {number}: no `labels`")
        for kind, into in (("labels", rows), ("unknown", unknown)):
            if not isinstance(item.get(kind, []), list):
                raise ValueError(f"line {number}: `{kind}` must be a list of label numbers")
            into.append(item.get(kind, []))
        split.append(item.get("split"))
    flat = [label for row in rows + unknown for label in row]
    largest = max((label for label in flat if isinstance(label, int)), default=-1)
    width = len(names) if names else n if n is not None else largest + 1
    labels = Labels.from_lists(rows, check.whole("n", width), unknown=unknown)
    return LabelFile(labels, names, None if None in split else split)


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                item = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"line {number}: not JSON ({error.msg})") from None
            if not isinstance(item, dict):
                raise ValueError(f"line {number}: expected an object, got {type(item).__name__}")
            yield number, item
