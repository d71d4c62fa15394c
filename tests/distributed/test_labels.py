"""What 4 and 2 ranks compute together, each with some labels, is what one process computes."""

import re
from pathlib import Path

import pytest
import torch

WORKER = Path(__file__).parent / "label_worker.py"
CHECKS = re.findall(r"\w+", re.search(r"^CHECKS = \((.*?)^\)", WORKER.read_text(), re.S | re.M)[1])


@pytest.fixture(scope="module")
def folder(left_by_ranks):
    """What each rank found wrong, by check, in files."""
    return left_by_ranks(WORKER)


def wrong(folder, ranks, check):
    each = [torch.load(folder / f"{ranks}-{rank}.pt")[check] for rank in range(ranks)]
    return [f"rank {rank}: {what}" for rank, found in enumerate(each) for what in found]


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("check", CHECKS)
def test_ranks_agree_with_one_process(folder, check, ranks):
    found = wrong(folder, ranks, check)
    assert not found, "\n".join(found[:10])


def test_one_process_goes_on_where_two_ranks_stopped(folder):
    assert not wrong(folder, 1, "resharded")
