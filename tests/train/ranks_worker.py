"""Trains on several ranks what one process trains alone, and says how far the two are apart.

Two ranks go through every check, four through some; each is named in the file they leave. The
ranks are forked, so that torch, and what its optimisers need, is imported once.
"""

import gc
import json
import sys
import tempfile
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
import torch._dynamo
from torch import distributed, nn
from torch.multiprocessing import start_processes
from torch.nn import functional as F

from labelset import train as tr
from labelset.data import Dataset
from labelset.ranks import Ranks
from labelset.train import _state
from labelset.train._checkpoint import read_state

warnings.simplefilter("error")
ROWS = 301  # so that ranks have unequal shares
SETTINGS = tr.Settings(loss="sigmoid-f1", epochs=2, ema=0.9, batch=64, seed=5)


def dataset(kind="dense"):
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 8, generator=rng)
    y = x[:, :5] + 0.5 * torch.randn(ROWS, 5, generator=rng) > 0.5
    split = torch.arange(ROWS) % 3
    if kind == "sparse":
        from scipy.sparse import csr_matrix

        x = csr_matrix((x * (x > 0)).numpy())
    if kind == "images":
        x = x.repeat(1, 8).view(ROWS, 1, 8, 8) + torch.randn(ROWS, 1, 8, 8, generator=rng) / 9
        return Dataset.from_arrays(images=x, labels=y, split=split)
    return Dataset.from_arrays(x, y, split=split)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU())
        self.last = nn.Linear(16, 8)
        self.spare = nn.Linear(2, 2)  # of no use: one process leaves it as it is

    def forward(self, x):
        return self.last(self.blocks(x))


class Dropping(nn.Module):
    """Drops in its own way, by a function, within attention, and adds noise."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 8)
        self.drop = nn.Sequential(nn.Dropout(0.3), nn.AlphaDropout(0.1))
        self.stop_at = None  # the step at which a process ends

    def forward(self, x):
        if self.training and self.stop_at is not None:
            self.stop_at -= 1
            if not self.stop_at:
                raise Killed
        h = F.dropout(self.drop(self.first(x).tanh()), 0.2, self.training)
        if self.training:
            h = h + 0.1 * torch.randn(len(h), 1) * torch.rand(())
        s = h.view(-1, 4, 4)
        h = F.scaled_dot_product_attention(s, s, s, dropout_p=0.2 if self.training else 0.0)
        return self.last(h.flatten(1))


class Skipping(Dropping):
    """Draws one number for all rows as well, in a size that one row alone would have."""

    def forward(self, x):
        keep = torch.empty(1, 1).bernoulli_() if self.training else 0.5
        return keep * super().forward(x)


def dropping(stop_at=None, kind=Dropping):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        net = kind()
    net.stop_at = stop_at
    return net


def network():
    """Not the same on every rank: the first one's weights count."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3 + Ranks.running().rank)
        return Network()


def apart(one, two):
    """The largest difference of weights and scores."""
    pairs = [(one.scores[part], two.scores[part]) for part in one.scores]
    mine, theirs = (
        {**t.head.state_dict(), **(t.encoder.module.state_dict() if t.encoder.module else {})}
        for t in (one, two)
    )
    assert mine.keys() == theirs.keys()
    pairs += [(mine[name].float(), theirs[name].float()) for name in mine]
    assert one.best_epoch == two.best_epoch
    assert one.stopped == two.stopped
    return max(float((a - b).abs().max()) for a, b in pairs if a.numel())


class Killed(Exception):
    """Stands for whatever ends a process."""


def killed_at(epoch):
    def stop(news):
        if news.epoch_over and news.epoch == epoch:
            raise Killed

    return stop


def alone_on_first(data, settings, encoder=None):
    """What one process finds, on every rank."""
    ranks = Ranks.running()
    return ranks.once(lambda: tr.train(data, settings, encoder=encoder, parallel="alone"))


def both(how="ddp", data=None, encoder=None, **changes):
    data = dataset() if data is None else data
    settings = replace(SETTINGS, **changes)
    alone = alone_on_first(data, settings, encoder)
    return apart(alone, tr.train(data, settings, encoder=encoder, parallel=how))


def resumed(how, encoder=None):
    """Ends after the first epoch; then one process goes on, then all ranks do."""
    data, ranks = dataset(), Ranks.running()
    whole = alone_on_first(data, SETTINGS, encoder)
    folder = Path(ranks.once(tempfile.mkdtemp))
    found, where = [], {"encoder": encoder, "save_seconds": 0}
    for later in ("alone", how):
        try:
            tr.train(data, SETTINGS, folder, progress=killed_at(0), parallel=how, **where)
        except Killed:
            ranks.wait()
        if later == how:
            got = tr.train(data, SETTINGS, folder, resume=True, parallel=how, **where)
        elif ranks.first:
            got = tr.train(data, SETTINGS, folder, resume=True, parallel="alone", **where)
        found.append(apart(whole, got if later == how or ranks.first else whole))
        ranks.wait()
    return max(found)


def patience():
    """All stop at the same epoch, by what the first one measured."""
    data = dataset()
    noise = data.labels[torch.randperm(ROWS, generator=torch.Generator().manual_seed(1))]
    changes = {"patience": 2, "epochs": 30, "lr": 0.3, "ema": 0.0, "loss": "bce"}
    return both(data=replace(data, labels=noise), **changes)


