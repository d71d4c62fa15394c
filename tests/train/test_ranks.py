"""Several ranks train what one process trains: weights and scores agree to rounding."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("ranks_worker.py")
FEW = ("loss two-way", "batches smaller than the ranks", "fsdp")
DROPOUT = ("dropout", "dropout fsdp", "dropout and ranks without rows", "dropout resumed")


def found_by(ranks, folder, *checks):
    out = folder / "found.json"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    command += ["--standalone", str(WORKER), str(out), *checks]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(out.read_text())


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return found_by(2, tmp_path_factory.mktemp("two"))


def test_two_ranks_find_what_one_process_finds(two):
    assert len(two) == 2
    for found in two:
        others = ("refused", "diverged", "drawn by rank", "conv float32")
        apart = {name: far for name, far in found.items() if name not in others}
        assert len(apart) == 25
        assert max(apart.values()) < 1e-5, apart


def test_what_networks_amplify_is_rounding_alone(two):
    for found in two:
        assert found["conv float64"] < 1e-6
        assert found["fsdp conv float64"] < 1e-6
        assert found["conv float32"] > 30 * found["conv float64"]  # the same steps, else


def test_what_ranks_draw_unlike_ends_with_the_step(two):
    assert all(found["resumed where ranks draw unlike"] == 0 for found in two)


def test_drawing_for_their_own_rows_only_would_be_another_training(two):
    assert all(found["drawn by rank"] > 1e-3 for found in two)


@pytest.mark.parametrize("check", ["refused", "diverged"])
def test_ranks_fail_together(two, check):
    assert all(found[check] for found in two)


def test_four_ranks_find_the_same(tmp_path):
    every = found_by(4, tmp_path, *FEW, *DROPOUT)
    assert len(every) == 4
    for found in every:
        assert set(found) == {*FEW, *DROPOUT}
        assert max(found.values()) < 1e-5, found
