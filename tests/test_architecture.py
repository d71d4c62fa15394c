"""Imports point one way, through doors; a door's names are its own; the core is light."""

import ast
import runpy
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import labelset
from labelset.lazy import typed_imports

PACKAGE = Path(labelset.__file__).parent
ROOT = Path(__file__).parents[1]
ORDER = [
    "lazy",
    "torch_private",
    "check",
    "extensions",
    "csr",
    "labels",
    "catalog",
    "inputs",
    "learned",
    "files",
    "ranks",
    "terminal",
    "charts",
    "display",
    "data",
    "formulas",
    "kernels",
    "losses",
    "linear",
    "distributed",
    "heads",
    "proofs",
    "metrics",
    "calibrate",
    "decide",
    "retrieve",
    "encode",
    "model",
    "torchmetrics",
    "transformers",
    "export",
    "keras",
    "doctor",
    "train",
    "runs",
    "report",
    "sklearn",
    "bench",
    "testing",
    "cli",
    "__main__",
]
"""Each room may import from itself and from those before it."""
MEASURING = [
    "benchmarks/linear.py>linear._blocks",
    "benchmarks/nccl.py>distributed._global_batch",
    "benchmarks/nccl.py>distributed._over_labels",
    "benchmarks/nccl.py>distributed._sharding",
    "benchmarks/nccl.py>train._over_ranks",
]
"""Measuring scripts that count what happens inside; no room and no test is on this list."""


@cache
def imports(path: Path) -> tuple[str, ...]:
    """All that a file imports of labelset, in functions and for type checkers as well."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "labelset":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == "labelset")


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def room_of(path: Path, root: Path) -> str:
    return path.relative_to(root).parts[0].removesuffix(".py")


def private(module: str) -> str | None:
    """The private module that an import opens, or whose private name it takes."""
    steps = module.split(".")[1:]
    hidden = (i for i, step in enumerate(steps) if step[0] == "_" and step[1] != "_")
    return next((".".join(steps[: i + 1]) for i in hidden), None)


def test_imports_point_one_way():
    files = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"]
    new = {room_of(path, PACKAGE) for path in files} - {*ORDER}
    assert not new, f"give the new rooms a place in ORDER: {new}"
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for path in files
        for module in imports(path)
        if room(module) in ORDER and ORDER.index(room(module)) > ORDER.index(room_of(path, PACKAGE))
    ]
    assert not wrong, "\n".join(wrong)


def test_no_room_opens_a_private_module_of_another():
    found = {
        f"{room_of(path, PACKAGE)}>{opened}": path
        for path in PACKAGE.rglob("*.py")
        for module in imports(path)
        if (opened := private(module)) and room(module) != room_of(path, PACKAGE)
    }
    for folder in ("studies", "benchmarks", "examples", "docs"):
        for path in (ROOT / folder).rglob("*.py"):
            opened = [private(module) for module in imports(path)]
            found |= {f"{folder}/{path.name}>{module}": path for module in opened if module}
    assert not {*MEASURING} - {*found}, "these are gone: take them off the list"
    new = {line: path for line, path in found.items() if line not in MEASURING}
    assert not new, f"import from the room's door, and export it there: {new}"


def test_tests_open_private_modules_of_their_own_room_alone():
    tests = Path(__file__).parent
    found = {
        f"tests/{room_of(path, tests)}>{opened}"
        for path in tests.rglob("*.py")
        for module in imports(path)
        if (opened := private(module)) and room(module) != room_of(path, tests)
    }
    assert not found, f"test through public names: {found}"


def bound(door: Path, package: str) -> Iterator[str]:
    """The names that a door binds, those of rooms inside it left out."""
    for node in ast.parse(door.read_bytes()).body:
        inside = dict(typed_imports(node))
        if isinstance(node, ast.ImportFrom):
            inside = {a.asname or a.name: (node.module, a.name) for a in node.names}
        yield from (name for name, (source, _) in inside.items() if source != package)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_no_file_has_the_name_of_something_its_door_offers():
    """Importing the file would put the module in the place of that thing."""
    wrong = []
    for door in PACKAGE.rglob("__init__.py"):
        package = ".".join(("labelset", *door.parent.relative_to(PACKAGE).parts))
        files = {path.stem for path in door.parent.iterdir() if path.suffix in ("", ".py")}
        wrong += [f"{package}.{name}" for name in bound(door, package) if name in files]
    assert not wrong


def test_what_a_door_says_to_offer_is_there_whatever_was_imported_before():
    code = (
        "import labelset as ls\n"
        "from labelset import losses, retrieve, data, metrics\n"
        "import labelset.linear, labelset.distributed.micro_batches, labelset.proofs\n"
        "for _ in range(2):\n"
        "    things = (ls.accumulate, ls.linear_loss, ls.verify, retrieve.rank, data.inspect,\n"
        "              data.load, metrics.reliability, losses.build)\n"
        "    assert all(callable(thing) for thing in things), things\n"
        "    assert all(getattr(ls, name) is not None for name in ls.__all__)\n"
        "assert {*ls.__all__} <= {*dir(ls)}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_core_needs_only_torch_and_numpy():
    heavy = (
        "scipy sklearn pandas matplotlib transformers torchmetrics lightning keras onnx "
        "onnxruntime jax hypothesis pytest highspy"
    )
    code = (
        "import sys, torch, numpy; before = set(sys.modules); import labelset as ls; "
        "[getattr(ls, name) for name in ls.__all__]; "
        "[room.catalog.classes for room in (ls.losses, ls.heads, ls.calibrate, ls.decide)]; "
        "import labelset.cli; labelset.cli.make_parser(); "
        f"print([m for m in {heavy.split()!r} if m in set(sys.modules) - before])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


MEANT_TWICE = {
    "Link": "the layer of Keras that is one",
    "SmoothMetric": "the layer of Keras that is one",
    "Step": "of a formula, and of a search for the strength",
    "Task": "what the loop trains, and what a comparison calls a candidate",
}
"""Public names of two classes each, and what they are."""


def test_one_class_name_has_one_meaning():
    places = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ClassDef) and node.name[0] != "_":
                places.setdefault(node.name, []).append(path.relative_to(PACKAGE).as_posix())
    several = {name: found for name, found in places.items() if len(found) > 1}
    assert several.keys() == MEANT_TWICE.keys(), several


def test_no_file_is_too_long_to_be_one_idea():
    long = {path: n for path in PACKAGE.rglob("*.py") if (n := path.read_text().count("\n")) > 700}
    assert not long


def test_files_that_are_tested_first_are_there():
    first = runpy.run_path(str(ROOT / "tests" / "conftest.py"))["LONG"]
    assert [name for name in first if not (ROOT / "tests" / name).is_file()] == []
