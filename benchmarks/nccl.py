"""Every exchange between ranks, on tensors of a GPU: is the result that of one process?

    torchrun --nproc-per-node 1 benchmarks/nccl.py                     NCCL, one rank
    torchrun --nproc-per-node 2 benchmarks/nccl.py --backend gloo      two ranks that share a GPU
    torchrun --nproc-per-node 8 benchmarks/nccl.py                     NCCL, a GPU per rank
    torchrun --nproc-per-node 2 benchmarks/nccl.py --device cpu        gloo, no GPU

NCCL refuses two ranks on one GPU. A single rank has nobody to exchange with, and the package
leaves out what is not needed; here it is made to do it all the same. One line per check, `ok` or
`FAILED`; exit status 1 where one has failed. Give names, or parts of names, to run only those.
"""

import argparse
import gc
import io
import os
import sys
import tempfile
import traceback
from contextlib import redirect_stdout
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
from nccl_losses import (
    NARROW,
    ON,
    close,
    data_parallel,
    exchanges,
    head_and_loss,
    head_and_step,
    labels_over_ranks,
    metric_of_all_rows,
    rows_over_ranks,
    spread_dft,
    spread_head,
)
from torch import distributed, nn

from labelset import cli, losses
from labelset import train as tr
from labelset.data import Dataset
from labelset.distributed import (
    _global_batch,
    _over_labels,
    _sharding,
    collectives,
)
from labelset.model import SavedModel
from labelset.ranks import Ranks
from labelset.train._over_ranks import global_rng

LOSSES = [(n, e) for n in losses.names() for e in losses.catalog.get(n).examples]


class Several(int):
    """A number of ranks that is never taken for one, even where it is."""

    def __eq__(self, other):
        return other != 1 and int(self) == other

    def __gt__(self, other):
        return other == 1 or int(self) > other

    __hash__ = int.__hash__


def exchange_always():
    """Let one rank make every call that several would make."""
    plain = collectives.ranks
    for module in (_global_batch, _over_labels, _sharding, collectives):
        if hasattr(module, "ranks"):
            module.ranks = lambda group: Several(plain(group))
    size = Several(distributed.get_world_size())
    Ranks.running = classmethod(lambda cls: cls(distributed.get_rank(), size))


class Network(nn.Module):
    """Norms, dropout and attention."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU())
        self.drop, self.last = nn.Dropout(0.3), nn.Linear(16, 8)

    def forward(self, x):
        return self.last(self.drop(self.blocks(x)))


def dataset(images=False):
    """Features, or small pictures, that tell the labels."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(301, 8, generator=g)
    y, split = x[:, :5] + 0.5 * torch.randn(301, 5, generator=g) > 0.5, torch.arange(301) % 3
    if images:
        x = x.repeat(1, 8).view(301, 1, 8, 8) + torch.randn(301, 1, 8, 8, generator=g) / 9
        return Dataset.from_arrays(images=x, labels=y, split=split)
    return Dataset.from_arrays(x, y, split=split)


def training(how="ddp", encoder=None, images=False, tolerance=NARROW, **changes):
    """Scores of all parts after two epochs, and after an interrupted and resumed training."""
    given = {"loss": "sigmoid-f1", "epochs": 2, "ema": 0.9, "batch": 64, "seed": 5}
    settings = tr.Settings(**(given | changes), device=ON["device"])
    data = dataset(images)
    if encoder is not None:
        torch.manual_seed(3)
        encoder = encoder()
    alone = tr.train(data, settings, encoder=encoder, parallel="alone")
    found = tr.train(data, settings, encoder=encoder, parallel=how)
    folder = Ranks.running().once(tempfile.mkdtemp)
    some = {"encoder": encoder, "parallel": how, "save_seconds": 0}
    try:
        tr.train(data, settings, folder, progress=stop, **some)
    except InterruptedError:
        Ranks.running().wait()
    again = tr.train(data, settings, folder, resume=True, **some)
    for part, want in alone.scores.items():
        close(found.scores[part], want, tolerance, f"{part} scores")
        close(again.scores[part], want, tolerance, f"{part} scores, resumed")


def stop(news):
    """Stands for whatever ends a process after the first epoch."""
    if news.epoch_over:
        raise InterruptedError


