"""`python -m labelset.pages DOCS`: write the pages that are stale, or only those missing."""

from __future__ import annotations

import argparse
from pathlib import Path

from labelset.pages import files, same_but_rounding


def main() -> None:
    """Write what differs; with --missing leave existing files, but renew the index for new ones."""
    parser = argparse.ArgumentParser(prog="python -m labelset.pages", description=__doc__)
    parser.add_argument("docs", type=Path, help="the folder of the docs")
    parser.add_argument("--missing", action="store_true", help="write only pages that do not exist")
    args = parser.parse_args()
    made = files()
    new = [path for path in made if not (args.docs / path).exists()]
    for path, content in made.items():
        file = args.docs / path
        skip = args.missing and path not in new and not (new and path.endswith("README.md"))
        if skip or (file.exists() and same_but_rounding(file.read_text(), content)):
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        print(f"wrote {file}")


if __name__ == "__main__":
    main()
