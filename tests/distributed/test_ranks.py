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


@pytest.fixture(scope="module", params=[2, 4])
def found(request, tmp_path_factory):
    """What each rank found wrong, by check; all checks share one torchrun."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(request.param), str(WORKER), str(folder)]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return [torch.load(folder / f"{rank}.pt") for rank in range(request.param)]


@pytest.mark.parametrize("check", CHECKS)
def test_ranks_agree_with_one_process(found, check):
    wrong = [f"rank {rank}: {what}" for rank, all_ in enumerate(found) for what in all_[check]]
    assert not wrong, "\n".join(wrong[:10])
