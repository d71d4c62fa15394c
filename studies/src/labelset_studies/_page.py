"""The page of a study: verdicts, sentences, tables and figures, between two marks."""

from __future__ import annotations

from pathlib import Path

from labelset.files import write_bytes
from labelset_studies._about import told
from labelset_studies._deciding import told as decided
from labelset_studies._figure import figure
from labelset_studies._numbers import numbers, seeds_told
from labelset_studies._ranking import ranking
from labelset_studies._read import Results
from labelset_studies._summary import summary
from labelset_studies._table import Table
from labelset_studies._verdict import Sentence, data_of

BEGIN, END = "<!-- study: begin -->", "<!-- study: end -->"
FIRST, LAST = "<!-- study: summary -->", "<!-- study: end of summary -->"


def write_page(results: Results, page: Path) -> list[Path]:
    """Put what was found between the marks of a page, and its figures beside it.

    The summary has marks of its own, or comes first where there are none.
    """
    text = (
        page.read_text(encoding="utf-8") if page.is_file() else f"# The study\n\n{BEGIN}\n{END}\n"
    )
    if not _marked(text, BEGIN, END):
        raise ValueError(f"{page}: the marks {BEGIN} and {END} are missing; add them")
    folder = page.with_suffix("")
    figures: dict[str, list[str]] = {}
    for table in results.tables:
        for at, drawn in enumerate(figure(results, table) if table.figure else []):
            folder.mkdir(exist_ok=True)
            name = f"{table.name}-{at + 1}.svg" if at else f"{table.name}.svg"
            write_bytes(folder / name, drawn.encode())
            figures.setdefault(table.name, []).append(f"{folder.name}/{name}")
    made = _body(results, figures)
    if _marked(text, FIRST, LAST):
        text = _filled(text, FIRST, LAST, summary(results))
    else:
        made = [*summary(results), "", *made]
    write_bytes(page, _filled(text, BEGIN, END, made).encode())
    return [page, *(page.parent / name for names in figures.values() for name in names)]


def _marked(text: str, begin: str, end: str) -> bool:
    return end in text.partition(begin)[2]


def _filled(text: str, begin: str, end: str, lines: list[str]) -> str:
    before, _, rest = text.partition(begin)
    made = "\n".join(lines)
    return f"{before}{begin}\n{made}\n{end}{rest.partition(end)[2]}"


def _body(results: Results, figures: dict[str, list[str]]) -> list[str]:
    lines = [told(results.about)]
    for claim in results.verdicts():
        lines += ["", f"## Claim {claim}", ""]
        for table in (t for t in results.tables if t.claim == claim and results.sets(t)):
            lines += _section(results, table, figures.get(table.name, []))
    if results.failed:
        lines += ["", "## What could not be trained", ""]
        lines += [f"- {what}" for what in dict.fromkeys(results.failed)]
    return lines


def _section(results: Results, table: Table, drawn: list[str]) -> list[str]:
    trials = results.searched.get(table.name, 0)
    search = (
        f"Each candidate had {trials} trials, decided by `{table.choose}` on validation rows."
        if trials
        else "Nothing was searched: settings are the papers', or the library's defaults."
    )
    more = [search, *([table.note] if table.note else []), *_repeated(results, table)]
    lines = [f"### {table.title}", "", " ".join([f"After {table.source}.", *more]), ""]
    sentences = results.sentences(table)
    if sentences:
        lines += [
            "| sentence | verdict | holds on | contradicted on | open on |",
            "|---|---|---|---|---|",
        ]
        lines += [_sentence(results, one) for one in sentences] + [""]
    if drawn:
        lines += [line for name in drawn for line in (f"![{table.title}]({name})", "")]
        shown = table.figure.get("metrics", table.metrics)[0]
        lines += [f"Points are {seeds_told(results, table, shown)}.", ""]
    lines += ranking(results, table) + _rows(results, table)
    for metric in table.metrics:
        if not drawn or not metric.partition(" ")[2].startswith("queries@"):
            lines += numbers(results, table, metric)
    return lines


def _sentence(results: Results, one: Sentence) -> str:
    extra = " (beyond the paper)" if one.extra else ""
    compares, found = decided(results, one)
    sets = [
        "<br>".join(f"{name} {found[name]}" for name in names) or "-"
        for names in (one.holds, one.contradicted, one.open)
    ]
    return f"| {one.says}{extra}<br>*{compares}* | **{one.told}** | {' | '.join(sets)} |"


def _repeated(results: Results, table: Table) -> list[str]:
    """Data sets of several conditions count several times."""
    sets = results.sets(table)
    names = set(map(data_of, sets))
    if len(names) == len(sets):
        return []
    return [
        f"Verdicts count every pair of data set and r, {len(sets)} in all, of {len(names)} data "
        "sets: those of one data set are not independent of each other."
    ]


def _rows(results: Results, table: Table) -> list[str]:
    """Rows behind all numbers of the table, where they are known."""
    names = dict.fromkeys(map(data_of, results.sets(table)))
    known = results.about.get("rows", {})
    told = ", ".join(f"{name} {known[name]:,}" for name in names if name in known)
    return [f"Test rows: {told}.", ""] if told else []
