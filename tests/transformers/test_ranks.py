"""Two processes under torchrun, accumulating, train what one process with all rows trains."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="module")
def found(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", str(Path(small.__file__)), str(folder)]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


def test_ranks_train_as_one_process(small, found):
    for name, (loss, kind, unknown) in (small.RUNS | small.ONCE).items():
        weights, values = small.trained(kind, 12, 1, loss=loss, unknown=unknown)
        for rank in found:
            torch.testing.assert_close(rank[name][0], weights, rtol=1e-4, atol=1e-6, msg=name)
            assert rank[name][1] == pytest.approx(values, rel=1e-4), name


def test_ranks_evaluate_as_one_process(small, found):
    want = small.evaluated(per_device_eval_batch_size=6)
    for rank in found:
        assert rank["evaluated"] == pytest.approx(want, rel=1e-5)
