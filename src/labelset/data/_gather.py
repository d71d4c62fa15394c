"""The blocks of rows of one file as one piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch

from labelset.data._growing import GrowingLabels
from labelset.data._listing import Listing
from labelset.data._piece import INPUTS, Piece
from labelset.data._spool import appender

__all__ = ["BLOCK", "gathered", "is_full"]

BLOCK = 4096
"""Rows that are taken apart together."""
WEIGHT = 1 << 18
"""Numbers or letters at which a block ends before that."""
SPOOLED = (*INPUTS, "ids", "files")


def is_full(rows: int, weight: int) -> bool:
    """Whether a block has enough rows."""
    return rows >= BLOCK or weight >= WEIGHT


def gathered(pieces: Iterable[Piece], memory: int, delimiter: str = "|") -> Piece:
    """All rows; inputs and names of more than `memory` bytes lie on disk.

    `delimiter`: what stands between labels that are listed in one word.
    """
    spools: dict[str, Any] = {}
    listing, labels, split, rows = Listing(delimiter), GrowingLabels(), list[torch.Tensor](), 0
    notes, last = dict[str, None](), None
    for piece in pieces:
        last, rows = piece, rows + piece.rows
        notes |= dict.fromkeys(piece.notes)
        for what, held in _there(piece):
            if what not in spools:
                spools[what] = appender(held, memory)
            spools[what].append(held)
        if piece.labels is not None:
            labels.append(piece.labels)
        if piece.listed is not None:
            listing.add(piece.listed, piece.unknown, piece.lines)
        split += [] if piece.split is None else [piece.split]
    if last is None:
        raise ValueError("holds no rows")
    return replace(
        last,
        rows=rows,
        labels=None if last.labels is None else labels.done(last.labels.n),
        split=torch.cat(split) if split else None,
        notes=tuple(notes),
        listing=None if last.listed is None else listing,
        listed=None,
        unknown=None,
        lines=None,
        **{what: spool.done() for what, spool in spools.items()},
    )


def _there(piece: Piece) -> Iterator[tuple[str, Any]]:
    for name in SPOOLED:
        held = getattr(piece, name)
        if held is not None:
            yield name, held
