"""Which column of a table is what: labels, features, text, name, part, picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from labelset.data._dataset import unique_names
from labelset.data._description import Description
from labelset.data._reading import as_number
from labelset.data._vocabulary import hint

__all__ = ["Columns", "truth"]

TRUTH = {
    **dict.fromkeys(("0", "0.0", "false", "no", "n", "off"), 0.0),
    **dict.fromkeys(("1", "1.0", "true", "yes", "y", "on"), 1.0),
    **dict.fromkeys(("", "?", "nan", "na", "n/a", "null", "none"), float("nan")),
}


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
    label_list: int | None
    text: int | None
    id: int | None
    split: int | None
    image: int | None

    @classmethod
    def of(
        cls, names: Sequence[str], ask: Description, role: str, labels: list[str] | None = None
    ) -> Columns:
        """From the names of the columns and what the description says of them; `labels`: exact
        names of label columns from elsewhere."""
        unique_names(names, "column")
        single = [
            _named(names, column)
            for column in (
                *(ask.label_column, ask.text_column, ask.id_column),
                *(ask.split_column, ask.image_column),
            )
        ]
        taken = {at for at in single if at is not None}
        out = _matching(names, ask.ignore_columns or [])
        rest = _without(range(len(names)), taken | set(out))
        chosen = _labels(names, rest, ask, role, labels)
        rest = _without(rest, set(chosen))
        features = _features(names, rest, ask, role)
        spare = [names[at] for at in _without(rest, set(features))]
        return cls([names[at] for at in out] + spare, chosen, features, *single)

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
        return [at[name] if name in at else _exactly(names, name) for name in near]
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


def _features(names: Sequence[str], rest: list[int], ask: Description, role: str) -> list[int]:
    if ask.feature_columns is not None:
        return _matching(names, ask.feature_columns)
    other_input = ask.text_column is not None or ask.image_column is not None
    return rest if role in ("data", "features") and not other_input else []


def _named(names: Sequence[str], wanted: str | None) -> int | None:
    return None if wanted is None else _exactly(names, wanted)


def _exactly(names: Sequence[str], wanted: str) -> int:
    if wanted not in names:
        raise ValueError(f"no column is called {wanted!r}: {hint(wanted, names)}")
    return list(names).index(wanted)


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
