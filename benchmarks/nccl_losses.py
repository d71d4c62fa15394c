"""Losses, heads and metrics over ranks against one process; `nccl.py` calls them."""

import copy
import tempfile

import torch
from torch import distributed, nn
from torch.distributed import checkpoint
from torch.nn.parallel import DistributedDataParallel

import labelset as ls
from labelset import Labels, losses, metrics
from labelset.distributed import (
    global_batch,
    linear_loss,
    linear_sgd_step,
    over_labels,
    shard_labels,
)
from labelset.ranks import Ranks

WIDE, NARROW = 1e-10, 1e-4  # tolerances of float64, and of float32 after some steps
ON = {"device": "cuda"}


def mine(n):
    """This rank's share of n rows or labels; shares grow with the rank."""
    rank, world = distributed.get_rank(), distributed.get_world_size()
    ends = [0, *(n * torch.arange(1, world + 1).cumsum(0) // (world * (world + 1) // 2)).tolist()]
    return slice(ends[rank], ends[rank + 1])


def batch(rows, labels, seed=0, dtype=torch.float64):
    """Scores, and labels of which some are unknown."""
    g = torch.Generator().manual_seed(seed)
    v = 2 * torch.randn(rows, labels, generator=g, dtype=torch.float64)
    y = (torch.rand(rows, labels, generator=g) < 1 / 3).double()
    y[torch.rand(rows, labels, generator=g) < 0.2] = torch.nan
    return v.to(ON["device"], dtype), y.to(ON["device"], dtype)


def close(got, want, tolerance, what):
    """An error where two tensors differ by more than rounding; NaN always does."""
    got, want = got.detach().double().cpu(), want.detach().double().cpu()
    if got.shape != want.shape:
        raise AssertionError(f"{what}: shape {tuple(got.shape)}, not {tuple(want.shape)}")
    far = ((got - want).abs() / (1 + want.abs())).max().item() if got.numel() else 0.0
    if not far <= tolerance:
        raise AssertionError(f"{what}: {far:.2e} apart")


def with_slope(call, v, *args):
    """Value and gradient."""
    v = v.clone().requires_grad_()
    value = call(v, *args)
    value.backward()
    return value, v.grad


def width(loss):
    """As many labels as the loss has numbers for."""
    return loss.per_label() or 7


def rows_over_ranks(name, example):
    """global_batch: dense labels and `Labels`, in float64, and the kernels in float32."""
    loss = losses.build(name, **example)
    for dtype, tolerance in ((torch.float64, WIDE), (torch.float32, NARROW)):
        v, y = batch(23, width(loss), dtype=dtype)
        want, slope = with_slope(loss, v, y)
        own = mine(len(v))
        for labels in (y[own], Labels.from_dense(y.cpu())[own].to(ON["device"])):
            got, found = with_slope(global_batch(loss), v[own], labels)
            close(got, want, tolerance, f"value in {dtype}")
            close(found, slope[own], tolerance, f"gradient in {dtype}")


def labels_over_ranks(name, example):
    """over_labels, of plain tensors."""
    loss = losses.build(name, **example)
    for dtype, tolerance in ((torch.float64, WIDE), (torch.float32, NARROW)):
        v, y = batch(9, width(loss), dtype=dtype)
        want, slope = with_slope(loss, v, y)
        own = mine(v.shape[1])
        got, found = with_slope(over_labels(loss), v[:, own], y)
        close(got, want, tolerance, f"value in {dtype}")
        close(found, slope[:, own], tolerance, f"gradient in {dtype}")


def data_parallel(name, example):
    """DistributedDataParallel leaves the gradients of one process; micro batches likewise."""
    loss = losses.build(name, **example)
    x, y = batch(22, 6)[0], batch(22, width(loss), seed=1)[1]
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, width(loss)))
    net = net.to(ON["device"]).double()
    value = loss(net(x), y)
    want = torch.autograd.grad(value, list(net.parameters()))
    own, parallel = mine(len(x)), DistributedDataParallel(net)
    micro = list(zip(x[own].split(5), y[own].split(5), strict=True))
    both = global_batch(loss, ddp=True)
    for how in ("one pass", "micro batches"):
        net.zero_grad()
        if how == "one pass":
            found = both(parallel(x[own]), y[own])
            found.backward()
        else:
            found = ls.accumulate(parallel, micro, both)
        close(found, value, WIDE, f"value, {how}")
        for p, slope in zip(net.parameters(), want, strict=True):
            close(p.grad, slope, WIDE, f"gradient, {how}")


