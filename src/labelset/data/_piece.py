"""What one file says of its rows, and how several such pieces become one data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelset.data._listing import Listing
from labelset.data._parts import PARTS
from labelset.data._reading import BadFile
from labelset.data._sparse import SparseRows
from labelset.data._spool import stacked
from labelset.data._stored import StoredRows, StoredSparse
from labelset.labels import Labels

__all__ = ["Piece", "below", "beside"]

INPUTS = ("features", "texts", "images")
CONTENT = (*INPUTS, "labels", "names", "split", "ids", "files")


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What one file, or some rows of it, says; None where it says nothing."""

    path: Path
    rows: int
    features: Tensor | SparseRows | StoredRows | StoredSparse | None = None
    texts: Sequence[str] | None = None
    images: Tensor | StoredRows | None = None
    labels: Labels | None = None
    names: list[str] | None = None
    split: Tensor | None = None
    ids: Sequence[str] | None = None
    files: Sequence[str] | None = None
    """Pictures that are still to be read."""
    listed: list[Any] | None = None
    """Of some rows: labels as they list them."""
    unknown: list[Any] | None = None
    """The same of labels that are not known."""
    lines: list[int] | None = None
    """The line of each row, where labels are listed."""
    listing: Listing | None = None
    """Of a whole file: labels as its rows list them, to be numbered when all files are read."""
    notes: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)


def beside(pieces: dict[str, Piece]) -> Piece:
    """Files about the same rows as one piece: what a key names comes from there, the rest from
    the first file that has it."""
    ordered = list(pieces.values())
    first = ordered[0]
    for other in ordered[1:]:
        if other.rows != first.rows:
            raise BadFile(f"{other.path}: has {other.rows} rows, {first.path} has {first.rows}")
    held: dict[str, Any] = {}
    for what in CONTENT:
        named = pieces.get("labels" if what == "names" else what)
        choices = [p for p in ([named] if named else []) + ordered if getattr(p, what) is not None]
        held[what] = getattr(choices[0], what) if choices else None
    return replace(
        first,
        **held,
        notes=tuple(note for piece in ordered for note in piece.notes),
        about={key: value for piece in reversed(ordered) for key, value in piece.about.items()},
    )


def below(pieces: dict[str, Piece]) -> Piece:
    """Train, valid and test rows, each from files of its own, as one piece."""
    if set(pieces) == {"train"}:
        return pieces["train"]
    ordered = [pieces[part] for part in PARTS if part in pieces]
    first = ordered[0]
    for other in ordered[1:]:
        _same_shape(first, other)
    numbers = [(PARTS.index(part), pieces[part].rows) for part in PARTS if part in pieces]
    many = (what for what in CONTENT if what != "names")
    held = {what: _stacked(what, [getattr(p, what) for p in ordered]) for what in many}
    held["names"] = first.names
    held["split"] = torch.cat([torch.full((rows,), at, dtype=torch.int8) for at, rows in numbers])
    return replace(
        first,
        **held,
        rows=sum(piece.rows for piece in ordered),
        notes=tuple(dict.fromkeys(note for piece in ordered for note in piece.notes)),
    )


def _same_shape(first: Piece, other: Piece) -> None:
    for what in ("features", "texts", "images", "labels", "files"):
        ours, theirs = getattr(first, what), getattr(other, what)
        if (ours is None) != (theirs is None):
            lacks, has = (first, other) if ours is None else (other, first)
            raise BadFile(f"{lacks.path}: holds no {what}, which {has.path} holds")
    for what in ("features", "images", "labels"):
        ours, theirs = getattr(first, what), getattr(other, what)
        if ours is not None and tuple(ours.shape[1:]) != tuple(theirs.shape[1:]):
            sizes = f"{tuple(theirs.shape[1:])}, {first.path} {tuple(ours.shape[1:])}"
            raise BadFile(f"{other.path}: its {what} have size {sizes}")
        if _is_sparse(ours) != _is_sparse(theirs):
            raise BadFile(f"{other.path}: its {what} are sparse or dense, unlike {first.path}'s")
    if first.names is not None and other.names is not None and first.names != other.names:
        raise BadFile(f"{other.path}: its labels are not called like those of {first.path}")


def _is_sparse(held: Any) -> bool:
    return isinstance(held, (SparseRows, StoredSparse))


def _stacked(what: str, held: Sequence[Any]) -> Any:
    if any(part is None for part in held):
        return None
    if isinstance(held[0], Labels):
        return Labels.stack(held)
    return torch.cat(list(held)) if what == "split" else stacked(held)
