"""Names, hyperparameters, defaults; errors that offer the nearest; a loss as one file."""

import importlib
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import labelset
from labelset import losses
from labelset.catalog import Entry, hyperparameters

DOCS = Path(__file__).parents[1] / "docs"

SPA = {"zeta_pos": 1, "k_pos": 1, "b_pos": 0, "zeta_neg": 5, "k_neg": 3, "b_neg": 1}
PROMISED = {
    "bce": {"pos_weight": 1, "neg_weight": 1, "smoothing": 0},
    "wan": {},
    "focal": {"gamma": 2, "alpha_pos": 1, "alpha_neg": 1},
    "asl": {"gamma_pos": 0, "gamma_neg": 4, "margin": 0.05, "detach_weight": False},
    "focal-margin": {"gamma": 2, "margin": 1},
    "mse": {},
    "squared-hinge": {"margin": 1},
    "hill": {"lam": 1.5, "margin": 1, "gamma": 2},
    "splc": {"base": "focal-margin", "tau": 0.6, "start_epoch": 1},
    "spa": SPA,
    "lpr": {"of": "bce"},
    "spa+lpr": {**SPA, "lam": 1},
    "two-way": {"temperature": 4, "temperature_neg": 1, "way": "both"},
    "softmax": {"way": "sample"},
    "multi-similarity": {"temperature": 1, "way": "sample"},
    "sigmoid-f1": {"beta": 1, "eta": 0, "average": "macro"},
    "unbounded-f1": {"average": "macro"},
    "smooth": {"metric": "f1", "beta": 1, "eta": 0, "average": "macro"},
}


def test_the_promised_names():
    assert {*PROMISED, "mix"} <= set(losses.names())


@pytest.mark.parametrize("name", PROMISED)
def test_the_promised_defaults(name):
    known = hyperparameters(losses.catalog.get(name))
    assert {key: known[key].default for key in PROMISED[name]} == PROMISED[name]
    assert known["reduction"].default == "mean"
    built = losses.build(name, **PROMISED[name])
    v, y = torch.randn(5, 4), torch.rand(5, 4) < 0.4
    torch.testing.assert_close(built(v, y), losses.build(name)(v, y))


