"""A weight matrix from a file: safetensors, npz or npy."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from labelset.heads import load as load_head

__all__ = ["read_matrix"]

WEIGHT, BIAS = ("weight", "W", "w"), ("bias", "b")


def read_matrix(
    path: str | Path, weight: str | None = None, bias: str | None = None
) -> tuple[Any, Any]:
    """(W, b or None); `weight` and `bias` name the entries where the file holds several.

    A safetensors file written by `labelset.heads.save` gives the matrix of that head.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    readers = {".safetensors": _safetensors, ".npz": _npz, ".npy": _npy}
    if path.suffix not in readers:
        raise ValueError(f"{path}: cannot read {path.suffix or 'this'}; give {', '.join(readers)}")
    try:
        held = readers[path.suffix](path)
    except (OSError, EOFError, zipfile.BadZipFile, ValueError) as error:
        raise ValueError(f"{path}: damaged or not {path.suffix} ({error})") from None
    if isinstance(held, tuple):
        return held[0], held[1]
    return _choose(path, held, weight, bias)


def _choose(
    path: Path, held: dict[str, Any], weight: str | None, bias: str | None
) -> tuple[Any, Any]:
    matrices = [name for name, t in held.items() if t.ndim == 2]
    if weight is None:
        usual = [name for name in matrices if name.rpartition(".")[2] in WEIGHT] or matrices
        if len(usual) != 1:
            raise ValueError(
                f"{path}: which of {', '.join(matrices) or 'no matrices'} is it? say with --weight"
            )
        weight = usual[0]
    for name in filter(None, (weight, bias)):
        if name not in held:
            raise ValueError(f"{path}: no entry {name!r}; it holds {', '.join(held)}")
    if bias is None:
        stem = weight.rpartition(".")[0]
        beside = [f"{stem}.{b}" if stem else b for b in BIAS]
        bias = next((b for b in beside if b in held), None)
    return held[weight], None if bias is None else held[bias]


def _safetensors(path: Path) -> Any:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ImportError(
            'reading .safetensors needs safetensors: pip install "labelset[proofs]"'
        ) from None
    try:
        with safe_open(path, framework="pt") as file:
            if "labelset.head" in (file.metadata() or {}):
                return tuple(load_head(path).matrix())
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(str(error)) from None


def _npz(path: Path) -> dict[str, Any]:
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _npy(path: Path) -> dict[str, Any]:
    with path.open("rb") as raw:
        return {"weight": np.load(raw, allow_pickle=False)}
