"""Several ranks train what one process trains: weights and scores agree to rounding."""

import json
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("ranks_worker.py")
FEW = {
    *("loss two-way", "batches smaller than the ranks", "fsdp"),
    *("dropout", "dropout fsdp", "dropout and ranks without rows", "dropout resumed"),
}


@pytest.fixture(scope="module")
def found_by(left_by_ranks):
    """What each rank found, by how many there were."""
    folder = left_by_ranks(WORKER)

    def read(ranks):
        files = [folder / f"{ranks}-{rank}.json" for rank in range(ranks)]
        return [json.loads(file.read_text()) for file in files]

    return read


@pytest.fixture(scope="module")
def two(found_by):
    return found_by(2)


@pytest.mark.slow
def test_two_ranks_find_it_of_one_loss_and_with_dropout(left_by_ranks):
    folder = left_by_ranks(WORKER, checks=("loss two-way", "dropout"))
    for rank in range(2):
        apart = json.loads((folder / f"2-{rank}.json").read_text())
        assert len(apart) == 2
        assert max(apart.values()) < 1e-5, apart


@pytest.mark.slow
def test_two_ranks_find_what_one_process_finds(two):
    assert len(two) == 2
    for found in two:
        others = ("refused", "diverged", "drawn by rank", "conv float32")
        apart = {name: far for name, far in found.items() if name not in others}
        assert len(apart) == 25
        assert max(apart.values()) < 1e-5, apart


@pytest.mark.slow
def test_what_networks_amplify_is_rounding_alone(two):
    for found in two:
        assert found["conv float64"] < 1e-6
        assert found["fsdp conv float64"] < 1e-6
        assert found["conv float32"] > 30 * found["conv float64"]  # the same steps, else


@pytest.mark.slow
def test_what_ranks_draw_unlike_ends_with_the_step(two):
    assert all(found["resumed where ranks draw unlike"] == 0 for found in two)


@pytest.mark.slow
def test_drawing_for_their_own_rows_only_would_be_another_training(two):
    assert all(found["drawn by rank"] > 1e-3 for found in two)


@pytest.mark.slow
@pytest.mark.parametrize("check", ["refused", "diverged"])
def test_ranks_fail_together(two, check):
    assert all(found[check] for found in two)


@pytest.mark.slow
def test_four_ranks_find_the_same(found_by):
    for found in found_by(4):
        assert set(found) == FEW
        assert max(found.values()) < 1e-5, found
