"""Names to objects: every module of a package that defines one thing offers it under its name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import MISSING, field, fields, is_dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from labelset import check

__all__ = ["Catalog", "Hyper", "hyper", "hyperparameters"]

T = TypeVar("T")


def hyper(default: Any = MISSING, doc: str = "", keyword: str | None = None) -> Any:
    """A dataclass field with its meaning, and its keyword where that differs from its name."""
    return field(default=default, metadata={"doc": doc, "keyword": keyword})


class Hyper(NamedTuple):
    """One hyperparameter of a class: its name there, its default (or MISSING), its meaning."""

    name: str
    default: Any
    doc: str


def hyperparameters(cls: type) -> dict[str, Hyper]:
    """Keyword -> hyperparameter: the fields of a dataclass, inherited ones last; else the
    keywords of its constructor."""
    if not is_dataclass(cls):
        given = inspect.signature(cls).parameters.values()
        return {
            p.name: Hyper(p.name, MISSING if p.default is p.empty else p.default, "") for p in given
        }
    own = inspect.get_annotations(cls)
    ordered = sorted(fields(cls), key=lambda f: f.name not in own)
    return {
        f.metadata.get("keyword") or f.name: Hyper(f.name, f.default, f.metadata.get("doc", ""))
        for f in ordered
        if f.init
    }


class Catalog(Generic[T]):
    """The classes of kind `base` that the public modules of a package define.

    Each has the name that it states itself as `name`; a module that defines only one may leave it
    out, and its file name is the name (`_` read as `-`).
    """

    def __init__(self, package: str, base: type[T], what: str) -> None:
        self.package, self.base, self.what = package, base, what

    @cached_property
    def classes(self) -> dict[str, type[T]]:
        root = importlib.import_module(self.package)
        stems = sorted(m.name for m in pkgutil.iter_modules(root.__path__))
        public = [stem for stem in stems if not stem.startswith("_")]
        return {name: cls for stem in public for name, cls in self._entries(stem).items()}

    def _entries(self, stem: str) -> dict[str, type[T]]:
        module = importlib.import_module(f"{self.package}.{stem}")
        found = [
            c
            for c in vars(module).values()
            if inspect.isclass(c)
            and issubclass(c, self.base)
            and c.__module__ == module.__name__
            and not c.__name__.startswith("_")
        ]
        named = {c.__dict__["name"]: c for c in found if c.__dict__.get("name")}
        if len(found) == 1 and not named:
            return {stem.replace("_", "-"): found[0]}
        if not found or len(named) != len(found):
            raise TypeError(
                f"{module.__name__} must define one {self.base.__name__}, or several that each "
                f"state their name; found {[c.__name__ for c in found]}"
            )
        return named

    def names(self) -> list[str]:
        """Every name, sorted."""
        return sorted(self.classes)

    def get(self, name: str) -> type[T]:
        """The class of that name."""
        if not isinstance(name, str) or name not in self.classes:
            raise ValueError(
                f"no {self.what} is called {name!r}: {check.nearest(str(name), self.classes)}"
            )
        return self.classes[name]

    def name_of(self, cls: type) -> str:
        """The name of a class; of one that is not in the catalogue, its Python name."""
        return next((name for name, c in self.classes.items() if c is cls), cls.__name__)

    def build(self, name: str, **given: Any) -> T:
        """The object of that name with these hyperparameters, the rest at their defaults."""
        cls = self.get(name)
        known = hyperparameters(cls)
        for key in given:
            if key not in known:
                raise TypeError(
                    f"{self.what} {name!r} has no hyperparameter {key!r}: "
                    f"{check.nearest(key, known)}"
                )
        missing = [k for k, f in known.items() if f.default is MISSING and k not in given]
        if missing:
            raise TypeError(f"{self.what} {name!r} needs {' and '.join(missing)}")
        return cls(**{known[key].name: value for key, value in given.items()})
