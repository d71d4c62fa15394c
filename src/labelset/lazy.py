"""A door loads what its room offers when somebody asks for it.

`import labelset` and the command line's help would take seconds otherwise: they would import torch
and every room. A door says under `if TYPE_CHECKING:` where its names are defined, and `door` reads
that block, so that readers, type checkers and the interpreter go by the same lines:

    if TYPE_CHECKING:
        from labelset.labels import Labels
    else:
        __getattr__, __dir__ = door(__name__)

A module of the room binds its own name on the door as soon as anybody imports it. A file must
therefore never have the name of something else that its door offers; a test holds that.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def door(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, for the names that it imports for type checkers."""
    module = sys.modules[package]

    @cache
    def origins() -> dict[str, tuple[str, str]]:
        tree = ast.parse(Path(str(module.__file__)).read_bytes())
        return {name: place for node in tree.body for name, place in typed_imports(node)}

    def get(name: str) -> Any:
        if name.startswith("__") or name not in origins():
            words = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(words, name=name, obj=module)
        source, original = origins()[name]
        if source == package:  # a room inside this one
            return import_module(f"{package}.{original}")
        value = getattr(import_module(source), original)
        setattr(module, name, value)  # the next access does not come here
        return value

    def listed() -> list[str]:
        return sorted({*vars(module), *origins()})

    return get, listed


def typed_imports(node: ast.stmt) -> Iterator[tuple[str, tuple[str, str]]]:
    """Name -> (module, name there) of every import for type checkers alone.

    >>> code = "if TYPE_CHECKING:\\n    from labelset.labels import Labels as L"
    >>> dict(typed_imports(ast.parse(code).body[0]))
    {'L': ('labelset.labels', 'Labels')}
    """
    if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
        return
    for line in node.body:
        if isinstance(line, ast.ImportFrom) and line.module:
            for alias in line.names:
                yield alias.asname or alias.name, (line.module, alias.name)
