"""The notebooks run from the first cell to the last, and hold what their cells show."""

import json
import runpy
import shutil
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPT = runpy.run_path(str(FOLDER / "notebooks.py"))
pytestmark = pytest.mark.slow
for package in ("matplotlib", "pandas", "transformers"):
    pytest.importorskip(package)


def kinds(notebook):
    """What each cell of code shows."""
    return [
        [output.get("name") or sorted(output["data"]) for output in cell["outputs"]]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def test_all_of_them_are_named():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == {*SCRIPT["NAMES"]}


@pytest.mark.parametrize("name", SCRIPT["NAMES"])
def test_a_notebook_runs_and_shows_what_it_holds(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    shutil.copy(FOLDER / "tickets.csv", tmp_path)
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    kept = kinds(json.loads(text))
    assert any("image/png" in shown for cell in kept for shown in cell)
    assert any("text/html" in shown for cell in kept for shown in cell)
    assert str(tmp_path) not in text
    assert kinds(SCRIPT["executed"](json.loads(text))) == kept
