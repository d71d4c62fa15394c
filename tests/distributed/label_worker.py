"""What 4 ranks, then 2, then 1 find wrong, labels being spread over them, left in a folder.

The ranks are forked, so that torch, and what its DTensors need, is imported once.
"""

import copy
import itertools
import sys
import warnings

import torch
import torch._dynamo
from scipy.sparse import csr_matrix
from torch import distributed, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.multiprocessing import start_processes

import labelset as ls
from labelset import Labels, losses
from labelset.data import SparseRows
from labelset.distributed import (
    global_batch,
    linear_loss,
    linear_sgd_step,
    over_labels,
    shard_labels,
)
from labelset.testing.cases import Cases, random_batch, value_and_grad

SETTINGS = [(n, e) for n in losses.names() for e in losses.catalog.get(n).examples]
SEPARABLE = [(n, e) for n, e in SETTINGS if isinstance(losses.build(n, **e), losses.Separable)]


def folder():
    return sys.argv[1]


def rank():
    return distributed.get_rank()


def world():
    return distributed.get_world_size()


def share(n, turn):
    """This rank's labels: shares grow with the rank; every third turn one of the ranks has none."""
    weights = torch.arange(1, world() + 1)
    if turn % 3 == 0:
        weights[turn // 3 % world()] = 0
    ends = [0, *(n * weights.cumsum(0) / weights.sum()).round().long().tolist()]
    return slice(ends[rank()], ends[rank() + 1])


def off(got, want, tolerance=1e-10):
    """Whether two tensors differ by more than rounding; NaN always does."""
    if got.shape != want.shape:
        return True
    return not bool(((got - want).abs() <= tolerance * (1 + want.abs())).all())


def part_of(y, mine, turn):
    """All labels, this rank's, or all of them as `Labels`, by turns."""
    if turn % 3 == 0:
        return y
    return y[:, mine] if turn % 3 == 1 else Labels.from_dense(y)


def compare(loss, v, y, turn, who, tolerance=1e-10):
    """Value and gradient of this rank's labels against those of one process."""
    mine = share(v.shape[1], turn)
    local = v[:, mine] if tolerance < 1e-8 else v[:, mine].float()
    y = y if turn % 3 != 2 else Labels.from_dense(y).dense(torch.float64)  # soft ones are rounded
    got, slope = value_and_grad(over_labels(loss), local, part_of(y, mine, turn))
    want, whole = value_and_grad(loss, v, y)
    wrong = [f"{who} value {got} not {want}"] if off(got, want, tolerance) else []
    return wrong + ([f"{who} gradient"] if off(slope, whole[:, mine], tolerance) else [])


def every_loss():
    wrong, turns = [], itertools.count()
    for (name, example), reduction in itertools.product(SETTINGS, ("mean", "sum")):
        loss = losses.build(name, reduction=reduction, **example)
        cases = list(Cases(loss).all(seed=7))
        for i in {next(turns) % 8, 3 if world() > 2 else 2}:
            wrong += compare(loss, *cases[i], next(turns), f"{name} {example} {reduction} case {i}")
    return wrong


def kernels():
    """float32 by the kernels of a CPU, where they were built, against float64."""
    wrong = []
    for turn, (name, example) in enumerate(SETTINGS):
        v, y = random_batch(30, 21, seed=turn, unknown=turn % 2 == 0)
        loss, y = losses.build(name, **example), y if turn % 2 == 0 else y.long()
        wrong += compare(loss, v, y, turn, f"{name} {example}", 3e-5)
    return wrong


def far_scores():
    wrong = []
    for turn, (name, example) in enumerate(SETTINGS):
        v, y = Cases(None).far(seed=turn)
        loss = losses.build(name, **example)
        y[0], v[0] = torch.nan, torch.nan  # unknown entries are inert whatever their scores are
        wrong += compare(loss, v, y, turn, f"{name} {example} far and NaN")
    return wrong


def no_reduction():
    """Entries and labels of this rank, or all rows; the gradient of any sum of them."""
    wrong = []
    for turn, (name, example) in enumerate(SETTINGS):
        both = example.get("way", "sample" if name != "two-way" else "both") == "both"
        if name == "spa+lpr" or both:
            continue
        loss = losses.build(name, reduction="none", **example)
        v, y = random_batch(4, 9, seed=turn, unknown=True, soft=True)
        mine = share(9, turn)
        got, slope = value_and_grad(over_labels(loss), v[:, mine], y)
        want, whole = value_and_grad(loss, v, y)
        own = want if want.shape[-1] != 9 else want[..., mine]
        wrong += [f"{name} {example} values"] if off(got, own) else []
        wrong += [f"{name} {example} gradient"] if off(slope, whole[:, mine]) else []
    return wrong


def sums_and_learnt():
    bce, f1, lpr = (losses.build(name) for name in ("bce", "sigmoid-f1", "lpr"))
    wrong = []
    for turn, loss in enumerate((0.5 * bce, bce + 2.0 * f1, f1 + 0.3 * (bce + lpr))):
        wrong += compare(loss, *random_batch(4, 9, seed=turn, unknown=True), turn, f"sum {turn}")
    v, y = random_batch(4, 9, seed=5)
    mine = share(9, 1)
    for shape in ((), (9,)):
        grads = []
        for own, wrap in ((slice(None), lambda loss: loss), (mine, over_labels)):
            beta = nn.Parameter(torch.full(shape, 2.0, dtype=torch.float64))
            loss = wrap(losses.build("sigmoid-f1", beta=beta))
            for _ in range(2):  # the second call must have a graph of its own
                beta.grad = None
                loss(v[:, own], y).backward()
            grads.append(beta.grad)
        distributed.all_reduce(grads[1])
        wrong += [f"the gradient of a learnt beta {shape}"] if off(grads[1], grads[0]) else []
    return wrong


def numbers_per_label():
    """Given for all labels, or for this rank's."""
    wrong = []
    g = torch.Generator().manual_seed(0)
    each = torch.rand(9, generator=g, dtype=torch.float64) + 0.5
    v, y = random_batch(4, 9, seed=1, unknown=True)
    kinds = [
        ("bce", "pos_weight"),
        ("bce", "neg_weight"),
        ("sigmoid-f1", "beta"),
        ("smooth", "eta"),
    ]
    for turn, (name, field) in enumerate(kinds):
        mine = share(9, turn)
        want, whole = value_and_grad(losses.build(name, **{field: each}), v, y)
        for numbers in (each, each[mine]):
            loss = over_labels(losses.build(name, **{field: numbers}))
            got, slope = value_and_grad(loss, v[:, mine], y)
            same = not off(got, want) and not off(slope, whole[:, mine])
            wrong += [] if same else [f"{name} {field} of {len(numbers)}"]
    base = losses.build("bce", pos_weight=each)
    for nested in (losses.build("splc", base=base), losses.build("lpr", of=base), base + base):
        wrong += compare(nested, v, y, 2, f"{type(nested).__name__} of weighted bce")
    return wrong


def links():
    wrong, (v, _) = [], random_batch(4, 9, seed=1)
    mine = share(9, 1)
    each = torch.rand(9, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 0.5
    for loss in (losses.build("wan"), losses.build("spa"), losses.build("bce", pos_weight=each)):
        over = over_labels(loss)
        wrong += [f"{loss} link"] if off(over.link(v[:, mine]), loss.link(v)[:, mine]) else []
        mesh = init_device_mesh("cpu", (world(),))
        spread = over.link(distribute_tensor(v, mesh, [Shard(1)]))
        wrong += [f"{loss} link of a DTensor"] if off(spread.full_tensor(), loss.link(v)) else []
    return wrong


def only_sums_travel():
    """The largest message of a loss of n labels and few rows."""
    sent, plain = [], distributed.all_reduce

    def counting(x, *args, **kwargs):
        sent.append(x.numel())
        return plain(x, *args, **kwargs)

    v, y = random_batch(3, 300, seed=0)
    y = torch.zeros_like(y).index_fill(1, torch.tensor([5, 200]), 1.0)
    mine, wrong = share(300, 1), []
    distributed.all_reduce = counting
    for name, example in SETTINGS:
        sent.clear()
        loss = losses.build(name, **example)
        over_labels(loss)(v[:, mine], y)
        told = 2 * world()
        if isinstance(loss, losses.Separable):
            wrong += [f"{name} sent {sent}"] if sent != [told, 2] else []
        wrong += [f"{name} {example} sent {sent}"] if sum(sent) > told + 20 * 3 else []
    distributed.all_reduce = plain
    return wrong


# ---- heads ------------------------------------------------------------------------------------


def network(n, bias=True):
    torch.manual_seed(3)
    return nn.Linear(5, 4).double(), nn.Linear(4, n, bias=bias).double()


def batch(n, rows=6, **kinds):
    x = torch.randn(rows, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x, random_batch(rows, n, seed=2, **kinds)[1]


def grads(encoder, head):
    found = [p.grad for m in (encoder, head) for p in m.parameters()]
    return [g.full_tensor() if isinstance(g, DTensor) else g for g in found]


def one_process(loss, n, y, bias=True):
    encoder, head = network(n, bias)
    value = loss(head(encoder(batch(n)[0])), y)
    value.backward()
    return value.detach(), grads(encoder, head)


def differs(value, found, wanted, who):
    """What of value and gradients is not that of one process."""
    pairs = zip(("value", *"EcWb"), (value, *found), (wanted[0], *wanted[1]), strict=False)
    return [f"{who} {name}" for name, got, want in pairs if off(got, want)]


def sharded_heads():
    """Gradients of the encoder (through the features), weight and bias; by torch's own, too."""
    wrong, mesh = [], init_device_mesh("cpu", (world(),))
    for turn, (name, example) in enumerate(SETTINGS[world() == 2 :: 2]):
        n, bias = (7, 9, 5, 3)[turn % 4], turn % 5 != 0
        loss, (x, y) = losses.build(name, **example), batch(n, unknown=True)
        wanted = one_process(loss, n, y, bias)
        for how in ("shard_labels", "colwise", "colwise local")[: 1 if n < world() else 3]:
            if how != "shard_labels" and turn % 4:
                continue
            encoder, head = network(n, bias)
            if how == "shard_labels":
                head = shard_labels(head)
            else:
                style = ColwiseParallel(use_local_output=how == "colwise local")
                head = parallelize_module(head, mesh, style)
            value = over_labels(loss)(head(encoder(x)), y)
            value.backward()
            wrong += differs(
                value.detach(), grads(encoder, head), wanted, f"{name} {example} {how}"
            )
    return wrong


def fused_heads():
    """linear_loss: weights of any number per rank, or DTensors; labels of all kinds."""
    wrong = []
    kinds = {"unknown": True}, {"soft": True}, {"soft": True, "unknown": True}, {}
    for turn, (name, example) in enumerate(SEPARABLE):
        n, reduction = (7, 9, 5, 3)[turn % 4], ("mean", "sum")[turn % 2]
        loss = losses.build(name, reduction=reduction, **example)
        x, y = batch(n, **kinds[turn // 2 % 4])
        y = y if turn % 3 != 2 else Labels.from_dense(y).dense(torch.float64)
        wanted = one_process(loss, n, y)
        encoder, head = network(n)
        given = part_of(y, share(n, turn), turn)
        if turn % 2:
            head = shard_labels(head)
            given = given if turn % 3 != 1 else y
            value = linear_loss(encoder(x), head.weight, given, loss, bias=head.bias)
            value.backward()
            found = grads(encoder, head)
        else:
            mine = share(n, turn)
            w, b = (p.detach()[mine].clone().requires_grad_() for p in head.parameters())
            value = linear_loss(encoder(x), w, given, loss, bias=b)
            value.backward()
            found = [*(p.grad for p in encoder.parameters()), w.grad, b.grad]
            wanted = wanted[0], [*wanted[1][:2], *(g[mine] for g in wanted[1][2:])]
        wrong += differs(value.detach(), found, wanted, f"{name} {example} {turn}")
    return wrong


def fused_steps():
    """linear_sgd_step: weight, bias and the encoder's gradient after each of two steps."""
    wrong = []
    kinds = {"unknown": True}, {"soft": True}, {"soft": True, "unknown": True}, {}
    for turn, (name, example) in enumerate(SEPARABLE):
        n, reduction = (7, 9, 5, 3)[turn % 4], ("mean", "sum")[turn % 2]
        loss = losses.build(name, reduction=reduction, **example)
        x, y = batch(n, **kinds[turn // 2 % 4])
        y = y if turn % 3 != 2 else Labels.from_dense(y).dense(torch.float64)
        encoder, head = network(n)
        w, b = (p.detach().clone() for p in head.parameters())
        mine, step = share(n, turn), {"lr": 0.3, "weight_decay": 0.1}
        part, given = (shard_labels(head), y) if turn % 2 else (None, part_of(y, mine, turn))
        own = [part.weight, part.bias] if turn % 2 else [w[mine].clone(), b[mine].clone()]
        for number in range(2):
            e, f = (encoder(x).detach().requires_grad_() for _ in range(2))
            want = ls.linear_sgd_step(e, w, y, loss, bias=b, **step)
            got = linear_sgd_step(f, own[0], given, loss, bias=own[1], **step)
            want.backward()
            got.backward()
            held = [t.full_tensor() if turn % 2 else t for t in own]
            whole = [w, b] if turn % 2 else [w[mine], b[mine]]
            pairs = zip((got, f.grad, *held), (want, e.grad, *whole), strict=True)
            if any(off(one.detach(), two.detach()) for one, two in pairs):
                wrong.append(f"{name} {example} {turn}, step {number}")
    return wrong


def dft_heads():
    """Every number of the dft head, its gradient, and the way to one process and back."""
    wrong = []
    for turn, (name, example) in enumerate(SETTINGS[::3]):
        n, slack = (9, 7, 11)[turn % 3], (0, 3)[turn % 2]
        loss, (x, y) = losses.build(name, **example), batch(n, unknown=True)
        torch.manual_seed(3)
        order = torch.randperm(n)
        alone = ls.heads.build("dft", features=5, labels=n, k=2, slack=slack, order=order).double()
        torch.manual_seed(3 if turn % 2 else rank())  # of slack, only rank 0's numbers count
        head = copy.deepcopy(alone)
        head.slack.data.add_(rank())
        head = shard_labels(head)
        pieces = x, x.clone()
        given = [t.requires_grad_() for t in pieces]
        want, got = loss(alone(given[0]), y), over_labels(loss)(head(given[1]), y)
        want.backward()
        got.backward()
        found = [given[1].grad, *(p.grad for _, p in sorted(head.named_parameters()))]
        found = [g.full_tensor() if isinstance(g, DTensor) else g for g in found]
        whole = [given[0].grad, *(p.grad for _, p in sorted(alone.named_parameters()))]
        pairs = zip((got.detach(), *found), (want.detach(), *whole), strict=True)
        if any(two is not None and off(one, two) for one, two in pairs):
            wrong.append(f"{name} {example} {n} {slack}")
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        state = get_model_state_dict(head, options=options)
        if rank() == 0:
            again = ls.heads.build("dft", features=5, labels=n, k=2, slack=slack).double()
            again.load_state_dict(state)
            wrong += ["state"] if off(again(x).detach(), alone(x).detach(), 1e-14) else []
    sparse = SparseRows.from_scipy(csr_matrix((x.detach() * (x.detach() > 0)).numpy()))
    wrong += ["sparse"] if off(head(sparse).full_tensor(), alone(sparse).detach(), 1e-6) else []
    return wrong


def fused_kernels():
    """The same in float32, whose blocks are computed by the kernels of a CPU."""
    wrong = []
    for turn, (name, example) in enumerate(SEPARABLE):
        loss, (x, y) = losses.build(name, **example), batch(40, unknown=True)
        mine = share(40, turn)
        w = torch.randn(40, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        xs = x.clone().requires_grad_(), x.float().requires_grad_()
        ws = w.clone().requires_grad_(), w[mine].float().requires_grad_()
        want, got = loss(xs[0] @ ws[0].T, y), linear_loss(xs[1], ws[1], y, loss)
        want.backward()
        got.backward()
        pairs = (got, want), (xs[1].grad, xs[0].grad), (ws[1].grad, ws[0].grad[mine])
        wrong += [f"{name} {example}"] if any(off(a, b, 3e-5) for a, b in pairs) else []
    return wrong


def built_in_shards():
    """A layer that no rank ever holds whole."""
    head = shard_labels(nn.Linear(4, 9, device="meta"))
    head.to_empty(device="cpu").reset_parameters(seed=1)
    weight = head.weight.full_tensor()
    wrong = [] if weight.shape == (9, 4) and 0.1 < weight.abs().max() <= 0.5 else ["numbers"]
    each = weight.split(-(-9 // world()))
    wrong += ["ranks drew the same"] if torch.equal(each[0][:1], each[1][:1]) else []
    for layer in (nn.Linear(5, 9), nn.Linear(5, 9, bias=False)):
        x = SparseRows.from_csr([0, 2, 2, 3], [0, 4, 1], width=5, values=[1.0, -2.0, 3.0])
        got = shard_labels(layer)
        bias = 0 if got.bias is None else got.bias.full_tensor()
        want = x.dense() @ got.weight.full_tensor().T + bias
        wrong += ["sparse features"] if off(got(x).full_tensor(), want, 1e-6) else []
    linear = shard_labels(ls.heads.build("linear", features=5, labels=9, rank=3))
    logits = linear(torch.zeros(2, 5))
    return wrong + ([] if tuple(logits.full_tensor().shape) == (2, 9) else ["the linear head"])


# ---- rows and labels ----------------------------------------------------------------------------


def grid():
    """Rows over one dimension of a 2-D mesh, labels over the other, by groups and by DTensors."""
    if world() < 4:
        return []
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "labels"))
    i, j = mesh.get_coordinate()
    rows, mine = (slice(0, 2), slice(2, 6))[i], (slice(0, 3), slice(3, 5))[j]
    wrong = []
    for turn, (name, example) in enumerate(SETTINGS):
        loss = losses.build(name, reduction=("mean", "sum")[turn % 2], **example)
        v, y = random_batch(6, 5, seed=turn, unknown=True)
        want, whole = value_and_grad(loss, v, y)
        inner = global_batch(loss, group=mesh.get_group("rows"))
        over = over_labels(inner, group=mesh.get_group("labels"))
        got, slope = value_and_grad(over, v[rows, mine], y[rows] if turn % 2 else y[rows, mine])
        wrong += [f"{name} {example} value"] if off(got, want) else []
        wrong += [f"{name} {example} gradient"] if off(slope, whole[rows, mine]) else []
        if turn % 3 == 0:
            leaf = distribute_tensor(v, mesh, [Shard(0), Shard(1)]).requires_grad_()
            got = over_labels(loss)(leaf, y)
            got.backward()
            wrong += [f"{name} {example} DTensor value"] if off(got.detach(), want) else []
            wrong += [f"{name} DTensor gradient"] if off(leaf.grad.full_tensor(), whole) else []
    wrong += fused_grid(mesh, rows)
    over = over_labels(global_batch("bce", mesh.get_group("rows")), mesh["labels"])
    try:
        linear_sgd_step(v[rows], v[:2], y[rows, :4], over, lr=1.0)
    except ValueError as error:
        return wrong if "without global_batch" in str(error) else [*wrong, str(error)]
    return [*wrong, "a step down the gradient of some rows was made"]


def fused_grid(mesh, rows):
    """Two ranks share each part of a weight: their gradients are averaged, as by FSDP."""
    encoder, head = network(9)
    x, y = batch(9, unknown=True)
    loss = losses.build("asl")
    wanted = one_process(loss, 9, y)
    head = shard_labels(head, mesh["labels"])
    over = over_labels(global_batch(loss, group=mesh.get_group("rows"), ddp=True), mesh["labels"])
    value = linear_loss(encoder(x[rows]), head.weight, y[rows], over, bias=head.bias)
    value.backward()
    found = grads(encoder, head)
    for g in found:
        distributed.all_reduce(g, group=mesh.get_group("rows"))
    return differs(value.detach(), [g / 2 for g in found], wanted, "fused grid")


def a_subgroup():
    group = distributed.new_group([0, 1])
    if rank() > 1:
        return []
    v, y = random_batch(4, 7, seed=3)
    mine = slice(0, 5) if rank() == 0 else slice(5, 7)
    loss = over_labels("two-way", group=group)
    return ["subgroup"] if off(loss(v[:, mine], y), loss.of(v, y)) else []


def replicated():
    """A DTensor that every rank holds whole, and one on a mesh of which one dimension does."""
    v, y = random_batch(4, 8, seed=3)
    loss, wrong = losses.build("two-way"), []
    flat = init_device_mesh("cpu", (world(),))
    whole = over_labels(loss)(distribute_tensor(v, flat, [Replicate()]), y)
    wrong += ["whole"] if off(whole, loss(v, y)) else []
    mesh = init_device_mesh("cpu", (2, world() // 2))
    leaf = distribute_tensor(v, mesh, [Shard(1), Replicate()]).requires_grad_()
    value = over_labels(loss)(leaf, distribute_tensor(y, mesh, [Shard(1), Replicate()]))
    value.backward()
    want, slope = value_and_grad(loss, v, y)
    same = not off(value.detach(), want) and not off(leaf.grad.full_tensor(), slope)
    return wrong + ([] if same else ["one dimension whole"])


def refusals():
    """Told on every rank at once, so that none waits for the others."""
    mesh = init_device_mesh("cpu", (world(),))
    v, y = random_batch(4, 8, seed=0)
    mine, two_way = share(8, 1), over_labels("two-way")
    partial = DTensor.from_local(v, mesh, [Partial()], run_check=False)
    both = over_labels(global_batch("bce"))
    cases = {
        "same rows": lambda: two_way(v[: 1 + rank(), mine], y),
        "for all 8": lambda: two_way(v[:, mine], torch.ones(4, 11)),
        "rows": lambda: two_way(v[:, mine], torch.ones(11, 8)),
        "[0, 1]": lambda: two_way(v[:, mine], y + 2),
        "2-D": lambda: two_way(v[0], y),
        "Shard(1)": lambda: two_way(partial, y),
        "a group each": lambda: both(v[:, mine], y),
        "Separable": lambda: linear_loss(v, v[mine], y, "two-way"),
        "reduction": lambda: linear_loss(v, v, y, losses.build("bce", reduction="none")),
        "classifier": lambda: shard_labels(nn.ReLU()),
    }
    wrong = []
    for words, call in cases.items():
        try:
            call()
        except (ValueError, TypeError) as error:
            wrong += [] if words in str(error) else [f"{words!r} is not in: {error}"]
        else:
            wrong.append(f"{words} was let through")
    return wrong


def second_derivatives():
    """Right where an entry has its own, and refused where they would need other ranks' scores."""
    v, y = random_batch(3, 9, seed=0)
    mine, wrong = share(9, 1), []

    def curvature(loss, v, y):
        v = v.clone().requires_grad_()
        (slope,) = torch.autograd.grad(loss(v, y), v, create_graph=True)
        return torch.autograd.grad(slope.sum(), v)[0]

    bce = losses.build("bce")
    got, want = curvature(over_labels(bce), v[:, mine], y), curvature(bce, v, y)
    wrong += ["bce curvature"] if off(got, want[:, mine]) else []
    micro = losses.build("sigmoid-f1", average="micro")
    for loss in (losses.build("two-way"), losses.build("lpr"), micro):
        try:
            curvature(over_labels(loss), v[:, mine], y)
        except RuntimeError as error:
            wrong += [] if "differentiated once" in str(error) else [str(error)]
        else:
            wrong.append(f"a second derivative of {type(loss).__name__} was handed out")
    return wrong


def the_trap():
    """Not a check of the package: a mean over DTensors that are unevenly cut, or over ranks."""
    v, y = random_batch(4, 7, seed=0)
    mine, bce = share(7, 1), losses.build("bce")
    value = bce(v[:, mine], y[:, mine])
    distributed.all_reduce(value)
    return [] if off(value / world(), bce(v, y), 1e-3) else ["the mean over ranks is the mean"]


# ---- training ---------------------------------------------------------------------------------


def whole_models():
    """Encoder and head under one optimiser, in a group of parameters each; micro batches, too."""
    x, y = batch(9, unknown=True)
    for loss in (losses.build("two-way"), losses.build("bce")):
        models = []
        for wrap, over in ((lambda head: head, lambda loss: loss), (shard_labels, over_labels)):
            encoder, head = network(9)
            model = nn.Sequential(encoder, wrap(head))
            groups = [{"params": part.parameters()} for part in model]
            optimiser = torch.optim.Adam(groups, lr=0.1, foreach=True)
            for _ in range(2):
                optimiser.zero_grad()
                over(loss)(model(x), y).backward()
                optimiser.step()
            micro = list(zip(x.split(4), y.split(4), strict=True))
            ls.accumulate(model, micro, over(loss))
            optimiser.step()
            models.append([p.detach() for p in model.parameters()])
        whole = [p.full_tensor() if isinstance(p, DTensor) else p for p in models[1]]
        if any(off(a, b) for a, b in zip(whole, models[0], strict=True)):
            return [type(loss).__name__]
    return []


# ---- checkpoints ------------------------------------------------------------------------------


def trained(head, optimiser, loss, steps):
    """A few steps on a batch, from wherever the head stands."""
    x, y = batch(9, unknown=True)
    for _ in range(steps):
        optimiser.zero_grad()
        loss(head(x[:, :4]), y).backward()
        optimiser.step()


def start():
    head = network(9)[1]
    head = shard_labels(head)
    return head, torch.optim.AdamW(head.parameters(), lr=0.1)


def state_of(head, optimiser):
    """What PyTorch's own checkpoints keep: weights and the state of the optimiser, by name."""
    model, kept = get_state_dict(head, optimiser)
    return {"model": model, "optimiser": kept}


def whole_numbers(head, optimiser):
    """Weights, and all that the optimiser remembers, as one process has them."""
    held = [*head.parameters()]
    held += [t for p in head.parameters() for t in optimiser.state[p].values()]
    return [t.full_tensor() if isinstance(t, DTensor) else t for t in held]


def resharded():
    """Four ranks train and save; two load, train and save; one loads, and has what one made."""
    distributed_ = distributed.is_initialized()
    ranks = world() if distributed_ else 1
    loss, before = over_labels("two-way"), {4: 0, 2: 2, 1: 4}[ranks]
    torch.manual_seed(3)
    alone = network(9)[1]
    plain = torch.optim.AdamW(alone.parameters(), lr=0.1)
    trained(alone, plain, losses.build("two-way"), before)
    head, optimiser = start()
    wrong = []
    if before:
        kept = state_of(head, optimiser)
        checkpoint.load(kept, checkpoint_id=f"{folder()}/{2 * ranks}", no_dist=not distributed_)
        model, held = kept["model"], kept["optimiser"]
        set_state_dict(head, optimiser, model_state_dict=model, optim_state_dict=held)
        pairs = zip(whole_numbers(head, optimiser), whole_numbers(alone, plain), strict=True)
        wrong += ["what was loaded"] if any(off(a, b) for a, b in pairs) else []
    trained(head, optimiser, loss, 2)
    trained(alone, plain, losses.build("two-way"), 2)
    pairs = zip(whole_numbers(head, optimiser), whole_numbers(alone, plain), strict=True)
    wrong += ["what was trained"] if any(off(a, b) for a, b in pairs) else []
    if distributed_:
        checkpoint.save(state_of(head, optimiser), checkpoint_id=f"{folder()}/{ranks}")
    return wrong


def plain_file():
    """The whole head on one rank, in a file of one process, and back on all ranks."""
    torch.manual_seed(rank())  # only rank 0's numbers count
    head = shard_labels(ls.heads.build("linear", features=5, labels=9, rank=3))
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    whole, path = (
        get_model_state_dict(head, options=options),
        f"{folder()}/head{world()}.safetensors",
    )
    if rank() == 0:
        alone = ls.heads.build("linear", features=5, labels=9, rank=3)
        alone.load_state_dict(whole)
        ls.heads.save(alone, path)
    distributed.barrier()
    again = shard_labels(ls.heads.load(path)).classifier
    pairs = zip(again.parameters(), head.classifier.parameters(), strict=True)
    return ["numbers"] if any(off(a.full_tensor(), b.full_tensor(), 0) for a, b in pairs) else []


CHECKS = (
    *(every_loss, kernels, far_scores, no_reduction, sums_and_learnt, numbers_per_label, links),
    *(only_sums_travel, sharded_heads, fused_heads, fused_kernels, built_in_shards, grid),
    *(fused_steps, dft_heads),
    *(a_subgroup, replicated, refusals, second_derivatives, the_trap, whole_models),
    *(resharded, plain_file),
)


def one_rank(rank, ranks, names):
    """What one of some ranks does."""
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "DTensor random operators")  # torch 2.6 on CPUs
    store = f"file://{folder()}/store{ranks}"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    found = {c.__name__: c() for c in CHECKS if not names or c.__name__ in names}
    torch.save(found, f"{folder()}/{ranks}-{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    names = sys.argv[2:]  # without names all checks, by 4 and by 2 ranks, and what 1 rank reads
    for ranks in (2,) if names else (4, 2):
        start_processes(one_rank, (ranks, names), nprocs=ranks, start_method="fork")
    if not names:
        torch.save({"resharded": resharded()}, f"{folder()}/1-0.pt")
