"""Without the extras the core works, and what needs one says which."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PAGE = (ROOT / "docs" / "extras.md").read_text()
FEATURES = [
    *("data digits", "data icons", "data yeast", "data pictures", "encode texts", "figures"),
    *("keras", "notebook", "onnx", "proofs", "sklearn", "torchmetrics", "transformers", "tune"),
    "yaml",
]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    script = Path(__file__).with_name("without_extras.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_core_works_without_any(said):
    assert said["verbs"] == "0"


@pytest.mark.parametrize("feature", FEATURES)
def test_what_needs_an_extra_names_it(said, feature):
    extra = feature.split()[0]
    assert re.search(rf"pip install ['\"]labelset\[{extra}\]['\"]", said[feature]), said[feature]
    assert extra in EXTRAS, f"pyproject.toml has no extra {extra!r}"
    assert said[feature].count("\n") == 0


def test_every_extra_of_the_code_is_in_the_project():
    code = "".join(p.read_text() for p in (ROOT / "src").rglob("*.py"))
    assert set(re.findall(r"labelset\[(\w+)\]", code)) <= set(EXTRAS)


def test_the_page_has_every_extra_and_its_range():
    for extra, needed in EXTRAS.items():
        if extra in ("test", "docs", "release"):
            continue
        (line,) = re.findall(rf"^\| `{extra}` \|.*$", PAGE, flags=re.M)
        for requirement in needed:
            if not requirement.startswith("labelset"):
                assert f"`{requirement}`" in line, (extra, requirement)
