"""`inspect`: what a data set holds, what is wrong with it, and how it is printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.data.dataset import PARTS, Dataset
from labelset.data.duplicates import first_alike, input_groups, runs
from labelset.data.sparse import SparseRows
from labelset.data.store import blocks
from labelset.display import Shown
from labelset.terminal import table, width, wrapped

WIDTH = 16


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
    yield _line("labels per row", f"{mean}; density {r.density:.2%}")
    few = [f"{name[:30]} {count:,}" for name, count in r.common.items()]
    while len(", ".join(few)) > 90:
        few.pop()
    yield _line("commonest", ", ".join(few) + (", ..." if len(few) < r.labels else ""))
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
    cells = [["", "rows", "per row", "no label", "dead labels", rare]]
    for name, part in r.parts.items():
        counts = (part.without_labels, len(part.dead), len(part.rare))
        each = (f"{part.rows:,}", f"{part.cardinality:.2f}", *(f"{count:,}" for count in counts))
        cells.append([f"{name:<{WIDTH - 2}}" if width() is None else name, *each])
    yield table(cells)


def _warnings(r: Any) -> Iterator[str]:
    said = []
    for what, leaks in (("input", r.leaks), ("id", r.same_ids)):
        for name, count in leaks.items():
            share = count / r.parts[name.split()[0]].rows
            said += [f"! {name}: {count:,} rows ({share:.1%}) have the same {what}"] * bool(count)
    said += [f"! never positive in train, but later: {_some(r.unseen)}"] * bool(r.unseen)
    said += [f"! never positive at all: {_some(r.dead)}"] * bool(r.dead)
    yield from ["", *said] if said else []


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _line(what: str, value: str) -> str:
    return f"{what:<{WIDTH}}{value}"


@dataclass(frozen=True)
class PartReport:
    """One part of a data set (or all of it, where it has no parts)."""

    rows: int
    cardinality: float
    """Labels on per row, on average."""
    without_labels: int
    """Rows on which no label is on."""
    dead: list[str]
    """Labels that are on in no row."""
    rare: list[str]
    """Labels that are on in some rows, but fewer than `rare_below`."""


@dataclass(frozen=True, kw_only=True)
class Report(Shown):
    """What `inspect` found; `print` it, or take `as_json()`."""

    rows: int
    inputs: list[str]
    """Which of features, texts and images there are."""
    features: int | None = None
    sparse: bool = False
    zeros: float | None = None
    """Share of feature values that are 0."""
    missing_values: int = 0
    """Feature values that are missing (NaN)."""
    empty_rows: int = 0
    """Rows without any feature that is not 0, or with an empty text."""
    picture: list[int] | None
    """Channels, height and width of the images."""
    labels: int
    cardinality: float
    """Labels on per row, on average."""
    most: int
    """Labels on in the row that has most."""
    density: float
    """Cardinality over labels."""
    unknown: int
    """Entries that are not known to be on or off."""
    soft: int
    """Entries between 0 and 1."""
    label_sets: int
    """Different sets of labels that are on."""
    rare_below: int
    parts: dict[str, PartReport]
    """Of "train", "valid" and "test" those with rows, or "all"."""
    dead: list[str]
    """Labels on in no row at all."""
    unseen: list[str]
    """Labels on in test or valid, but never in train."""
    duplicates: int | None
    """Rows whose input an earlier row has; None where there is no input."""
    conflicts: int | None
    """Those among them whose labels differ from the earlier row's."""
    common: dict[str, int]
    """The commonest labels, and in how many rows each is positive."""
    same_ids: dict[str, int]
    """As `leaks`, of rows with the same id."""
    leaks: dict[str, int]
    """"test in train": test rows whose input a train row has; and so on."""
    notes: list[str]
    """What was understood on reading."""

    def headline(self) -> str:
        more = f"; {self.label_sets:,} different label sets" if self.label_sets else ""
        warned = " ".join(line for line in _warnings(self) if line)
        return f"{self.rows:,} rows, {self.labels:,} labels{more}. {warned}".strip()

    def records(self) -> list[dict[str, Any]]:
        """A line for each part."""
        names = {"without_labels": "rows without labels", "cardinality": "labels per row"}
        return [
            {"part": part} | {names.get(key, key): value for key, value in asdict(held).items()}
            for part, held in self.parts.items()
        ]

    def as_json(self) -> dict[str, Any]:
        """Plain numbers, words, lists and dictionaries."""
        return asdict(self)

    def __str__(self) -> str:
        """A few aligned lines; warnings last, each with what it means."""
        facts, warnings = wrapped("\n".join(_facts(self))), wrapped("\n".join(_warnings(self)))
        return "\n".join([facts, "", *_parts(self), *filter(None, [warnings])])


