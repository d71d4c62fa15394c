"""What 2 and 4 ranks compute together is what one process with all rows computes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

WORKER = Path(__file__).parent / "worker.py"
CHECKS = re.findall(r"\w+", re.search(r"^CHECKS = \((.*?)^\)", WORKER.read_text(), re.S | re.M)[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What each rank found wrong, by check, in files; all ranks are started by one process."""
    where = tmp_path_factory.mktemp("ranks")
    run = subprocess.run(
        [sys.executable, str(WORKER), str(where)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return where


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("check", CHECKS)
def test_ranks_agree_with_one_process(folder, check, ranks):
    found = [torch.load(folder / f"{ranks}-{rank}.pt")[check] for rank in range(ranks)]
    wrong = [f"rank {rank}: {what}" for rank, each in enumerate(found) for what in each]
    assert not wrong, "\n".join(wrong[:10])
