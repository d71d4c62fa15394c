"""What is done of a comparison: kept with checksums, so that only what is whole counts as done."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from labelset._atomic import write_bytes
from labelset.artefact._sums import file_sum

__all__ = ["failure", "is_marked", "is_whole", "mark", "with_sum", "without_sum"]

FILE = "done.json"
log = logging.getLogger("labelset")


def mark(folder: Path, failed: str | None = None) -> None:
    """Say that a model is done, with what it left, or why it failed."""
    sums = {} if failed else {path.name: file_sum(path) for path in _files(folder)}
    write_bytes(folder / FILE, with_sum({"failed": failed, "files": sums}))


def is_marked(folder: Path) -> bool:
    """Whether it says so, at a glance."""
    return (folder / FILE).is_file()


def failure(folder: Path) -> str | None:
    """Why the model of a folder failed; None: it did not."""
    found: str | None = without_sum(folder / FILE)["failed"]
    return found


def is_whole(folder: Path) -> bool:
    """Whether a model is done and every byte is still there; what is not is named."""
    if not is_marked(folder):
        return False
    try:
        sums = without_sum(folder / FILE)["files"]
    except ValueError as error:
        log.warning("%s; the model is trained again", error)
        return False
    for name, wanted in sums.items():
        if not (folder / name).is_file() or file_sum(folder / name) != wanted:
            log.warning("%s: is damaged or missing; the model is trained again", folder / name)
            return False
    return True


def with_sum(held: dict[str, Any]) -> bytes:
    """JSON with a checksum of itself, for `without_sum`."""
    text = json.dumps(held, indent=1)
    return json.dumps({"sha256": _digest(text)} | held, indent=1).encode()


def without_sum(path: Path) -> dict[str, Any]:
    """What `with_sum` was given; an error says that it is damaged."""
    try:
        held: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if held.pop("sha256") == _digest(json.dumps(held, indent=1)):
            return held
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    raise ValueError(f"{path}: is damaged")


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.is_file() and p.name != FILE)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
