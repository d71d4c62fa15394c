"""The examples of training loops run and learn."""

import runpy
import warnings
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
LEARNT = {  # what an example must reach at least, well above a guess
    "plain_pytorch": {"map@class": 0.8, "f1-macro": 0.7},
    "fabric": {"map@class": 0.8, "f1-macro": 0.7},
    "lightning_module": {"map@class": 0.8, "recall@3": 0.8},
    "hf_trainer": {"map@class": 0.9, "f1-micro": 0.8},
}
NEEDS = {"fabric": "lightning", "lightning_module": "lightning", "hf_trainer": "transformers"}


@pytest.mark.parametrize("name", LEARNT)
def test_it_learns(name, tmp_path, monkeypatch):
    pytest.importorskip(NEEDS.get(name, "torch"))
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        # of few workers, and of packages that these packages import
        for module in ("lightning", "torch", "litlogger"):
            warnings.filterwarnings("ignore", module=rf"{module}.*")
        found = runpy.run_path(str(FOLDER / f"{name}.py"))["main"]()
    for metric, least in LEARNT[name].items():
        assert least < found[metric] <= 1, found