def float64_conv(how):
    """What float32 makes of rounding in so many steps is left out."""
    wide = {"precision": "float64", "epochs": 8, "batch": 16, "loss": "bce"}
    return both(how, data=dataset("images"), ema=0.0, **wide)


def dropout_resumed(how):
    """Killed within an epoch; then one process goes on, then all ranks do."""
    data, ranks, found = dataset(), Ranks.running(), []
    settings = replace(SETTINGS, batch=16)
    whole = alone_on_first(data, settings, dropping())
    for later in ("alone", how):
        folder = Path(ranks.once(tempfile.mkdtemp))
        where = {"folder": folder, "save_seconds": 0}
        with pytest.raises(Killed):
            tr.train(data, settings, encoder=dropping(5), parallel=how, **where)
        ranks.wait()
        if later == how or ranks.first:
            again = {"encoder": dropping(), "resume": True, "parallel": later}
            found.append(apart(whole, tr.train(data, settings, **where, **again)))
        ranks.wait()
    return max(found)


def unlike_resumed():
    """Ranks with two rows and with one draw other numbers, and yet go on as if undisturbed."""
    data, ranks = dataset(), Ranks.running()
    settings, folder = replace(SETTINGS, batch=3), Path(ranks.once(tempfile.mkdtemp))
    whole = tr.train(data, settings, encoder=dropping(kind=Skipping))
    where = {"folder": folder, "save_seconds": 0}
    with pytest.raises(Killed):
        tr.train(data, settings, encoder=dropping(9, Skipping), **where)
    ranks.wait()
    again = tr.train(data, settings, encoder=dropping(kind=Skipping), resume=True, **where)
    return apart(whole, again)


def drawn_by_rank():
    """Not a check of the package: ranks that draw for their own rows train something else."""
    plain = _state.global_rng
    _state.global_rng = lambda ranks, rows: _state.nullcontext()
    try:
        return both(encoder=dropping())
    finally:
        _state.global_rng = plain


def diverged():
    """Weights that a step makes infinite stop all ranks alike, also where the first one saves."""
    folder = Path(Ranks.running().once(tempfile.mkdtemp))
    settings = replace(SETTINGS, loss="bce", lr=1e38, weight_decay=0.1)
    for how in ("ddp", "fsdp"):
        encoder = network() if how == "fsdp" else None
        with pytest.raises(tr.Diverged, match=r"weights became infinite .* in epoch 1"):
            tr.train(dataset(), settings, folder, encoder=encoder, save_seconds=0, parallel=how)
    held = [read_state(path)["state"]["model"] for path in folder.glob("checkpoint*")]
    return all(bool(t.isfinite().all()) for weights in held for t in weights.values())


def refused():
    from labelset.losses import Loss

    class Own(Loss):
        def terms(self, logits, labels):
            return logits.square(), None

    for how, settings, words in (
        ("ddp", replace(SETTINGS, loss=Own()), "Separable"),
        ("fsdp", SETTINGS, "take ddp"),  # there is no encoder to cut
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            tr.train(dataset(), settings, parallel=how)
    return True


CHECKS = {
    **{f"loss {name}": partial(both, loss=name) for name in ("bce", "two-way", "lpr")},
    **{f"optimiser {name}": partial(both, optimiser=name) for name in ("adamw", "sgd")},
    "confusion": both,
    "sparse": lambda: both(data=dataset("sparse")),
    "dft": partial(both, head="dft", head_settings={"k": 2}),
    "batches smaller than the ranks": partial(both, batch=3, epochs=1),
    "conv": lambda: both(data=dataset("images"), ema=0.0),
    "conv float64": lambda: float64_conv("ddp"),
    "fsdp conv float64": lambda: float64_conv("fsdp"),
    "own module": lambda: both(encoder=network()),
    "patience": patience,
    "fsdp": lambda: both("fsdp", encoder=network()),
    "fsdp sgd": lambda: both("fsdp", encoder=network(), optimiser="sgd", ema=0.0),
    "fsdp conv": lambda: both("fsdp", data=dataset("images")),
    "resumed": lambda: resumed("ddp"),
    "resumed fsdp": lambda: resumed("fsdp", network()),
    "dropout": lambda: both(encoder=dropping()),
    "dropout fsdp": lambda: both("fsdp", encoder=dropping()),
    "dropout and ranks without rows": lambda: both(encoder=dropping(), batch=3, epochs=1),
    "dropout resumed": lambda: dropout_resumed("ddp"),
    "dropout resumed fsdp": lambda: dropout_resumed("fsdp"),
    "resumed where ranks draw unlike": unlike_resumed,
    "drawn by rank": drawn_by_rank,
    "diverged": diverged,
    "conv float32": lambda: both(data=dataset("images"), ema=0.0, epochs=8, batch=16, loss="bce"),
    "refused": refused,
}


FEW = (
    *("loss two-way", "batches smaller than the ranks", "fsdp"),
    *("dropout", "dropout fsdp", "dropout and ranks without rows", "dropout resumed"),
)


def one_rank(rank, size, folder, checks):
    """What one of some ranks does."""
    store = f"file://{folder}/store{size}"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    found = {name: CHECKS[name]() for name in checks}
    Path(folder, f"{size}-{rank}.json").write_text(json.dumps(found))
    gc.collect()  # models that hold the group go first
    Ranks.running().wait()
    distributed.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    few = sys.argv[2:]
    for size, checks in ((2, few),) if few else ((2, [*CHECKS]), (4, FEW)):
        start_processes(one_rank, (size, sys.argv[1], checks), nprocs=size, start_method="fork")
