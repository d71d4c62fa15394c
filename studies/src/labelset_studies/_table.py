"""Table: one file of the study, which is what is trained, measured and expected."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from labelset import check
from labelset_studies._candidate import Candidate, read_candidates
from labelset_studies._expect import Expect
from labelset_studies._special import direction


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table or figure of a paper, to be made again on other data."""

    name: str
    claim: int
    title: str
    source: str
    """Where the paper has it."""
    note: str = ""
    """What a reader of the page should know besides."""
    metrics: list[str]
    """What is measured on test rows: a stage and a metric each, such as `sigmoid f1-micro`."""
    candidates: list[Candidate]
    expect: list[Expect] = field(default_factory=list)
    data: dict[str, list[str]] = field(default_factory=dict)
    """Data sets of the `short` and the `long` version."""
    seeds: dict[str, int] = field(default_factory=lambda: {"short": 2, "long": 5})
    epochs: dict[str, int] = field(default_factory=lambda: {"short": 10, "long": 20})
    missing: list[float] = field(default_factory=lambda: [0.0])
    """Shares of the training rows' positives that are dropped, each a condition of its own."""
    tries: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """A search of equal length for every candidate: `all`, and other settings by name."""
    choose: str = ""
    """What is largest, or smallest, on validation rows for the setting that is taken."""
    rank: list[str] = field(default_factory=list)
    """Metrics by which all candidates and stages are put in order over all data sets."""
    figure: dict[str, Any] = field(default_factory=dict)
    """`x`, what varies along the axis (one word, or several for one axis), `metrics`, a panel
    each, and where wanted `axis`, its caption, and `log2` for its scale."""

    def __post_init__(self) -> None:
        named = {one.name for one in self.candidates}
        for one in self.expect:
            for name in one.named():
                if name not in named:
                    raise ValueError(
                        f"expect: {name!r} is no candidate: {check.nearest(name, named)}"
                    )
            for metric in one.measured():
                if metric not in self.metrics:
                    raise ValueError(f"expect: {metric!r} is not among the metrics of the table")
        for metric in (*self.metrics, *([self.choose] if self.choose else [])):
            direction(metric)
        lengths = {name: len(settings) for name, settings in self.tries.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"tries: all candidates need searches of one length, got {lengths}")
        if self.tries and not self.choose:
            raise ValueError("tries need `choose`, the metric on validation rows that decides")

    def settings_of(self, candidate: Candidate) -> list[dict[str, Any]]:
        """What is tried for a candidate; none where nothing is searched."""
        return self.tries.get(candidate.name, self.tries.get("all", []))


def read_table(path: Path) -> Table:
    """A table from its TOML file; an error names the file."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        known = [f.name for f in fields(Table)]
        for key in given:
            if key not in known:
                raise ValueError(f"a table has no {key!r}: {check.nearest(key, known)}")
        given["candidates"] = read_candidates(given["candidates"])
        given["expect"] = [Expect.read(one) for one in given.get("expect", [])]
        return Table(**{"name": path.stem, **given})
    except KeyError as error:
        raise ValueError(f"{path}: {error} is missing") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None


def read_tables(paths: Sequence[str | Path]) -> list[Table]:
    """Tables of the files given, folders being read whole; by claim and name."""
    files: list[Path] = []
    for path in map(Path, paths):
        files += sorted(path.glob("*.toml")) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"no table (.toml) in {', '.join(map(str, paths))}; name the files")
    for path in files:
        if not path.is_file():
            raise ValueError(f"{path}: no such file")
    tables = sorted(map(read_table, files), key=lambda table: (table.claim, table.name))
    names = [table.name for table in tables]
    if len(set(names)) < len(names):
        raise ValueError(f"tables must have names of their own, got {', '.join(names)}")
    return tables
