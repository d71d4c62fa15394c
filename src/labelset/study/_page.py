"""The page of a study: verdicts, sentences, tables and figures, between two marks."""

from __future__ import annotations

import math
from pathlib import Path

from labelset._atomic import write_bytes
from labelset.study._figure import figure
from labelset.study._ranking import ranking
from labelset.study._read import Results
from labelset.study._special import direction
from labelset.study._table import Table
from labelset.study._verdict import Sentence

__all__ = ["write_page"]

BEGIN, END = "<!-- study: begin -->", "<!-- study: end -->"
SMALL = 0.05  # values below which a table shows one digit more


def write_page(results: Results, page: Path) -> list[Path]:
    """Put what was found between the marks of a page, and its figures beside it."""
    text = (
        page.read_text(encoding="utf-8") if page.is_file() else f"# The study\n\n{BEGIN}\n{END}\n"
    )
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page}: the marks {BEGIN} and {END} are missing; add them")
    folder = page.with_suffix("")
    written = []
    for table in results.tables:
        drawn = figure(results, table) if table.figure and results.sets(table) else None
        if drawn is not None:
            folder.mkdir(exist_ok=True)
            written.append(folder / f"{table.name}.svg")
            write_bytes(written[-1], drawn.encode())
    figures = {path.stem: f"{folder.name}/{path.name}" for path in written}
    made = "\n".join(_body(results, figures))
    write_bytes(page, f"{before}{BEGIN}\n{made}\n{END}{after}".encode())
    return [page, *written]


def _body(results: Results, figures: dict[str, str]) -> list[str]:
    about, lines = results.about, list[str]()
    ended = f", {about['left']:,} more being left for want of time" if about["left"] else ""
    lines += [
        f"The {about['budget']} version: {about['cells']:,} trainings{ended}, in "
        f"{about['seconds']:,.0f} seconds, {about['jobs']} at a time, on {about['device']} "
        f"({about['machine']}, Python {about['python']}, torch {about['torch']}, "
        f"labelset {about['labelset']}).",
        "",
        "| claim | verdict | reproduced | not reproduced | inconclusive |",
        "|---|---|---|---|---|",
    ]
    for claim, verdict in results.verdicts().items():
        said = [s for t in results.tables if t.claim == claim for s in results.sentences(t)]
        counts = [
            sum(s.verdict == kind and not s.extra for s in said)
            for kind in ("reproduced", "not reproduced", "inconclusive")
        ]
        lines.append(f"| {claim} | **{verdict}** | {' | '.join(map(str, counts))} |")
    for claim in results.verdicts():
        lines += ["", f"## Claim {claim}", ""]
        for table in (t for t in results.tables if t.claim == claim and results.sets(t)):
            lines += _section(results, table, figures.get(table.name))
    if results.failed:
        lines += ["", "## What could not be trained", ""]
        lines += [f"- {what}" for what in dict.fromkeys(results.failed)]
    return lines


def _section(results: Results, table: Table, drawn: str | None) -> list[str]:
    trials = results.searched.get(table.name, 0)
    search = (
        f"Each candidate had {trials} trials, decided by `{table.choose}` on validation rows."
        if trials
        else "Nothing was searched: settings are the papers', or the library's defaults."
    )
    lines = [f"### {table.title}", "", f"After {table.source}. {search}", ""]
    sentences = results.sentences(table)
    if sentences:
        lines += [
            "| sentence | verdict | holds on | contradicted on | open on |",
            "|---|---|---|---|---|",
        ]
        lines += [_sentence(results, one) for one in sentences] + [""]
    if drawn is not None:
        lines += [f"![{table.title}]({drawn})", ""]
    lines += ranking(results, table)
    for metric in table.metrics:
        if drawn is None or not metric.partition(" ")[2].startswith("queries@"):
            lines += _numbers(results, table, metric)
    return lines


def _sentence(results: Results, one: Sentence) -> str:
    extra = " (beyond the paper)" if one.extra else ""
    least = results.weakest(one)
    sets = [
        "<br>".join(f"{name} {least[name]}" for name in names) or "-"
        for names in (one.holds, one.contradicted, one.open)
    ]
    return f"| {one.says}{extra} | **{one.verdict}** | {' | '.join(sets)} |"


def _numbers(results: Results, table: Table, metric: str) -> list[str]:
    """Candidates by data sets, means over seeds, the best of each set in bold."""
    sets, higher = results.sets(table), direction(metric)
    means = {
        one.name: [results.mean(table, data, one.name, metric) for data in sets]
        for one in table.candidates
    }
    means = {name: row for name, row in means.items() if not all(map(math.isnan, row))}
    if not means:
        return []
    best = [
        (max if higher else min)(
            (row[i] for row in means.values() if row[i] == row[i]), default=0.0
        )
        for i in range(len(sets))
    ]
    arrow = "higher is better" if higher else "lower is better"
    lines = [
        f"`{metric}`, {arrow}:",
        "",
        f"| | {' | '.join(sets)} |",
        "|---" * (len(sets) + 1) + "|",
    ]
    for name, row in means.items():
        cells = [_number(value, value == top) for value, top in zip(row, best, strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, ""]


def _number(value: float, best: bool) -> str:
    if math.isnan(value):
        return "-"
    text = (
        f"{value:,.0f}"
        if abs(value) >= 100
        else f"{value:.4f}"
        if abs(value) < SMALL
        else f"{value:.3f}"
    )
    return f"**{text}**" if best else text
