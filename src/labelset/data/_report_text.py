"""A report in words: what `labelset data inspect` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["table"]

WIDTH = 16


def table(report: Any) -> str:
    """A few aligned lines; warnings last, each with what it means."""
    return "\n".join([*_facts(report), "", *_parts(report), *_warnings(report)])


def _facts(r: Any) -> Iterator[str]:
    yield _line("rows", f"{r.rows:,}")
    yield _line("inputs", ", ".join(r.inputs) or "none")
    if r.features is not None:
        kind = "sparse" if r.sparse else "dense"
        yield _line("features", f"{r.features:,} {kind}, {r.zeros:.1%} zeros")
        if r.missing_values:
            yield _line("missing values", f"{r.missing_values:,}")
    if r.picture is not None:
        channels, high, wide = r.picture
        colour = {1: "grey", 3: "colour"}.get(channels, f"{channels} channels")
        yield _line("pictures", f"{wide} x {high}, {colour}")
    if r.empty_rows:
        yield _line("empty rows", f"{r.empty_rows:,}")
    yield _line("labels", f"{r.labels:,}")
    mean = f"{r.cardinality:.2f} on average, {r.most:,} at most"
    yield _line("on per row", f"{mean}; density {r.density:.2%}")
    yield _line("label sets", f"{r.label_sets:,} different")
    if r.unknown:
        yield _line("unknown", f"{r.unknown:,} entries ({r.unknown / (r.rows * r.labels):.1%})")
    if r.soft:
        yield _line("soft", f"{r.soft:,} entries between 0 and 1")
    if r.duplicates is not None:
        differ = f", {r.conflicts:,} with other labels" if r.conflicts else ""
        yield _line("duplicated rows", f"{r.duplicates:,}{differ}")
    for note in r.notes:
        yield _line("note", note)


def _parts(r: Any) -> Iterator[str]:
    rare = f"rare (<{r.rare_below})"
    head = ("rows", "on per row", "no label", "dead labels", rare)
    yield " " * WIDTH + "".join(f"{name:>13}" for name in head)
    for name, part in r.parts.items():
        cells = (
            *(f"{part.rows:,}", f"{part.cardinality:.2f}", f"{part.without_labels:,}"),
            *(f"{len(part.dead):,}", f"{len(part.rare):,}"),
        )
        yield f"{name:<{WIDTH}}" + "".join(f"{cell:>13}" for cell in cells)


def _warnings(r: Any) -> Iterator[str]:
    said = []
    for name, count in r.leaks.items():
        if count:
            late = r.parts[name.split()[0]].rows
            said.append(f"{name}: {count:,} rows ({count / late:.1%}) have the same input")
    if r.unseen:
        said.append(f"never on in train, but later: {_some(r.unseen)}")
    if r.dead:
        said.append(f"never on at all: {_some(r.dead)}")
    if said:
        yield ""
        for sentence in said:
            yield f"! {sentence}"


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _line(what: str, value: str) -> str:
    return f"{what:<{WIDTH}}{value}"
