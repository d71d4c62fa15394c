"""Several processes give what one gives."""

import os

import numpy as np
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


def work(rank, port, queue):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    distributed.init_process_group("gloo", rank=rank, world_size=RANKS)
    v = verify(*problem(), radius="box")
    v.check()
    queue.put((rank, v.status.tolist(), v.radius.tolist()))
    distributed.barrier()
    distributed.destroy_process_group()


def test_ranks_merge_into_one_result():
    context = mp.get_context("spawn")
    queue, port = context.SimpleQueue(), 29500 + os.getpid() % 2000
    workers = [context.Process(target=work, args=(r, port, queue)) for r in range(RANKS)]
    for worker in workers:
        worker.start()
    results = [queue.get() for _ in workers]
    for worker in workers:
        worker.join(60)
    want = verify(*problem(), radius="box")
    for _, status, radius in results:
        assert status == want.status.tolist()
        np.testing.assert_array_equal(radius, want.radius)
