"""Without its C extensions the package says so, once, in one line, and works all the same."""

import json
import subprocess
import sys

import pytest

from labelset.extensions import EXTENSIONS, is_built

WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({[*EXTENSIONS.values()]}))\n"  # not there
JOBS = {
    "losses": "ls.losses.build('bce')(torch.zeros(2, 3), torch.ones(2, 3))",
    "metrics": "ls.metrics.build('map@class')(torch.eye(3), torch.eye(3, dtype=torch.bool))",
    "proofs": "ls.verify(torch.eye(3), torch.eye(3, dtype=torch.bool))",
    "solve": (
        "from labelset.train.solve import Problem, solve\n"
        "x = ls.data.SparseRows.from_csr([0, 1, 2], [0, 1], width=2)\n"
        "y = ls.Labels.from_dense(torch.eye(2))\n"
        "solve(x, y, torch.tensor([0, 1]), [Problem(ls.losses.build('squared-hinge'))])"
    ),
    "texts": "from labelset import encode; encode.build('tfidf').fit("
    "ls.data.Dataset.from_arrays(labels=[[1]], texts=['a']))",
}


def ran(code, *flags):
    command = [sys.executable, *flags, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True)


OTHERS = [pytest.param(what, marks=pytest.mark.slow) for what in JOBS if what != "losses"]


@pytest.mark.parametrize("what", ["losses", *OTHERS])
def test_a_missing_extension_is_told_once_in_one_line(what):
    job = f"import torch, labelset as ls\n{JOBS[what]}\n"
    told = ran(WITHOUT + job + JOBS[what]).stderr.splitlines()
    assert len(told) == 1
    assert "SlowWarning" in told[0]
    assert "install a C compiler" in told[0]
    assert what in told[0]


@pytest.mark.slow
def test_what_is_not_slower_says_nothing():
    job = "import torch, labelset as ls; loss = ls.losses.build('bce')\n"
    wide = "loss(torch.zeros(2, 3, dtype=torch.float64), torch.ones(2, 3))\n"  # has no kernel
    assert ran(WITHOUT + job + wide + "ls.losses.names()").stderr == ""


@pytest.mark.slow
def test_it_can_be_silenced():
    assert ran(WITHOUT + "import torch, labelset as ls\n" + JOBS["losses"], "-Wignore").stderr == ""


def test_every_extension_is_built_here():
    assert [what for what in EXTENSIONS if not is_built(what)] == []
    job = "import torch, labelset as ls\n" + "\n".join(JOBS.values())
    assert ran(job).stderr == ""


def test_what_is_in_use_is_named():
    job = "from labelset.cli import doctor; import json; print(json.dumps(doctor._in_use()))"
    fast = {"losses": "C loops", "metrics": "C", "proofs": "C", "solve": "C", "texts": "C"}
    assert json.loads(ran(job).stdout) == fast
    assert json.loads(ran(WITHOUT + job).stdout) == {
        "losses": "plain formulas in torch",
        "metrics": "torch (slow)",
        "proofs": "numpy (slow)",
        "solve": "torch (slow)",
        "texts": "Python (slow)",
    }