def inspect(dataset: Dataset, rare_below: int = 10) -> Report:
    """Rows, features, labels, rare and dead labels, duplicated rows, leaks between parts.

    >>> x, y = [[0.0], [1.0], [1.0]], [[1, 0], [1, 1], [1, 0]]
    >>> report = inspect(Dataset.from_arrays(x, y, split=[0, 0, 2]))
    >>> report.duplicates, report.conflicts, report.leaks["test in train"]
    (1, 1, 1)
    """
    check.whole("rare_below", rare_below)
    y, groups, sets = dataset.labels, input_groups(dataset), _label_sets(dataset)
    counts, values = y.counts(), y.values
    mean = int(counts.sum()) / max(len(y), 1)
    return Report(
        rows=len(dataset),
        inputs=[w for w in ("features", "texts", "images") if getattr(dataset, w) is not None],
        **_features(dataset),
        picture=None if dataset.images is None else list(dataset.images.shape[1:]),
        labels=dataset.n,
        cardinality=mean,
        most=int(counts.max()) if len(y) else 0,
        density=mean / max(dataset.n, 1),
        unknown=0 if values is None else int(values.isnan().sum()),
        soft=0 if values is None else int(((values > 0) & (values < 1)).sum()),
        label_sets=int((sets == torch.arange(len(sets))).sum()),
        rare_below=rare_below,
        parts=_part_reports(dataset, rare_below),
        dead=_called(dataset, _on_per_label(dataset) == 0),
        unseen=_unseen(dataset),
        duplicates=None if groups is None else int((groups != torch.arange(len(groups))).sum()),
        conflicts=None if groups is None else int((sets != sets[groups]).sum()),
        common=_common(dataset),
        same_ids={} if dataset.ids is None else _leaks(dataset, _same_ids(dataset.ids)),
        leaks={} if groups is None else _leaks(dataset, groups),
        notes=list(dataset.card.get("notes", [])),
    )


def _features(dataset: Dataset) -> dict[str, Any]:
    x, texts = dataset.features, dataset.texts
    blank = 0 if texts is None else sum(not text.strip() for text in texts)
    if x is None:
        return {"empty_rows": blank}
    size = max(x.shape[0] * x.shape[1], 1)
    stored = missing = empty = 0
    for block in blocks(x):
        if isinstance(block, SparseRows):
            lengths, values = block.indptr.diff(), block.filled()
        else:
            lengths, values = (block != 0).sum(1), block
        stored += int(lengths.sum())
        missing += int(values.isnan().sum())
        empty += int((lengths == 0).sum())
    return {
        "features": x.shape[1],
        "sparse": dataset.sparse,
        "zeros": 1 - stored / size if x.shape[0] * x.shape[1] else 0.0,
        "missing_values": missing,
        "empty_rows": empty if texts is None else blank,
    }


def _on_per_label(dataset: Dataset) -> Tensor:
    """(labels,) rows in which each is on."""
    y = dataset.labels
    kept = y.indices if y.values is None else y.indices[~y.values.isnan()]
    return torch.bincount(kept.long(), minlength=y.n)


def _part_reports(dataset: Dataset, rare_below: int) -> dict[str, PartReport]:
    if dataset.split is None:
        return {"all": _part(dataset, rare_below)}
    sizes = dict(zip(PARTS, dataset.sizes(), strict=True))
    return {part: _part(_only(dataset, part), rare_below) for part in PARTS if sizes[part]}


def _only(dataset: Dataset, part: str) -> Dataset:
    """The labels of one part; its inputs are not copied."""
    return Dataset(labels=dataset.labels, names=dataset.names, split=dataset.split).part(part)


def _part(dataset: Dataset, rare_below: int) -> PartReport:
    on, counts = _on_per_label(dataset), dataset.labels.counts()
    rare = (on > 0) & (on < rare_below)
    return PartReport(
        rows=len(dataset),
        cardinality=int(counts.sum()) / max(len(dataset), 1),
        without_labels=int((counts == 0).sum()),
        dead=_called(dataset, on == 0),
        rare=_called(dataset, rare),
    )


def _called(dataset: Dataset, mask: Tensor) -> list[str]:
    return [dataset.names[at] for at in mask.nonzero().flatten().tolist()]


def _unseen(dataset: Dataset) -> list[str]:
    if dataset.split is None:
        return []
    train, valid, test = (_on_per_label(_only(dataset, part)) for part in PARTS)
    return _called(dataset, (train == 0) & (valid + test > 0))


def _label_sets(dataset: Dataset) -> Tensor:
    """(rows,) int64: the first row with the same labels on."""
    y = dataset.labels
    on = y.indices if y.values is None else y.indices[~y.values.isnan()]
    return torch.from_numpy(first_alike(runs(on.cpu().numpy(), y.counts().cpu().numpy())))


def _common(dataset: Dataset, most: int = 10) -> dict[str, int]:
    on = _on_per_label(dataset)
    counts, at = on.sort(descending=True, stable=True)
    return {dataset.names[i]: int(c) for i, c in zip(at[:most].tolist(), counts, strict=False)}


def _same_ids(ids: Sequence[str]) -> Tensor:
    """(rows,) int64: the first row with the same id."""
    return torch.from_numpy(first_alike(name.encode("utf-8", "surrogatepass") for name in ids))


def _leaks(dataset: Dataset, groups: Tensor) -> dict[str, int]:
    """Rows of a later part whose input is in an earlier one."""
    if dataset.split is None:
        return {}
    held = [groups[dataset.split == number] for number in range(len(PARTS))]
    return {
        f"{PARTS[late]} in {PARTS[early]}": int(torch.isin(held[late], held[early]).sum())
        for late, early in ((1, 0), (2, 0), (2, 1))
        if len(held[late]) and len(held[early])
    }
