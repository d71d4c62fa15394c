"""Several processes give what one gives."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch.multiprocessing as mp
from torch import distributed

from labelset.proofs import verify

RANKS = 3


def problem():
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((30, 4))
    sets = rng.random((25, 30)) < 0.5
    sets[:12] = rng.standard_normal((12, 4)) @ weight.T > 0
    return weight, sets


def work(rank, folder):
    store = f"file://{folder}/store"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=RANKS)
    v = verify(*problem(), radius="box")
    v.check()
    found = {"status": v.status.tolist(), "radius": v.radius.tolist()}
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    distributed.barrier()
    distributed.destroy_process_group()


@pytest.mark.slow
def test_ranks_merge_into_one_result(tmp_path):
    mp.start_processes(work, (str(tmp_path),), nprocs=RANKS, start_method="forkserver")
    want = verify(*problem(), radius="box")
    for rank in range(RANKS):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found["status"] == want.status.tolist()
        np.testing.assert_array_equal(found["radius"], want.radius)
