"""Streams of several processes are one stream."""

import torch
import torch.multiprocessing
from torch import distributed

from labelset.metrics import build

NAMES = ("map@class", "map@sample", "auroc@class", "auroc-micro", "f1-macro", "ace", "ndcg@k")


def values(name, rows):
    g = torch.Generator().manual_seed(0)
    v, y = torch.randn(20, 5, generator=g), torch.rand(20, 5, generator=g) < 0.4
    stream = build(name).stream()
    given = {"scores": v, "probabilities": v.sigmoid(), "label sets": v > 0}[stream.metric.takes]
    if rows:
        stream.update(given[rows], y[rows])
    return stream


def work(rank, path):
    distributed.init_process_group("gloo", f"file://{path}/meet", rank=rank, world_size=3)
    parts = {0: list(range(7)), 1: list(range(7, 20)), 2: []}  # the last has seen nothing
    got = {name: values(name, parts[rank]).gather().compute() for name in NAMES}
    torch.save(got, f"{path}/{rank}.pt")
    distributed.destroy_process_group()


def test_gathered_streams_have_the_value_of_the_whole(tmp_path):
    start = torch.multiprocessing.start_processes
    start(work, (str(tmp_path),), nprocs=3, start_method="forkserver")
    for rank in range(3):
        got = torch.load(tmp_path / f"{rank}.pt")
        for name in NAMES:
            assert abs(got[name] - values(name, list(range(20))).compute()) < 1e-12