def head_and_loss(name, example):
    """linear_loss with its weight spread."""
    loss = losses.build(name, **example)
    for dtype, tolerance in ((torch.float64, WIDE), (torch.float32, NARROW)):
        x, w = batch(9, 5, dtype=dtype)[0], batch(width(loss), 5, seed=1, dtype=dtype)[0]
        y, own = batch(9, width(loss), seed=2, dtype=dtype)[1], mine(width(loss))
        x, w, part = (t.clone().requires_grad_() for t in (x, w, w[own]))
        value = loss(x @ w.T, y)
        slopes = torch.autograd.grad(value, (x, w))
        found = linear_loss(x, part, y, loss)
        got = torch.autograd.grad(found, (x, part))
        close(found, value, tolerance, f"value in {dtype}")
        close(got[0], slopes[0], tolerance, f"gradient of features in {dtype}")
        close(got[1], slopes[1][own], tolerance, f"gradient of weights in {dtype}")


def head_and_step(name, example):
    """linear_sgd_step with its weight spread."""
    loss = losses.build(name, **example)
    for dtype, tolerance in ((torch.float64, WIDE), (torch.float32, NARROW)):
        x, w = batch(9, 5, dtype=dtype)[0], batch(width(loss), 5, seed=1, dtype=dtype)[0]
        y, own = batch(9, width(loss), seed=2, dtype=dtype)[1], mine(width(loss))
        part, (one, two) = w[own].clone(), (x.clone().requires_grad_() for _ in range(2))
        value = ls.linear_sgd_step(one, w, y, loss, lr=0.3, weight_decay=0.1)
        found = linear_sgd_step(two, part, y, loss, lr=0.3, weight_decay=0.1)
        value.backward()
        found.backward()
        close(found, value, tolerance, f"value in {dtype}")
        close(two.grad, one.grad, tolerance, f"gradient of features in {dtype}")
        close(part, w[own], tolerance, f"weights after the step in {dtype}")


def spread_dft():
    """shard_labels of a dft head."""
    torch.manual_seed(0)
    plain = ls.heads.build("dft", features=6, labels=11, k=2, slack=3).to(ON["device"]).double()
    head = shard_labels(copy.deepcopy(plain))
    x, y = batch(9, 6)[0], batch(9, 11, seed=1)[1]
    want, got = losses.build("two-way")(plain(x), y), over_labels("two-way")(head(x), y)
    want.backward()
    got.backward()
    close(got, want, WIDE, "value")
    close(head(x).full_tensor(), plain(x), WIDE, "logits")
    close(head.slack.grad.full_tensor(), plain.slack.grad, WIDE, "gradient of slack")
    close(head.projection.weight.grad, plain.projection.weight.grad, WIDE, "of the projection")


def spread_head():
    """shard_labels: logits, gradients, a step of AdamW and a checkpoint."""
    torch.manual_seed(0)
    plain = nn.Linear(6, 11).to(ON["device"]).double()
    head = shard_labels(nn.Linear(6, 11).to(ON["device"]).double())
    with torch.no_grad():
        for p, q in zip(head.parameters(), plain.parameters(), strict=True):
            rows = p.to_local()
            first = distributed.get_rank() * -(-11 // distributed.get_world_size())
            rows.copy_(q[first : first + len(rows)])
    x, y = batch(9, 6)[0], batch(9, 11, seed=1)[1]
    for net, loss in ((plain, losses.build("two-way")), (head, over_labels("two-way"))):
        optimiser = torch.optim.AdamW(net.parameters(), lr=0.1)
        for _ in range(2):
            optimiser.zero_grad()
            loss(net(x), y).backward()
            optimiser.step()
    close(head(x).full_tensor(), plain(x), WIDE, "logits")
    folder = Ranks.running().once(tempfile.mkdtemp)
    held = {name: p.full_tensor().clone() for name, p in head.state_dict().items()}
    checkpoint.save(head.state_dict(), checkpoint_id=folder)
    with torch.no_grad():
        for p in head.parameters():
            p.to_local().zero_()
    checkpoint.load(head.state_dict(), checkpoint_id=folder)
    for name, p in head.state_dict().items():
        close(p.full_tensor(), held[name], 0.0, f"{name} from the checkpoint")


def metric_of_all_rows():
    """Stream.gather, of label sets, scores and probabilities."""
    v, y = batch(23, 7, dtype=torch.float32)
    for name, given in (("f1-micro", v > 0), ("map@class", v), ("ece", v.sigmoid())):
        one, part = (ls.metrics.Stream(metrics.build(name)) for _ in range(2))
        one.update(given, y)
        part.update(given[mine(23)], y[mine(23)])
        got, want = part.gather().compute(), one.compute()
        close(torch.tensor(got), torch.tensor(want), WIDE, name)


def exchanges():
    """Not a comparison: that the calls above do exchange something, also where a rank is alone."""
    sent, plain = [], distributed.all_reduce

    def counting(x, *args, **kwargs):
        sent.append(x.device.type)
        return plain(x, *args, **kwargs)

    distributed.all_reduce = counting
    try:
        v, y = batch(4, 3)
        for call in (global_batch("sigmoid-f1"), over_labels("two-way")):
            sent.clear()
            call(v, y)
            if ON["device"] not in sent:
                raise AssertionError(f"nothing on {ON['device']} was sent, only {sent}")
    finally:
        distributed.all_reduce = plain
