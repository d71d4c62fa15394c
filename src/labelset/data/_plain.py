"""Plain text files: one text, or one of train, valid and test, on each line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from labelset.data._description import Description
from labelset.data._parts import part_numbers
from labelset.data._piece import Piece
from labelset.data._reading import lines, reading

__all__ = ["read"]


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """Texts or parts, as the key says; empty lines at the end do not count."""
    out = []
    for path in paths:
        with reading(path):
            held = [line.rstrip("\r\n") for line in lines(path)]
            while held and not held[-1].strip():
                held.pop()
            if role == "split":
                out.append(Piece(path=path, rows=len(held), split=part_numbers(held)))
            else:
                out.append(Piece(path=path, rows=len(held), texts=held))
    return out
