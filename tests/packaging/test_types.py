"""Type hints hold in a user's project: mypy accepts right use, strictly, and rejects wrong use."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import labelset as ls

ROOT = Path(__file__).parents[2]
USER = Path(__file__).with_name("typed_user.py")
WRONG = """import labelset as ls
number: int = ls.losses.build("spa")
ls.Labels.from_lists([[0]])
ls.metrics.build("f1-micro")(ls.Labels.from_lists([[0]], n=1), [[1]]).sort()
"""
pytest.importorskip("mypy")


@pytest.mark.slow
def test_mypy_strict_in_a_users_project(tmp_path):
    # with the settings of `make test`, which are strict: its cache makes this quick
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    command = [sys.executable, "-m", "mypy", str(USER), str(wrong)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    errors = re.findall(r"^(.*?):(\d+): error", done.stdout, flags=re.M)
    assert [(Path(path).name, int(line)) for path, line in errors] == [
        ("wrong.py", 2),
        ("wrong.py", 3),
        ("wrong.py", 4),
    ], done.stdout


def test_the_script_uses_every_public_name_of_the_core():
    text = USER.read_text()
    unused = [name for name in ls.__all__ if not re.search(rf"\bls\.{name}\b", text)]
    assert unused == ["linear_sgd_step"]  # of the same shape as linear_loss


def test_what_is_typed_runs():
    spec = importlib.util.spec_from_file_location("typed_user", USER)
    user = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(user)
    g = torch.Generator().manual_seed(0)
    found = user.core(
        torch.randn(4, 3, generator=g), torch.randn(4, 6, generator=g), [[0], [1, 2], [0, 2], [1]]
    )
    assert 0 <= found["f1"] <= 1
    assert found["kept"] > 0
