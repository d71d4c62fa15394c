"""The page and the example run."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def test_the_page_runs():
    page = (ROOT / "docs" / "sklearn.md").read_text()
    np.random.seed(0)  # the page shows no more random_state than a reader needs
    space = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.S):
        exec(compile(block, "docs/sklearn.md", "exec"), space)
    assert space["model"].predict_proba(space["X"]).shape == (600, 8)


@pytest.mark.slow
def test_the_example_runs():
    found = runpy.run_path(str(ROOT / "examples" / "sklearn_pipeline.py"))["main"]()
    ours, forest, tuned = found.values()
    assert ours > 0.9
    assert tuned > forest + 0.05
