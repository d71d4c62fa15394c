"""Plain text files: one text, or one of train, valid and test, on each line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from labelset.data._description import Description
from labelset.data._gather import gathered, is_full
from labelset.data._parts import part_numbers
from labelset.data._piece import Piece
from labelset.data._reading import lines, reading

__all__ = ["read"]


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """Texts or parts, as the key says; empty lines at the end do not count."""
    out = []
    for path in paths:
        with reading(path):
            out.append(gathered(_blocks(path, role), ask.memory << 20))
    return out


def _blocks(path: Path, role: str) -> Iterator[Piece]:
    held, letters, seen = list[str](), 0, 0
    blank = list[str]()
    for line in lines(path):
        blank.append(line.rstrip("\r\n"))
        if not blank[-1].strip():
            continue  # a row only if another one follows
        held += blank
        blank.clear()
        letters += len(line)
        if is_full(len(held), letters):
            yield _piece(path, held, role, seen)
            held, letters, seen = [], 0, seen + len(held)
    if held or not seen:
        yield _piece(path, held, role, seen)


def _piece(path: Path, held: list[str], role: str, first: int) -> Piece:
    if role == "split":
        return Piece(path=path, rows=len(held), split=part_numbers(held, first=first))
    return Piece(path=path, rows=len(held), texts=held)
