"""`--set key=value`: settings of a map, rule or metric by name."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["add_settings", "settings"]


def add_settings(verb: Any, what: str) -> None:
    """The option, which may be given several times."""
    verb.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help=f"a setting of the {what}"
    )


def settings(given: list[str]) -> dict[str, Any]:
    """Key -> value; a value is read as JSON where it is JSON, else it is the text itself."""
    read = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise ValueError(f"--set needs KEY=VALUE, got {item!r}")
        try:
            read[key] = json.loads(value)
        except json.JSONDecodeError:
            read[key] = value
    return read
