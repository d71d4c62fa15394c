"""Heads in safetensors files: numbers and a line of JSON, nothing that could run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any

import torch

from labelset._atomic import write_bytes
from labelset.heads._base import Head

__all__ = ["load", "save"]

KEY = "labelset.head"
DTYPES = {str(t)[6:]: t for t in (torch.float64, torch.float32, torch.bfloat16, torch.float16)}


def save(head: Head, path: str | Path | IO[bytes]) -> None:
    """Write a head to a safetensors file, or an open one, with what is needed to build it again."""
    from safetensors.torch import save as packed

    tensors = {name: t.contiguous().cpu() for name, t in head.state_dict().items()}
    dtype = str(next(head.parameters()).dtype).removeprefix("torch.")
    about = {"name": head.name, "dtype": dtype, **head.settings}
    content = packed(tensors, metadata={KEY: json.dumps(about)})
    if isinstance(path, (str, Path)):
        write_bytes(Path(path), content)
    else:
        path.write(content)


def load(path: str | Path) -> Head:
    """The head that `save` wrote."""
    from safetensors import safe_open
    from safetensors.torch import load_file

    from labelset.heads import build

    with safe_open(path, framework="pt") as file:
        about = (file.metadata() or {}).get(KEY)
    if about is None:
        raise ValueError(f"{path} holds no labelset head; write one with labelset.heads.save")
    try:
        settings: dict[str, Any] = json.loads(about)
        dtype = DTYPES[settings.pop("dtype")]
        head = build(settings.pop("name"), **settings).to(dtype)
        head.load_state_dict(load_file(path))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} does not hold the head it says it holds: {reason}") from None
    return head
