"""What 2 ranks, then 4 find wrong, rows being spread over them, left in a folder.

The ranks are forked, so that torch, and what its optimisers and wrappers need, is imported once.
"""

import itertools
import sys
import warnings

import torch
import torch._dynamo
from torch import distributed, nn
from torch.multiprocessing import start_processes
from torch.nn.parallel import DistributedDataParallel

from labelset import Labels, accumulate, losses
from labelset.distributed import global_batch
from labelset.testing.cases import Cases, random_batch, value_and_grad

SETTINGS = [(n, e) for n in losses.names() for e in losses.catalog.get(n).examples]


def share(rows, turn):
    """This rank's rows: shares grow with the rank; every third turn one of the ranks has none."""
    rank, world = distributed.get_rank(), distributed.get_world_size()
    weights = torch.arange(1, world + 1)
    if turn % 3 == 0:
        weights[turn // 3 % world] = 0
    ends = (rows * weights.cumsum(0) / weights.sum()).round().long().tolist()
    return slice(ends[rank - 1] if rank else 0, ends[rank])


def off(got, want, tolerance=1e-10):
    """Whether two tensors differ by more than rounding; NaN always does."""
    return not bool(((got - want).abs() <= tolerance * (1 + want.abs())).all())


def compare(loss, v, y, turn, who, tolerance=1e-10):
    """Value and gradient of this rank's rows against those of one process."""
    mine = share(len(v), turn)
    v32 = v if tolerance < 1e-8 else v.float()
    got, slope = value_and_grad(global_batch(loss), v32[mine], y[mine])
    want, whole = value_and_grad(loss, v, y)
    wrong = [f"{who} value {got} not {want}"] if off(got, want, tolerance) else []
    return wrong + ([f"{who} gradient"] if off(slope, whole[mine], tolerance) else [])


def every_loss():
    """Two ranks go through all cases; more ranks, for which that is slow, each loss in some."""
    wrong, turns = [], itertools.count()
    every = 1 if distributed.get_world_size() == 2 else 3
    for (name, example), reduction in itertools.product(SETTINGS, ("mean", "sum")):
        loss = losses.build(name, reduction=reduction, **example)
        for i, (v, y) in enumerate(Cases(loss).all(seed=7)):
            if (turn := next(turns)) % every:
                continue
            who = f"{name} {example} {reduction} case {i}"
            wrong += compare(loss, v, y, turn // every, who)
            if i in (0, 3):
                wrong += compare(loss, v, Labels.from_dense(y), turn, who + " Labels")
    return wrong


def integer_labels():
    wrong = []
    for turn, (name, example) in enumerate(SETTINGS):
        v, y = random_batch(9, 4, seed=turn)
        wrong += compare(losses.build(name, **example), v, y.long(), turn, f"{name} {example}")
    return wrong


def kernels():
    """float32 by the kernels of a CPU, where they were built, against float64."""
    wrong = []
    for turn, (name, example) in enumerate(SETTINGS):
        v, y = random_batch(40, 6, seed=turn, unknown=True)
        for given in (v, y), (v, Labels.from_dense(y)), (v, y == 1):
            loss = losses.build(name, **example)
            wrong += compare(loss, *given, turn, f"{name} {example}", 3e-5)
    return wrong


def sums_and_learnt():
    bce, f1, lpr = (losses.build(name) for name in ("bce", "sigmoid-f1", "lpr"))
    wrong = []
    for turn, loss in enumerate((0.5 * bce, bce + 2.0 * f1, f1 + 0.3 * (bce + lpr))):
        wrong += compare(loss, *random_batch(9, 4, seed=turn, unknown=True), turn, f"sum {turn}")
    v, y = random_batch(9, 4, seed=5)
    mine, grads = share(9, 1), []
    for rows, wrap in ((slice(None), lambda loss: loss), (mine, global_batch)):
        beta = nn.Parameter(torch.full((4,), 2.0, dtype=torch.float64))
        wrap(losses.build("sigmoid-f1", beta=beta))(v[rows], y[rows]).backward()
        grads.append(beta.grad)
    distributed.all_reduce(grads[1])
    return wrong + (["the gradient of a learnt beta"] if off(grads[1], grads[0]) else [])


def far_scores():
    wrong = []
    for turn, (name, example) in enumerate(SETTINGS):
        v, y = Cases(None).far(seed=turn)
        loss = losses.build(name, **example)
        wrong += compare(loss, v, y, turn, f"{name} {example} far")
        y[0], v[0] = torch.nan, torch.nan  # unknown entries are inert whatever their scores are
        wrong += compare(loss, v, y, turn, f"{name} {example} far and NaN")
    return wrong


def only_sums_travel():
    """The largest message of a loss of n labels, whatever the number of rows."""
    sent, plain = [], distributed.all_reduce

    def counting(x, *args, **kwargs):
        sent.append(x.numel())
        return plain(x, *args, **kwargs)

    v, y = random_batch(300, 7, seed=0)
    wrong = []
    distributed.all_reduce = counting
    for name, example in SETTINGS:
        sent.clear()
        loss = losses.build(name, **example)
        global_batch(loss)(v, y)
        wrong += [f"{name} {example} sent {sent}"] if not sent or sum(sent) > 12 * 7 else []
        if isinstance(loss, losses.Separable):
            wrong += [f"{name} sent {sent}"] if sent != [2] else []
    distributed.all_reduce = plain
    return wrong


def a_subgroup():
    """Ranks 0 and 1 by themselves, and a rank outside the group is told so."""
    group = distributed.new_group([0, 1])
    loss = global_batch(losses.build("sigmoid-f1"), group=group)
    v, y = random_batch(8, 3, seed=3)
    if distributed.get_rank() > 1:
        try:
            loss(v, y)
        except ValueError as error:
            return [] if "no member" in str(error) else [str(error)]
        return ["a rank outside the group was let in"]
    mine = slice(0, 3) if distributed.get_rank() == 0 else slice(3, 8)
    return ["subgroup"] if off(loss(v[mine], y[mine]), loss.of(v, y)) else []


def curvature(loss, v, y):
    """The derivative of the sum of the gradient."""
    v = v.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(v, y), v, create_graph=True)
    return torch.autograd.grad(slope.sum(), v)[0]


def second_derivatives():
    """Right where a row has its own, and refused where they would need other ranks' rows."""
    v, y = random_batch(9, 3, seed=0)
    mine, wrong = share(9, 1), []
    for name in ("bce", "lpr"):
        loss = losses.build(name, impl="eager")
        got, want = curvature(global_batch(loss), v[mine], y[mine]), curvature(loss, v, y)
        wrong += [f"{name} curvature"] if off(got, want[mine]) else []
    for loss in (losses.build("sigmoid-f1"), losses.build("softmax", way="class")):
        try:
            curvature(global_batch(loss), v[mine], y[mine])
        except RuntimeError as error:
            wrong += [] if "differentiated once" in str(error) else [str(error)]
        else:
            wrong.append("a second derivative without the other ranks' rows was handed out")
    return wrong


def bad_input():
    """It is told before anything is sent, in the words of the loss."""
    wrong, v = [], torch.zeros(2, 3)
    cases = (v[0], v), (v, v[:1]), (v, v + 2), (v.long(), v), (v.tolist(), v)
    for name, given in itertools.product(("bce", "sigmoid-f1", "two-way"), cases):
        said = []
        for loss in (losses.build(name), global_batch(losses.build(name))):
            try:
                loss(*given)
            except (ValueError, TypeError) as error:
                said.append(str(error))
        wrong += [f"{name}: {said}"] if len(said) < 2 or said[0] != said[1] else []
    return wrong


def each_rank_alone():
    """Not a check of the package: without it the losses of columns are wrong."""
    v, y = random_batch(12, 4, seed=0)
    mine = share(12, 1)
    found = []
    for name, example in (("sigmoid-f1", {}), ("two-way", {"way": "class"})):
        loss = losses.build(name, **example)
        value = loss(v[mine], y[mine])
        distributed.all_reduce(value)
        found.append(off(value / distributed.get_world_size(), loss(v, y), 1e-3))
    return [] if all(found) else ["the mean over ranks is the loss of the global batch"]


# ---- models -----------------------------------------------------------------------------------


def network(*extra):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 8), *extra, nn.Tanh(), nn.Linear(8, 4)).double()


