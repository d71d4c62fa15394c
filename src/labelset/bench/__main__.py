"""`python -m labelset.bench PAGE FOLDER`: the tables of a page, made from the CSVs of a folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from labelset.bench import filled


def main() -> None:
    """Write the page where it differs."""
    parser = argparse.ArgumentParser(prog="python -m labelset.bench", description=__doc__)
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
