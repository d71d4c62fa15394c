"""A rank that is killed or hangs ends the others, in time and in words."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import distributed

from labelset.distributed import RankLost, global_batch
from labelset.ranks import in_words

PATIENCE = 3.0  # seconds that ranks wait for each other


def work(folder, **where):
    """Add up losses for ever; the file named by the rank says why it ended."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", timeout=timedelta(seconds=PATIENCE), **where)
    loss, v, mine = global_batch("sigmoid-f1"), torch.randn(8, 3), distributed.get_rank()
    try:
        while True:
            loss(v, v > 0)
            (Path(folder) / f"{mine}.pid").write_text(f"{os.getpid()}.")
            time.sleep(0.01)
    except Exception as error:
        (Path(folder) / str(mine)).write_text(f"{type(error).__name__}: {error}")
        os._exit(3)


def pids(folder, ranks):
    """Of the ranks, once all are at work."""
    until, files = time.monotonic() + 120, [folder / f"{rank}.pid" for rank in range(ranks)]
    while not all(file.exists() and file.read_text().endswith(".") for file in files):
        assert time.monotonic() < until
        time.sleep(0.02)
    return [int(file.read_text()[:-1]) for file in files]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_others_say_that_a_rank_is_lost(tmp_path, number):
    start = multiprocessing.get_context("fork").Process
    where = {"init_method": f"file://{tmp_path}/meet", "world_size": 3}
    ranks = [
        start(target=work, args=(tmp_path,), kwargs={**where, "rank": rank}) for rank in range(3)
    ]
    for rank in ranks:
        rank.start()
    lost = pids(tmp_path, 3)[1]
    began = time.monotonic()
    os.kill(lost, number)
    try:
        for rank in (0, 2):
            ranks[rank].join(60)
            assert ranks[rank].exitcode == 3
            said = (tmp_path / str(rank)).read_text()
            assert said.startswith(f"RankLost: rank {rank} waits for the others in vain")
            assert "init_process_group(timeout=...)" in said
        assert time.monotonic() - began < PATIENCE + 20  # which leaves a busy machine some time
    finally:
        for rank in ranks:
            rank.kill()
            rank.join()


@pytest.mark.slow
def test_torchrun_ends_the_others(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", __file__, str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    job = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    both = pids(tmp_path, 2)
    os.kill(both[1], signal.SIGKILL)
    said = job.communicate(timeout=60)[1]
    assert job.returncode != 0
    assert "Signal 9 (SIGKILL) received" in said
    assert not any(os.path.exists(f"/proc/{pid}") for pid in both)


def meet_one_who_dies(folder, rank):
    where = {"init_method": f"file://{folder}/meet", "world_size": 2, "rank": rank}
    distributed.init_process_group("gloo", timeout=timedelta(seconds=60), **where)
    distributed.barrier()
    if rank == 1:
        os._exit(9)
    try:
        distributed.barrier()
    except RuntimeError as error:
        (Path(folder) / "said").write_text(f"{type(error).__name__} {in_words(error)}")
    os._exit(0)


def test_other_calls_of_torch_are_put_in_words_too(tmp_path):
    start = multiprocessing.get_context("fork").Process
    both = [start(target=meet_one_who_dies, args=(tmp_path, rank)) for rank in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(60)
    said = (tmp_path / "said").read_text()
    assert said.startswith("RuntimeError rank 0 waits for the others in vain")
    for other in (ValueError("gloo/transport"), RuntimeError("sizes differ"), RankLost("gone")):
        assert in_words(other) is other


if __name__ == "__main__":
    work(sys.argv[1])