WRONG = {
    "did you mean 'focal'": ("focl", {}),
    "no loss is called 'xyzzy'": ("xyzzy", {}),
    "no loss is called 3": (3, {}),
    "did you mean 'gamma_neg'": ("asl", {"gama_neg": 2}),
    "has no hyperparameter 'gamma'": ("spa", {"gamma": 2}),
    "needs pos and neg": ("mix", {}),
    "needs neg": ("mix", {"pos": "bce"}),
    "gamma must be a finite number in .0, inf.": ("focal", {"gamma": -1}),
    "gamma must be a number, got str": ("focal", {"gamma": "2"}),
    "gamma must be a number, got bool": ("focal", {"gamma": True}),
    "gamma must be a finite number": ("focal", {"gamma": float("nan")}),
    "margin must be a finite number in .0, 1.": ("asl", {"margin": 1.0}),
    "detach_weight must be True or False": ("asl", {"detach_weight": 1}),
    "smoothing must be": ("bce", {"smoothing": 1.0}),
    "pos_weight must be a finite number in .0, inf.": ("bce", {"pos_weight": 0}),
    "every entry of pos_weight must be finite and above 0, got -1": (
        "bce",
        {"pos_weight": [1.0, -1.0]},
    ),
    "pos_weight must be a number or one number per label": ("bce", {"pos_weight": [[1.0]]}),
    "neg_weight must be a number or one number per label": ("bce", {"neg_weight": "heavy"}),
    "k_neg must be": ("spa", {"k_neg": 0}),
    "b_pos must be": ("spa", {"b_pos": float("inf")}),
    "lam must be": ("spa+lpr", {"lam": -1}),
    "tau must be": ("splc", {"tau": 0}),
    "start_epoch must be a whole number": ("splc", {"start_epoch": 1.5}),
    "temperature must be": ("two-way", {"temperature": 0}),
    "way must be one of 'both'": ("two-way", {"way": "rows"}),
    "way must be one of 'sample'": ("softmax", {"way": "joint"}),
    "has no meaning for way": ("two-way", {"reduction": "none"}),
    "beta must be": ("sigmoid-f1", {"beta": -9}),
    "average must be one of": ("sigmoid-f1", {"average": "binary"}),
    "metric must be one of": ("smooth", {"metric": "f2"}),
    "reduction must be one of 'mean', 'sum', 'none'": ("bce", {"reduction": "avg"}),
    "reduction must be one of 'mean', 'sum'": ("spa+lpr", {"reduction": "none"}),
    "no loss is called 'bces'": ("splc", {"base": "bces"}),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_names_and_hyperparameters(message):
    name, given = WRONG[message]
    with pytest.raises((ValueError, TypeError), match=message):
        losses.build(name, **given)


def test_every_hyperparameter_is_documented():
    for name in losses.names():
        cls = losses.catalog.get(name)
        assert ">>>" in inspect.getdoc(cls), f"{name} has no example"
        for key, known in hyperparameters(cls).items():
            assert known.doc, f"{name}: {key} has no meaning"


ROOMS = ("losses", "heads", "calibrate", "decide", "metrics", "encode", "data.builtin")
CATALOGUES = [importlib.import_module(f"labelset.{room}").catalog for room in ROOMS]


@pytest.mark.parametrize("catalogue", CATALOGUES, ids=ROOMS)
def test_what_is_read_without_importing_is_what_is_imported(catalogue, monkeypatch):
    base = getattr(importlib.import_module(catalogue.package), catalogue.base)
    for name, entry in catalogue.entries.items():
        cls = catalogue.get(name)
        assert issubclass(cls, base)
        assert catalogue.name_of(cls) == name
        assert entry.doc == inspect.getdoc(cls)
        known = hyperparameters(cls)
        with monkeypatch.context() as patched:
            patched.setattr(Entry, "load", None)  # nothing is imported where all is literal
            assert list(entry.hyperparameters.items()) == list(known.items())
        if hasattr(cls, "proper"):
            assert entry.attribute("proper") == cls.proper
            assert entry.attribute("reductions") == cls.reductions


def test_a_catalogue_offers_all_classes_of_its_files():
    found = {
        cls
        for catalogue in CATALOGUES
        for stem in {entry.lineage[0].module for entry in catalogue.entries.values()}
        for cls in vars(importlib.import_module(stem)).values()
        if inspect.isclass(cls) and cls.__module__ == stem and not cls.__name__.startswith("_")
        if issubclass(cls, getattr(importlib.import_module(catalogue.package), catalogue.base))
    }
    assert found == {cls for catalogue in CATALOGUES for cls in catalogue.classes.values()}


NEW_LOSS = '''
"""A loss added by a user."""
from dataclasses import dataclass
from torch import Tensor
from torch.nn.functional import logsigmoid
from labelset.catalog import hyper
from labelset.losses import Separable

@dataclass(frozen=True, kw_only=True)
class Tilted(Separable):
    """Cross-entropy with tilted negatives.

        neg(v) = tilt softplus(v)

    >>> 1 + 1
    2
    """
    tilt: float = hyper(2.0, "weight of negatives")
    proper = True

    def pos(self, v: Tensor) -> Tensor:
        return -logsigmoid(v)

    def neg(self, v: Tensor) -> Tensor:
        return -self.tilt * logsigmoid(-v)
'''
USE = """
import labelset as ls
from labelset.cli import main
from make_pages import files
from labelset.testing import check_loss
loss = ls.losses.build("my-tilted", tilt=3.0)
check_loss(loss)
made = files()
assert "weight of negatives" in made["losses/my-tilted.md"]
assert "my-tilted" in made["losses/README.md"]
assert "losses/my-tilted.svg" in made
assert main(["list", "my-tilted"]) == 0
"""


@pytest.mark.slow
def test_a_loss_is_a_one_file_change(tmp_path):
    package = Path(labelset.__file__).parent
    shutil.copytree(package, tmp_path / "labelset", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "labelset" / "losses" / "my_tilted.py").write_text(NEW_LOSS)
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{DOCS}"}
    run = subprocess.run([sys.executable, "-c", USE], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "tilted negatives" in run.stdout


def test_a_file_without_its_loss_says_so(tmp_path):
    package = tmp_path / "odd_losses"
    package.mkdir()
    (package / "__init__.py").write_text("from labelset.losses import Loss")
    (package / "nothing.py").write_text("x = 1")
    sys.path.insert(0, str(tmp_path))
    try:
        catalogue = labelset.catalog.Catalog("odd_losses", "Loss", "loss")
        with pytest.raises(TypeError, match="must define one Loss"):
            catalogue.names()
    finally:
        sys.path.remove(str(tmp_path))