def batch(rows=14):
    x = torch.randn(rows, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x, random_batch(rows, 4, seed=2, unknown=True)[1]


def grads(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def whole(loss):
    """The value and parameter gradients of one process with all rows."""
    model, (x, y) = network(), batch()
    value = loss(model(x), y)
    value.backward()
    return value, grads(model)


def data_parallel():
    """DistributedDataParallel with ddp=True leaves the gradients of one process."""
    wrong = []
    for turn, (name, example) in enumerate(SETTINGS):
        loss, model, (x, y) = losses.build(name, **example), network(), batch()
        mine, parallel = share(len(x), turn), DistributedDataParallel(model)
        value = global_batch(loss, ddp=True)(parallel(x[mine]), y[mine])
        value.backward()
        want = whole(loss)
        wrong += [f"{name} {example} value"] if off(value, want[0]) else []
        wrong += [f"{name} {example} gradient"] if off(grads(model), want[1]) else []
    return wrong


def accumulated():
    """Micro batches on every rank, as many as it likes, are one batch of one process."""
    wrong = []
    for turn, (name, example) in enumerate(SETTINGS):
        loss, model, (x, y) = losses.build(name, **example), network(), batch()
        mine, size = share(len(x), turn), 1 + distributed.get_rank()
        micro = list(zip(x[mine].split(size), y[mine].split(size), strict=True))
        value = accumulate(DistributedDataParallel(model), micro, global_batch(loss, ddp=True))
        want = whole(loss)
        wrong += [f"{name} {example} value"] if off(value, want[0]) else []
        wrong += [f"{name} {example} gradient"] if off(grads(model), want[1]) else []
    return wrong


def accumulated_batch_norm():
    """Steps with batch-norm, whose buffers DistributedDataParallel makes equal over ranks."""
    loss = global_batch(losses.build("sigmoid-f1"), ddp=True)
    x, y = batch(24)
    mine = slice(12, 24) if distributed.get_rank() % 2 else slice(0, 12)
    models = [DistributedDataParallel(network(nn.BatchNorm1d(8))) for _ in range(2)]
    for _ in range(3):
        for model in models:
            model.zero_grad()
        accumulate(models[0], list(zip(x[mine].split(6), y[mine].split(6), strict=True)), loss)
        with models[1].no_sync():
            first = models[1](x[mine][:6])
        loss(torch.cat([first, models[1](x[mine][6:])]), y[mine]).backward()
    pairs = zip(models[0].state_dict().values(), models[1].state_dict().values(), strict=True)
    wrong = ["buffers"] if any(off(a.double(), b.double()) for a, b in pairs) else []
    return wrong + (["gradient"] if off(grads(models[0]), grads(models[1])) else [])


CHECKS = (
    *(every_loss, integer_labels, kernels, sums_and_learnt, far_scores, only_sums_travel),
    *(a_subgroup, second_derivatives, bad_input, each_rank_alone),
    *(data_parallel, accumulated, accumulated_batch_norm),
)


def one_rank(rank, ranks, folder, names):
    """What one of some ranks does."""
    warnings.simplefilter("error")
    store = f"file://{folder}/store{ranks}"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    found = {c.__name__: c() for c in CHECKS if not names or c.__name__ in names}
    torch.save(found, f"{folder}/{ranks}-{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, *names = sys.argv[1:]  # without names all checks, by 2 and by 4 ranks
    for ranks in (2,) if names else (2, 4):
        start_processes(one_rank, (ranks, folder, names), nprocs=ranks, start_method="fork")