def drawn():
    """What dropout drops of a row does not depend on the number of ranks."""
    x = torch.ones(23, 64, device=ON["device"])
    for net in (nn.Dropout(0.5), nn.AlphaDropout(0.2), nn.Dropout1d(0.4), torch.rand_like):
        torch.manual_seed(4)
        want = net(x)
        torch.manual_seed(4)
        ranks = Ranks.running()
        own = ranks.share(torch.arange(len(x)))
        with global_rng(ranks, len(x)):
            found = net(x[own])
        close(found, want[own], 0.0, str(net))


def from_the_command_line(how):
    """`labelset train`, by all ranks and by one process."""
    ranks, encoder = Ranks.running(), ["--encoder", "conv"]
    folder = Path(ranks.once(tempfile.mkdtemp))
    data = dataset(images=True)
    if ranks.first:
        np.savez(folder / "data.npz", X=data.images.numpy(), Y=data.labels.dense().numpy())
    ranks.wait()
    common = ["train", str(folder / "data.npz"), *encoder, "--epochs", "1", "--lr", "0.001"]
    common += ["--quiet", "--train", f"device={ON['device']}", "--out"]
    with redirect_stdout(io.StringIO()):
        status = cli.main([*common, str(folder / "all"), "--parallel", how])
        running, Ranks.running = Ranks.running, classmethod(lambda cls: cls())
        alone = cli.main([*common, str(folder / "one")]) if ranks.first else 0
        Ranks.running = running
    if status or alone:
        raise AssertionError(f"exit status {status} of the ranks, {alone} of one process")
    ranks.wait()
    one, two = (SavedModel.open(folder / name).splits["test"].scores for name in ("one", "all"))
    close(two, one, 1e-3, "test scores")


def checks():
    """Name -> what to call."""
    found = {"exchanges": (exchanges, (), {})}
    for name, example in LOSSES:
        about = f"{name} {example}" if example else name
        found[f"global_batch {about}"] = (rows_over_ranks, (name, example), {})
        found[f"ddp {about}"] = (data_parallel, (name, example), {})
        found[f"over_labels {about}"] = (labels_over_ranks, (name, example), {})
        if isinstance(losses.build(name, **example), losses.Separable):
            found[f"linear_loss {about}"] = (head_and_loss, (name, example), {})
            found[f"linear_sgd_step {about}"] = (head_and_step, (name, example), {})
    found["shard_labels"] = (spread_head, (), {})
    found["shard_labels dft"] = (spread_dft, (), {})
    found["metrics gather"] = (metric_of_all_rows, (), {})
    found["draws"] = (drawn, (), {})
    for loss in ("bce", "sigmoid-f1", "two-way", "lpr"):
        found[f"train ddp {loss}"] = (training, (), {"loss": loss})
    found["train ddp dft"] = (training, (), {"head": "dft", "head_settings": {"k": 2}})
    found["train ddp conv"] = (training, (), {"images": True, "epochs": 1, "tolerance": 1e-3})
    for how in ("ddp", "fsdp"):
        found[f"train {how} network"] = (training, (how, Network), {"tolerance": 1e-3})
        found[f"labelset train {how}"] = (from_the_command_line, (how,), {})
    return found


def passed(name, call, args, changes):
    """Whether it did; a line says so."""
    rank = distributed.get_rank()
    try:
        call(*args, **changes)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        what = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        print(f"FAILED {name}: rank {rank}: {what} ({where.name}:{where.lineno})", flush=True)
        return False
    if rank == 0:
        print(f"ok {name}", flush=True)
    return True


def main():
    """Join the others, check, and say how many checks have failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="run the checks with one of these in their name")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--backend", help="nccl on a GPU and gloo on a CPU; or cpu:gloo,cuda:nccl")
    args = parser.parse_args()
    ON["device"] = args.device
    if args.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    backend = args.backend or ("nccl" if args.device == "cuda" else "gloo")
    distributed.init_process_group(backend, timeout=timedelta(minutes=2))
    exchange_always()
    chosen = {
        name: check
        for name, check in checks().items()
        if not args.names or any(part in name for part in args.names)
    }
    failed = [name for name, check in chosen.items() if not passed(name, *check)]
    if distributed.get_rank() == 0:
        about = f"{distributed.get_world_size()} ranks, {backend}, {args.device}"
        print(f"{len(chosen) - len(failed)} of {len(chosen)} checks passed, {about}", flush=True)
    gc.collect()  # models that hold the group go first
    distributed.destroy_process_group()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
