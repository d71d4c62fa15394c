"""What 2 and 4 ranks compute together is what one process with all rows computes."""

import re
from pathlib import Path

import pytest
import torch

WORKER = Path(__file__).parent / "worker.py"
CHECKS = re.findall(r"\w+", re.search(r"^CHECKS = \((.*?)^\)", WORKER.read_text(), re.S | re.M)[1])


@pytest.fixture(scope="module")
def folder(left_by_ranks):
    """What each rank found wrong, by check, in files."""
    return left_by_ranks(WORKER)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("check", CHECKS)
def test_ranks_agree_with_one_process(folder, check, ranks):
    found = [torch.load(folder / f"{ranks}-{rank}.pt")[check] for rank in range(ranks)]
    wrong = [f"rank {rank}: {what}" for rank, each in enumerate(found) for what in each]
    assert not wrong, "\n".join(wrong[:10])
