"""Columns of a table -> what each is read as; what a file, or some rows of it, holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelset.data.dataset import PARTS, unique_names
from labelset.data.description import Description, Schema
from labelset.data.growing import GrowingLabels
from labelset.data.label_column import TRUTH, Listing, hint
from labelset.data.reading import BadFile, as_number
from labelset.data.sparse import SparseRows
from labelset.data.store import StoredRows, StoredSparse, appender, stacked
from labelset.labels import Labels


def truth(cell: str, unknown: int | None = None) -> float:
    """A label's cell: 0, 1, words for them, a number in between; NaN where nothing is known.

    >>> [truth(cell) for cell in ("1", "No", "0.25", "?")]
    [1.0, 0.0, 0.25, nan]
    """
    found = TRUTH.get(cell.strip().lower())
    if found is None:
        try:
            found = as_number(cell)
        except ValueError:
            found = -1.0
        if unknown is not None and found == unknown:
            return float("nan")
        if not 0 <= found <= 1:
            raise ValueError(f"a label must be 0 or 1 (empty or ?: unknown), got {cell!r}")
    return found


@dataclass(frozen=True)
class Columns:
    """Places of the columns; None where there is no such one."""

    left_out: list[str]
    """Names of columns that are not used."""
    labels: list[int]
    features: list[int]
    texts: list[int]
    label_list: int | None
    id: int | None
    split: int | None
    group: int | None
    time: int | None
    weight: int | None
    image: int | None
    categories: list[int]
    """Of the features those with words."""
    dates: list[int]

    @classmethod
    def of(
        cls, names: Sequence[str], ask: Description, role: str, labels: list[str] | None = None
    ) -> Columns:
        """From the names of the columns and what the description says of them; `labels`: exact
        names of label columns from elsewhere."""
        unique_names(names, "column")
        if ask.schema is not None:
            return cls._remembered(names, ask, ask.schema, labels)
        keys = [ask.label_column, ask.id_column, ask.split_column, ask.group_column]
        keys += [ask.time_column, ask.weight_column, ask.image_column]
        single = [None if key is None else exactly(names, key) for key in keys]
        many = (ask.text_column, ask.category_columns, ask.date_columns)
        texts, categories, dates = (_matching(names, patterns or []) for patterns in many)
        own = [*categories, *dates]
        out = _without(_matching(names, ask.ignore_columns or []), set(own))
        taken = {at for at in single if at is not None} | {*texts, *out}
        rest = _without(range(len(names)), taken)
        chosen = _labels(names, _without(rest, set(own)), ask, role, labels)
        rest = _without(rest, set(chosen))
        if ask.feature_columns is not None:
            rest = list(dict.fromkeys([*_matching(names, ask.feature_columns), *own]))
        elif role not in ("data", "features") or texts or ask.image_column is not None:
            rest = own
        used = {*taken, *chosen, *rest} - {*out}
        left_out = [name for at, name in enumerate(names) if at not in used]
        label_list, id, split, group, time, weight, image = single
        roles = (label_list, id, split, group, time, weight, image)
        return cls(left_out, chosen, rest, texts, *roles, categories, dates)

    @classmethod
    def _remembered(
        cls, names: Sequence[str], ask: Description, schema: Schema, labels: list[str] | None
    ) -> Columns:
        """Of new rows: what the model was trained on, by name, wherever it stands."""
        single = list[Any]()
        for key, wanted in (("id_column", ask.id_column), ("image_column", ask.image_column)):
            spare = wanted is None or (wanted not in names and wanted == schema.options.get(key))
            single.append(None if spare else exactly(names, wanted or ""))
        texts = [exactly(names, name) for name in ask.text_column or schema.texts]
        features = list[int]()
        if ask.feature_columns is not None:
            features = _matching(names, ask.feature_columns)
        elif schema.columns is not None:
            features = [exactly(names, name) for name in schema.columns]
        elif schema.width is not None:  # nobody knows their names: all that is nothing else
            out = _matching(names, ask.ignore_columns or [])
            taken = {*out, *texts, *(at for at in single if at is not None)}
            rest = _without(range(len(names)), taken)
            features = _without(rest, set(_labels(names, rest, ask, "data", labels)))
        categories = [at for at in features if names[at] in schema.categories]
        dates = [at for at in features if names[at] in schema.dates]
        roles = (None, single[0], None, None, None, None, single[1])
        return cls([], [], features, texts, *roles, categories, dates)

    def note(self) -> tuple[str, ...]:
        """A sentence about columns that were not used."""
        if not self.left_out:
            return ()
        few = ", ".join(self.left_out[:5]) + (", ..." if len(self.left_out) > 5 else "")
        return (f"columns left out: {few}",)


def _without(places: Iterable[int], others: set[int]) -> list[int]:
    return [at for at in places if at not in others]


def _labels(
    names: Sequence[str], rest: list[int], ask: Description, role: str, exact: list[str] | None
) -> list[int]:
    if exact is not None:
        place = set(names)
        bare = {name.replace("\\", ""): name for name in names}  # some XML files keep backslashes
        near = [w if w in place else bare.get(w.replace("\\", ""), w) for w in exact]
        at = {name: i for i, name in enumerate(names)}
        return [at[name] if name in at else exactly(names, name) for name in near]
    if ask.label_columns is not None:
        free = set(rest)
        return [at for at in _matching(names, ask.label_columns) if at in free]
    if isinstance(ask.labels, int):
        count = abs(ask.labels)
        if count > len(rest):
            raise ValueError(f"has {len(rest)} columns, too few for {count} labels")
        return rest[:count] if ask.labels_at == "start" else rest[len(rest) - count :]
    if role == "labels" and ask.label_column is None:
        return rest
    return []


def exactly(names: Sequence[str], wanted: str) -> int:
    """The place of a column; an error offers the nearest name."""
    if wanted not in names:
        raise ValueError(f"no column is called {wanted!r}: {hint(wanted, names)}")
    return names.index(wanted)


def _matching(names: Sequence[str], patterns: Sequence[str]) -> list[int]:
    """Columns of those names, in the order asked for; `*` and `?` stand for anything."""
    found: dict[int, None] = {}
    place = {name: at for at, name in enumerate(names)}
    for pattern in patterns:
        exact = place.get(pattern)
        hits = [exact] if exact is not None else _like(names, pattern)
        if not hits:
            raise ValueError(f"no column is called {pattern!r}: {hint(pattern, names)}")
        found |= dict.fromkeys(hits)
    return list(found)


def _like(names: Sequence[str], pattern: str) -> list[int]:
    return [at for at, name in enumerate(names) if fnmatchcase(name, pattern)]


INPUTS = ("features", "texts", "images")
CONTENT = (
    *(*INPUTS, "columns", "labels", "names", "split"),
    *("groups", "times", "weights", "ids", "files"),
)


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What one file, or some rows of it, says; None where it says nothing."""

    path: Path
    rows: int
    features: Tensor | SparseRows | StoredRows | StoredSparse | None = None
    columns: list[str] | None = None
    """The columns that the features come from, where they have names."""
    texts: Sequence[str] | None = None
    images: Tensor | StoredRows | None = None
    labels: Labels | None = None
    names: list[str] | None = None
    named: bool = False
    """Whether the rows list the names."""
    split: Tensor | None = None
    groups: Sequence[str] | None = None
    """Of each row what it stays together with."""
    times: Tensor | None = None
    """(rows,) float64."""
    weights: Tensor | None = None
    """(rows,) or (rows, labels) float64."""
    ids: Sequence[str] | None = None
    files: Sequence[str] | None = None
    """Pictures that are still to be read."""
    listed: Sequence[Any] | None = None
    """Of some rows: labels as they list them."""
    unknown: Sequence[Any] | None = None
    """The same of labels that are not known."""
    lines: Sequence[int] | None = None
    """The line of each row, where labels are listed."""
    listing: Listing | None = None
    """Of a whole file: labels as its rows list them, to be numbered when all files are read."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Fields of a `Schema`, `base` aside, that new rows must be read with."""
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
    merged: dict[str, Any] = {}
    for what in CONTENT:
        named = pieces.get({"names": "labels", "columns": "features"}.get(what, what))
        choices = [p for p in ([named] if named else []) + ordered if getattr(p, what) is not None]
        merged[what] = getattr(choices[0], what) if choices else None
    return replace(
        first,
        **merged,
        notes=tuple(note for piece in ordered for note in piece.notes),
        facts={key: value for piece in reversed(ordered) for key, value in piece.facts.items()},
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
    many = (what for what in CONTENT if what not in ("names", "columns"))
    joined = {what: _stacked(what, [getattr(p, what) for p in ordered]) for what in many}
    joined["names"], joined["columns"] = first.names, first.columns
    joined["split"] = torch.cat([torch.full((rows,), at, dtype=torch.int8) for at, rows in numbers])
    return replace(
        first,
        **joined,
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


def _is_sparse(x: Any) -> bool:
    return isinstance(x, (SparseRows, StoredSparse))


def _stacked(what: str, parts: Sequence[Any]) -> Any:
    if any(part is None for part in parts):
        return None
    if isinstance(parts[0], Labels):
        return Labels.stack(parts)
    return torch.cat(list(parts)) if what in ADDED else stacked(parts)


BLOCK = 4096
"""Rows that are taken apart together."""
WEIGHT = 1 << 18
"""Numbers or letters at which a block ends before that."""
SPOOLED = (*INPUTS, "groups", "ids", "files")
ADDED = ("split", "times", "weights")
"""A few bytes for each row, which stay in memory."""


def is_full(rows: int, weight: int) -> bool:
    """Whether a block has enough rows."""
    return rows >= BLOCK or weight >= WEIGHT


def gathered(pieces: Iterable[Piece], memory: int, delimiter: str = "|") -> Piece:
    """All rows; inputs and names of more than `memory` bytes lie on disk.

    `delimiter`: what stands between labels that are listed in one word.
    """
    spools: dict[str, Any] = {}
    listing, labels, rows = Listing(delimiter), GrowingLabels(), 0
    added: dict[str, list[Tensor]] = {what: [] for what in ADDED}
    notes, last = dict[str, None](), None
    for piece in pieces:
        last, rows = piece, rows + piece.rows
        notes |= dict.fromkeys(piece.notes)
        for what, values in _there(piece):
            if what not in spools:
                spools[what] = appender(values, memory)
            spools[what].append(values)
        if piece.labels is not None:
            labels.append(piece.labels)
        if piece.listed is not None:
            listing.add(piece.listed, piece.unknown, piece.lines)
        for what, parts in added.items():
            parts += [] if (part := getattr(piece, what)) is None else [part]
    if last is None:
        raise ValueError("holds no rows")
    return replace(
        last,
        rows=rows,
        labels=None if last.labels is None else labels.done(last.labels.n),
        **{what: torch.cat(parts) if parts else None for what, parts in added.items()},  # type: ignore[arg-type]
        notes=tuple(notes),
        listing=None if last.listed is None else listing,
        listed=None,
        unknown=None,
        lines=None,
        **{what: spool.done() for what, spool in spools.items()},
    )


def _there(piece: Piece) -> Iterator[tuple[str, Any]]:
    for name in SPOOLED:
        values = getattr(piece, name)
        if values is not None:
            yield name, values
