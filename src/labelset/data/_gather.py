"""The blocks of rows of one file as one piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch

from labelset.data._piece import INPUTS, Piece
from labelset.data._spool import appender
from labelset.labels import Labels

__all__ = ["BLOCK", "gathered", "is_full"]

BLOCK = 4096
"""Rows that are taken apart together."""
WEIGHT = 1 << 18
"""Numbers or letters at which a block ends before that."""
LISTS = ("ids", "files", "listed", "unknown", "lines")


def is_full(rows: int, weight: int) -> bool:
    """Whether a block has enough rows."""
    return rows >= BLOCK or weight >= WEIGHT


def gathered(pieces: Iterable[Piece], memory: int) -> Piece:
    """All rows; inputs of more than `memory` bytes lie on disk."""
    inputs: dict[str, Any] = {}
    lists: dict[str, Any] = {}
    labels, split, rows = list[Labels](), list[torch.Tensor](), 0
    notes, last = dict[str, None](), None
    for piece in pieces:
        last, rows = piece, rows + piece.rows
        notes |= dict.fromkeys(piece.notes)
        for what, held in _there(piece, INPUTS):
            inputs.setdefault(what, appender(held, memory)).append(held)
        for what, held in _there(piece, LISTS):
            lists.setdefault(what, []).extend(held)
        labels += [] if piece.labels is None else [piece.labels]
        split += [] if piece.split is None else [piece.split]
    if last is None:
        raise ValueError("holds no rows")
    return replace(
        last,
        rows=rows,
        labels=Labels.stack(labels) if labels else None,
        split=torch.cat(split) if split else None,
        notes=tuple(notes),
        **{what: spool.done() for what, spool in inputs.items()},
        **lists,
    )


def _there(piece: Piece, what: Iterable[str]) -> Iterator[tuple[str, Any]]:
    for name in what:
        held = getattr(piece, name)
        if held is not None:
            yield name, held
