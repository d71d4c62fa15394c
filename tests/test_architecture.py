"""Imports point one way; the core is light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import labelset

PACKAGE = Path(labelset.__file__).parent
# each room may import from itself and from those before it
ORDER = [
    *("check", "_svg", "_csr", "labels", "catalog", "_given", "_fitted", "_atomic", "data"),
    *("kernels", "losses", "linear", "distributed", "micro_batches", "heads", "proofs"),
    *(
        "metrics",
        "calibrate",
        "decide",
        "retrieve",
        "meaning",
        "torchmetrics",
        "transformers",
        "encode",
    ),
    *(
        "artefact",
        "export",
        "keras",
        "doctor",
        "train",
        "compare",
        "tune",
        "report",
        "study",
        "sklearn",
        "bench",
    ),
    *("testing", "pages", "cli", "__main__"),
]
MODULES = sorted(PACKAGE.rglob("*.py"))


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imported(path: Path) -> set[str]:
    """The rooms of labelset that a file imports at its top."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("labelset"):
            names = [f"{node.module}.{a.name}" for a in node.names]
            found |= {room(n) for n in (names if node.module == "labelset" else [node.module])}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    here = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if here == "__init__":
        return
    assert here in ORDER, f"{here} is a new room: give it a place in ORDER"
    allowed = set(ORDER[: ORDER.index(here) + 1])
    assert imported(path) <= allowed


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_modules_stay_small(path):
    assert len(path.read_text().splitlines()) <= 300


def test_importing_the_core_needs_only_torch_and_numpy():
    heavy = (
        "scipy sklearn pandas matplotlib transformers torchmetrics lightning keras onnx "
        "onnxruntime jax hypothesis pytest highspy"
    )
    code = (
        "import sys, torch, numpy; before = set(sys.modules); import labelset; "
        "labelset.losses.names(); import labelset.cli; "
        f"print([m for m in {heavy.split()!r} if m in set(sys.modules) - before])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
