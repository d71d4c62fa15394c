"""Pretrained networks that are on this machine already: in a folder, or in an installed package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from labelset.data._optional import optional

__all__ = ["model_folder", "network"]


def model_folder(model: str, what: str) -> Path:
    """The folder with config.json; `model` names it, one above it, or a package that holds it."""
    if not model:
        raise ValueError(f"{what} needs `model`: a folder with config.json, or a package")
    path = Path(model)
    if not path.is_dir():
        spec = find_spec(model) if model.isidentifier() else None
        places = list(spec.submodule_search_locations or ()) if spec else []
        if not places:
            raise ValueError(f"{model}: neither a folder nor an installed package")
        path = Path(places[0])
    held = sorted(path.rglob("config.json"), key=lambda file: len(file.parts))
    if not held:
        raise ValueError(f"{path}: holds no config.json, so no {what.removeprefix('a ')}")
    return held[0].parent


def network(folder: Path, what: str, *kinds: str) -> list[Any]:
    """Objects of these kinds of transformers, such as AutoModel; nothing is fetched."""
    package = optional("transformers", f"{what.removeprefix('a ')}s", extra="encode")
    try:
        return [
            getattr(package, kind).from_pretrained(str(folder), local_files_only=True)
            for kind in kinds
        ]
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{folder}: cannot be read as {what}: {reason}") from None
