"""Packages that only some data need."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["folder_of", "optional"]


def optional(module: str, what: str, extra: str = "data") -> Any:
    """The module, or an error that says what needs it and how to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise _lacking(module, what, extra) from None


def folder_of(package: str, what: str, extra: str = "data") -> Path:
    """Where a package lies; it is not imported."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise _lacking(package, what, extra)
    return Path(spec.submodule_search_locations[0])


def _lacking(module: str, what: str, extra: str) -> ImportError:
    package = module.partition(".")[0]
    return ImportError(f"{what} need the package {package}: pip install 'labelset[{extra}]'")
