"""What 2 and 4 ranks compute together is what one process with all rows computes."""

from pathlib import Path

import pytest
import torch

WORKER = Path(__file__).parent / "worker.py"


@pytest.fixture(scope="module")
def folder(left_by_ranks):
    """What each rank found wrong, by check, in files."""
    return left_by_ranks(WORKER)


def wrong(folder, ranks):
    """What the checks of all ranks found, of which each rank must have made some."""
    results = [torch.load(folder / f"{ranks}-{rank}.pt") for rank in range(ranks)]
    assert all(results)
    return [
        f"{check} on rank {rank}: {what}"
        for rank, checks in enumerate(results)
        for check, found in checks.items()
        for what in found
    ]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_agree_with_one_process(folder, ranks):
    found = wrong(folder, ranks)
    assert not found, "\n".join(found[:10])


def test_two_ranks_agree_in_one_check(left_by_ranks):
    assert not wrong(left_by_ranks(WORKER, checks=["integer_labels"]), 2)
