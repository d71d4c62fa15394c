"""Names to objects: every public file of a package that defines one thing offers it by name.

Names, docstrings and hyperparameters are read from the files, which are not imported for it: to
list what there is needs no torch, and to build one of them imports that one.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from labelset import check
from labelset.lazy import typed_imports

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
        keywords = inspect.signature(cls).parameters.values()
        return {
            p.name: Hyper(p.name, MISSING if p.default is p.empty else p.default, "")
            for p in keywords
        }
    own = inspect.get_annotations(cls)
    ordered = sorted(fields(cls), key=lambda f: f.name not in own)
    return {
        f.metadata.get("keyword") or f.name: Hyper(f.name, f.default, f.metadata.get("doc", ""))
        for f in ordered
        if f.init
    }


@cache
def _bindings(module: str) -> dict[str, Any]:
    """What the top of a file binds: a class, an expression, or (module, name) of an import."""
    root, *rest = module.split(".")
    path = Path(str(sys.modules[root].__file__)).parent.joinpath(*rest)
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    bound: dict[str, Any] = {}
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.ClassDef):
            bound[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            bound[node.targets[0].id] = node.value
        elif isinstance(node, ast.ImportFrom) and node.module:
            bound |= {a.asname or a.name: (node.module, a.name) for a in node.names}
        bound |= typed_imports(node)
    return bound


def _resolved(module: str, name: str) -> tuple[str, Any]:
    """Where a name is bound and to what, imports followed as long as they stay in the package."""
    found = _bindings(module).get(name)
    while isinstance(found, tuple) and found[0].partition(".")[0] in sys.modules:
        if found[0].partition(".")[0] not in (module.partition(".")[0], "labelset"):
            break
        module, found = found[0], _bindings(found[0]).get(found[1])
    return module, found


class _Class(NamedTuple):
    """A class as its file has it."""

    module: str
    node: ast.ClassDef

    @property
    def place(self) -> tuple[str, str]:
        return self.module, self.node.name

    def lineage(self) -> Iterator[_Class]:
        """The class and its bases in this package, in the order in which attributes are sought."""
        above = [
            _Class(*found).lineage()
            for found in (
                _resolved(self.module, b.id) for b in self.node.bases if isinstance(b, ast.Name)
            )
            if isinstance(found[1], ast.ClassDef)
        ]
        every = [self, *(cls for line in above for cls in line)]
        for at, cls in enumerate(every):  # a base of several comes after the last of them
            if cls.place not in (later.place for later in every[at + 1 :]):
                yield cls

    def value(self, expression: ast.expr) -> Any:
        """A literal, or a name that stands for one; ValueError for anything else."""
        if isinstance(expression, ast.Name):
            _, expression = _resolved(self.module, expression.id)
            if not isinstance(expression, ast.expr):
                raise ValueError
        return ast.literal_eval(expression)

    def fields(self) -> Iterator[tuple[str, Hyper]]:
        """Keyword -> what `hyper` says, or the default itself, where it is a dataclass."""
        if not any("dataclass" in ast.unparse(d) for d in self.node.decorator_list):
            return
        for line in self.node.body:
            if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
                continue
            name, call = line.target.id, line.value
            if "ClassVar" in ast.unparse(line.annotation):
                continue
            if not isinstance(call, ast.Call):
                yield name, Hyper(name, MISSING if call is None else self.value(call), "")
                continue
            words = dict(zip(("default", "doc", "keyword"), call.args, strict=False))
            words |= {str(k.arg): k.value for k in call.keywords}
            said = {word: self.value(expression) for word, expression in words.items()}
            if said.get("init", True):
                default, doc = said.get("default", MISSING), said.get("doc", "")
                yield said.get("keyword") or name, Hyper(name, default, doc)

    def keywords(self) -> dict[str, Hyper] | None:
        """The parameters of the constructor that the class itself defines."""
        for line in self.node.body:
            if isinstance(line, ast.FunctionDef) and line.name == "__init__":
                a = line.args
                named = [*a.posonlyargs, *a.args][1:]
                padding: list[ast.expr | None] = [None] * (len(named) - len(a.defaults))
                defaults = [*padding, *a.defaults, *a.kw_defaults]
                return {
                    arg.arg: Hyper(arg.arg, MISSING if d is None else self.value(d), "")
                    for arg, d in zip([*named, *a.kwonlyargs], defaults, strict=True)
                }
        return None


@dataclass(frozen=True)
class Entry:
    """What a file says about a class that a catalogue offers, read without importing it."""

    name: str
    lineage: tuple[_Class, ...]

    def load(self) -> Any:
        """The class itself."""
        module, name = self.lineage[0].place
        return getattr(import_module(module), name)

    @cached_property
    def doc(self) -> str:
        """The docstring of the class."""
        docs = (ast.get_docstring(cls.node) for cls in self.lineage)
        return next((doc for doc in docs if doc), "")

    @property
    def summary(self) -> str:
        """Its first paragraph, on one line."""
        return self.doc.split("\n\n")[0].replace("\n", " ")

    @cached_property
    def hyperparameters(self) -> dict[str, Hyper]:
        """As `hyperparameters` of the class gives them, which is asked where a default is not a
        literal."""
        try:
            known = dict(field for cls in reversed(self.lineage) for field in cls.fields())
            if known:
                own = dict(self.lineage[0].fields())
                return dict(sorted(known.items(), key=lambda item: item[0] not in own))
            return next((k for k in (cls.keywords() for cls in self.lineage) if k is not None), {})
        except ValueError:
            return hyperparameters(self.load())

    def attribute(self, name: str, default: Any = None) -> Any:
        """A class attribute that is a literal, own or inherited."""
        for cls in self.lineage:
            for line in cls.node.body:
                targets = line.targets if isinstance(line, ast.Assign) else []
                if isinstance(line, ast.AnnAssign):
                    targets = [line.target]
                if not isinstance(line, ast.Assign | ast.AnnAssign) or line.value is None:
                    continue
                if name in (target.id for target in targets if isinstance(target, ast.Name)):
                    return cls.value(line.value)
        return default


class Catalog(Generic[T]):
    """The classes of one kind that the public files of a package define; `base` is its name there.

    Each has the name that it states itself as `name`; a file that defines only one may leave it
    out, and its file name is the name (`_` read as `-`).
    """

    def __init__(self, package: str, base: str, what: str) -> None:
        self.package, self.base, self.what = package, base, what

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """What the files say, by name."""
        root = import_module(self.package)
        stems = sorted(m.name for m in pkgutil.iter_modules(root.__path__))
        public = [stem for stem in stems if not stem.startswith("_")]
        return {name: entry for stem in public for name, entry in self._entries(stem)}

    @property
    def classes(self) -> dict[str, type[T]]:
        """All of them, imported."""
        return {name: entry.load() for name, entry in self.entries.items()}

    def _entries(self, stem: str) -> Iterable[tuple[str, Entry]]:
        module = f"{self.package}.{stem}"
        place, base = _resolved(self.package, self.base)
        nodes = [n for n in _bindings(module).values() if isinstance(n, ast.ClassDef)]
        lines = [tuple(_Class(module, n).lineage()) for n in nodes if not n.name.startswith("_")]
        found = [line for line in lines if (place, base.name) in (cls.place for cls in line[1:])]
        names = [Entry("", line[:1]).attribute("name") for line in found]
        if len(found) == 1 and not names[0]:
            names = [stem.replace("_", "-")]
        if not found or not all(names):
            raise TypeError(
                f"{module} must define one {self.base}, or several that each state their name; "
                f"found {[line[0].node.name for line in found]}"
            )
        return ((name, Entry(name, line)) for name, line in zip(names, found, strict=True))

    def names(self) -> list[str]:
        """Every name, sorted."""
        return sorted(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def entry(self, name: str) -> Entry:
        """What the file of that name says."""
        if not isinstance(name, str) or name not in self.entries:
            raise ValueError(
                f"no {self.what} is called {name!r}: {check.nearest(str(name), self.entries)}"
            )
        return self.entries[name]

    def get(self, name: str) -> type[T]:
        """The class of that name."""
        cls: type[T] = self.entry(name).load()
        return cls

    def name_of(self, cls: type) -> str:
        """The name of a class; of one that is not in the catalogue, its Python name."""
        place = cls.__module__, cls.__qualname__
        there = (name for name, e in self.entries.items() if e.lineage[0].place == place)
        return next((name for name in there if self.get(name) is cls), cls.__name__)

    def build(self, name: str, **settings: Any) -> T:
        """The object of that name with these hyperparameters, the rest at their defaults."""
        known = self.known(name, settings)
        return self.get(name)(**{known[key].name: value for key, value in settings.items()})

    def known(self, name: str, settings: Iterable[str] = ()) -> dict[str, Hyper]:
        """The hyperparameters of that name, which must hold these and need no others: all that
        the files tell of whether `build` will do."""
        known = self.entry(name).hyperparameters
        for key in settings:
            if key not in known:
                raise TypeError(
                    f"{self.what} {name!r} has no hyperparameter {key!r}: "
                    f"{check.nearest(key, known)}"
                )
        missing = [k for k, f in known.items() if f.default is MISSING and k not in settings]
        if missing:
            raise TypeError(f"{self.what} {name!r} needs {' and '.join(missing)}")
        return known
