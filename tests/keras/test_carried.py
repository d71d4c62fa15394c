"""Keras gives the values, gradients and links of our own losses, on torch, JAX and TensorFlow."""

import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

FILE = Path(__file__).with_name("carried.py")
carried = SimpleNamespace(**run_path(str(FILE)))
CASES = dict(carried.cases())
V, Y = (torch.from_numpy(a) for a in carried.data())


def run_with(back_end, folder):
    """What a back end gives; a process can have only one."""
    asked = {"KERAS_BACKEND": back_end, "KERAS_HOME": str(folder), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(FILE), str(folder)]
    subprocess.run(command, env=os.environ | asked, check=True, timeout=500)
    with np.load(folder / "found.npz") as file:
        return dict(file)


def ours(loss, dtype):
    """Value and gradient by the eager formula."""
    v = V.clone().to(dtype).requires_grad_()
    value = loss.eager(v, Y)
    value.sum().backward()
    return value.detach().numpy(), v.grad.numpy()


def off(key, found):
    """What of a loss is not ours: beyond 1e-6, and beyond twice the error of float32 in torch."""
    kinds = zip(
        ("value", "gradient"),
        ours(CASES[key], torch.float64),
        ours(CASES[key], torch.float32),
        strict=True,
    )
    for what, due, eager in kinds:
        got = found[f"{what} {key}"]
        allowed = np.maximum(1e-6 * (1 + abs(due)), 2 * abs(eager - due).max())
        if got.shape != due.shape or not (abs(got - due) <= allowed).all():
            yield f"{what} of {key}: off by {abs(got - due).max()}"
    if found[f"gradient {key}"][Y.isnan().numpy()].any():
        yield f"gradient of {key} at an unknown label"
    if f"link {key}" in found:
        due = CASES[key].link(V.nan_to_num().double()).numpy()
        if not (abs(found[f"link {key}"] - due) <= 1e-6).all():
            yield f"link of {key}: off by {abs(found[f'link {key}'] - due).max()}"


@pytest.mark.slow
@pytest.mark.parametrize("back_end", ["torch", "jax", "tensorflow"])
def test_everything_is_ours(back_end, tmp_path):
    """Values, gradients and links, by one process each; and models are trained and saved."""
    if find_spec(back_end) is None:
        pytest.skip(f"{back_end} is not installed; pip install {back_end}")
    found = run_with(back_end, tmp_path)
    assert sum(key.startswith("link") for key in found) > 15
    assert not [wrong for key in CASES for wrong in off(key, found)]
    for name in ("asl", "sigmoid-f1"):
        *epochs, again, before = found[f"fit {name}"]
        assert all(later < earlier for earlier, later in pairwise(epochs))
        assert again == pytest.approx(before)


def test_a_wrong_number_is_noticed():
    value, gradient = ours(CASES["asl 0"], torch.float64)
    right = {"value asl 0": value, "gradient asl 0": gradient}
    assert not list(off("asl 0", right))
    assert len(list(off("asl 0", {key: t + 1e-5 for key, t in right.items()}))) == 3
    assert list(off("asl 0", right | {"value asl 0": value * np.nan}))
