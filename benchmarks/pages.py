"""The tables of a page, made from the CSVs of a folder.

python benchmarks/pages.py docs/speed.md benchmarks
"""

import argparse
import re
from collections.abc import Iterable
from pathlib import Path

from labelset.bench import BenchRow, figure, read_rows, shape

PLACE = re.compile(
    r"(<!-- bench (\S+) (\d+x\d+) (\S+) (dense|float|sparse) (.+?) -->\n).*?(<!-- end bench -->)",
    re.S,
)


def markdown(rows: Iterable[BenchRow]) -> str:
    """Losses down, implementations across: median milliseconds, and as a multiple of the floor.

    Where torch's bce was measured by turns with it, as a multiple of that.
    """
    kept = list(rows)
    across = list(dict.fromkeys(row.implementation for row in kept))
    cells = {(row.loss, row.implementation): _cell(row) for row in kept}
    head = "| loss | " + " | ".join(across) + " |\n|---|" + "---:|" * len(across)
    body = [
        f"| `{loss}` | " + " | ".join(cells.get((loss, name), "") for name in across) + " |"
        for loss in dict.fromkeys(row.loss for row in kept)
    ]
    return "\n".join([head, *body])


def _cell(row: BenchRow) -> str:
    if row.p50_ms is None or row.ratio_to_floor is None:
        return "out of memory" if row.note == "out of memory" else "-"
    wrong = ", wrong" if row.note.startswith("WRONG") else ""
    ratio = f"{figure(row.ratio_to_floor)} x"
    if row.bce_ms is not None:
        ratio = f"{row.p50_ms / row.bce_ms:.2f} x bce"
    return f"{figure(row.p50_ms)} ms, {ratio}{wrong}"


def filled(page: str, folder: Path) -> str:
    """A page with every table between its marks made anew from the CSV in `folder`.

    A mark is `<!-- bench losses_cpu.csv 512x80 float32 dense wall clock -->`; where the file does
    not exist, the page says so.
    """
    return PLACE.sub(lambda found: f"{found[1]}{_made(found, folder)}\n{found[7]}", page)


def _made(found: re.Match[str], folder: Path) -> str:
    file, size, dtype, kind, timing = found.group(2, 3, 4, 5, 6)
    if not (folder / file).is_file():
        return f"There is no {file} yet."
    want = (*shape(size), dtype, kind, timing)
    rows = [
        row
        for row in read_rows(folder / file)
        if (row.rows, row.labels, row.dtype, row.label_kind, row.timing) == want
    ]
    if timing == "synchronised":
        rows = [row for row in rows if row.bce_ms is not None]  # the pace of a host is no constant
    if not rows:
        return f"{file} has no figures for {size}, {dtype}, {kind}, {timing}."
    return f"{rows[0].device_name}, torch {rows[0].torch}:\n\n{markdown(rows)}"


def main():
    """Write the page where it differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, help="docs/speed.md")
    parser.add_argument("folder", type=Path, help="where the CSVs are: benchmarks")
    args = parser.parse_args()
    old = args.page.read_text(encoding="utf-8")
    new = filled(old, args.folder)
    if new != old:
        args.page.write_text(new, encoding="utf-8")
        print(f"wrote {args.page}")


if __name__ == "__main__":
    main()
