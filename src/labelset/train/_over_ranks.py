"""One training by several ranks: each takes a share of every batch, the numbers being one's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.func import functional_call

from labelset import check
from labelset.losses import Loss
from labelset.ranks import Ranks
from labelset.torch_private import TorchDispatchMode

PARALLEL = ("auto", "alone", "ddp", "fsdp")


@dataclass(eq=False)
class Parallel:
    """Who trains together, and whether each has all weights (ddp) or a share of them (fsdp)."""

    ranks: Ranks = field(default_factory=Ranks)
    sharded: bool = False
    _plain: Any = None

    @classmethod
    def by(cls, how: str) -> Parallel:
        """`auto`: ddp where a process group is running; `alone`: in this process only."""
        check.one_of("parallel", how, PARALLEL)
        ranks = Ranks() if how == "alone" else Ranks.running()
        return cls(ranks, sharded=how == "fsdp" and ranks.size > 1)

    def spread(self, model: nn.Module, device: str, example: Any) -> nn.Module:
        """What is called in training; it has the model's weights, or cuts them in place.

        `example`: some inputs, which show whether the model uses all of its weights.
        """
        if self.sharded:
            if getattr(model, "encoder", None) is None:
                raise ValueError("fsdp is for an encoder that is trained, here is none; take ddp")
            self._plain = copy.deepcopy(model)
            shard(model, device)
            return model.to(device)
        model.to(device)
        if self.ranks.size == 1:
            return model
        unused = _has_unused(model, example if device == "cpu" else example.to(device))
        return nn.parallel.DistributedDataParallel(model, find_unused_parameters=unused)

    def loss(self, loss: Loss) -> Loss:
        """The loss of the rows of all ranks, its gradient to be averaged over them."""
        if self.ranks.size == 1:
            return loss
        from labelset.distributed import global_batch

        return global_batch(loss, ddp=True)

    @contextmanager
    def applied(
        self, model: nn.Module, weights: Mapping[str, Tensor]
    ) -> Iterator[Callable[[Any], Any]]:
        """The model with other weights."""
        if not self.sharded:
            yield lambda inputs: functional_call(model, dict(weights), (inputs,))
            return
        own = {name: t.detach().clone() for name, t in model.state_dict().items()}
        model.load_state_dict(weights)
        try:
            yield model
        finally:
            model.load_state_dict(own)

    def finished(self, model: nn.Module, weights: Mapping[str, Tensor]) -> nn.Module:
        """The whole model with these weights, as one process would leave it."""
        model = self._plain if self.sharded else model
        model.load_state_dict(self.whole(weights))
        return model

    # ---- between sessions, whose ranks may be other ones ----------------------------------------

    def whole(self, state: Any) -> Any:
        """Without anything cut; every rank must ask."""
        return whole(state) if self.sharded else state

    def cut(
        self, tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]
    ) -> Mapping[str, Tensor]:
        """Whole weights as the model of this session has them, and where it has them."""
        if self.sharded:
            return cut(tensors, like)
        return {name: t.to(like[name].device) for name, t in tensors.items()}

    def cut_optimisers(self, saved: list[Any], inner: list[torch.optim.Optimizer]) -> list[Any]:
        """The states of optimisers, likewise."""
        if not self.sharded:
            return saved
        return [
            cut_optimiser(one, [p for group in mine.param_groups for p in group["params"]])
            for one, mine in zip(saved, inner, strict=True)
        ]


def _has_unused(model: nn.Module, example: Any) -> bool:
    """Whether the scores do not depend on some weights; the ranks would wait for their slopes."""
    learnt = [p for p in model.parameters() if p.requires_grad]
    model.eval()
    slopes = torch.autograd.grad(model(example).sum(), learnt, allow_unused=True)
    return any(slope is None for slope in slopes)


LISTS = (nn.ModuleList, nn.ModuleDict)  # they have no forward pass of their own


def is_cut(t: Any) -> bool:
    """Whether ranks hold a share each: a DTensor, whose module takes a second to import."""
    return hasattr(t, "full_tensor")


def shard(model: nn.Module, device: str) -> None:
    """Cut every weight over all ranks; each layer's are gathered when it is their turn.

    Layers are the members of lists and sequences of modules, which is where networks keep their
    blocks; what is in none of them is gathered with the model as a whole. All ranks start with
    the weights of the first.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    kind = torch.device(device).type
    if kind == "cpu" and torch.__version__.startswith("2.6."):
        raise RuntimeError("fsdp of torch 2.6 does not run on a CPU; update torch, or take ddp")
    mesh = init_device_mesh(kind, (distributed.get_world_size(),))
    for t in model.state_dict().values():
        there = t.to(device)
        distributed.broadcast(there, src=0)
        t.copy_(there)
    lists = [m for m in model.modules() if isinstance(m, (nn.ModuleList, nn.Sequential))]
    for members in reversed(lists):  # inner ones first
        for layer in members:
            if any(p.requires_grad for p in layer.parameters()) and not isinstance(layer, LISTS):
                fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def whole(tree: Any) -> Any:
    """The same dicts and lists, each tensor complete; every rank must ask."""
    if isinstance(tree, Mapping):
        return {key: whole(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [whole(value) for value in tree]
    return tree.full_tensor() if is_cut(tree) else tree


def cut(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Complete tensors cut as those of the same name are."""
    return {name: _cut(t, like[name]) for name, t in tensors.items()}


def cut_optimiser(saved: Mapping[str, Any], params: Sequence[Tensor]) -> dict[str, Any]:
    """An optimiser's state, of which what has the shape of a weight is cut as that is."""
    state = {
        at: {name: _cut(t, params[at]) if _alike(t, params[at]) else t for name, t in facts.items()}
        for at, facts in saved["state"].items()
    }
    return {**saved, "state": state}


def _alike(t: Any, p: Tensor) -> bool:
    return isinstance(t, Tensor) and t.ndim > 0 and t.shape == p.shape


def _cut(t: Tensor, like: Any) -> Tensor:
    if not is_cut(like):
        return t
    from torch.distributed.tensor import distribute_tensor

    place = like.to_local().device
    return distribute_tensor(t.to(place), like.device_mesh, like.placements, src_data_rank=None)


KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@contextmanager
def batch_norm_over(ranks: Ranks, model: nn.Module) -> Iterator[None]:
    """Inside, every batch norm of the model in training sees the rows of all ranks.

    torch's own SyncBatchNorm does not run on CPUs, nor for a rank without rows.
    """
    norms = [m for m in model.modules() if isinstance(m, KINDS)] if ranks.size > 1 else []
    for norm in norms:
        norm.forward = partial(_forward, norm)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for norm in norms:
            del norm.forward


def _forward(norm: Any, x: Tensor) -> Tensor:
    """y = (x - m) / sqrt(v + eps) weight + bias, with m and v of each channel over all ranks."""
    if not norm.training and norm.running_mean is not None:
        found: Tensor = type(norm).forward(norm, x)
        return found
    shape = (1, -1) + (1,) * (x.ndim - 2)
    over = [d for d in range(x.ndim) if d != 1]
    wide = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
    count = wide.new_tensor(wide.numel() // max(wide.shape[1], 1))
    sums: Tensor = _SumOverRanks.apply(torch.cat([wide.sum(over), count[None]]))  # type: ignore[no-untyped-call]
    count = sums[-1].detach()
    mean = sums[:-1] / count
    centred = wide - mean.view(shape)
    squares: Tensor = _SumOverRanks.apply(centred.square().sum(over))  # type: ignore[no-untyped-call]
    variance = squares / count
    _remember(norm, mean.detach(), variance.detach(), count)
    y: Tensor = centred * (variance + norm.eps).rsqrt().view(shape)
    if norm.affine:
        y = y * norm.weight.view(shape) + norm.bias.view(shape)
    return y.to(x.dtype)


@torch.no_grad()
def _remember(norm: Any, mean: Tensor, variance: Tensor, count: Tensor) -> None:
    """The running statistics, as torch keeps them."""
    if norm.running_mean is None:
        return
    norm.num_batches_tracked.add_(1)
    share = norm.momentum
    if share is None:
        share = 1.0 / float(norm.num_batches_tracked)
    norm.running_mean.lerp_(mean.to(norm.running_mean), share)
    unbiased = variance * (count / (count - 1).clamp(min=1))
    norm.running_var.lerp_(unbiased.to(norm.running_var), share)


class _SumOverRanks(torch.autograd.Function):
    """The sum over ranks; every rank's result depends on it, so that slopes are summed as well."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        found = x.detach().clone()
        distributed.all_reduce(found)
        return found

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        found = upstream.contiguous().clone()
        distributed.all_reduce(found)
        return found


EVEN = frozenset(
    (
        *("bernoulli", "bernoulli_", "uniform_", "normal", "normal_", "exponential_", "cauchy_"),
        *("geometric_", "log_normal_", "random_", "rand", "randn", "randint", "rand_like"),
        *("randn_like", "randint_like", "native_dropout"),
    )
)
"""Operations that take the same count of random numbers for each row, whatever it holds."""
DROPPED = ("dropout_p", "dropout")
"""Arguments that say whether an operation that computes something else draws numbers as well."""


def global_rng(ranks: Ranks, rows: int) -> AbstractContextManager[object]:
    """Inside, a model that gets this rank's share of a batch of so many rows draws for all of them.

    All ranks must come with the same states of torch's generators. Numbers for rows are drawn for
    those of every rank, and this rank's are taken: they are those of one process. So is where the
    generators stand afterwards, unless this rank has no rows, or takes other things for rows than
    the other ranks do; let them start afresh at every step, so that this ends with it.
    """
    return nullcontext() if ranks.size == 1 else _GlobalRNG(ranks, rows)


class _GlobalRNG(TorchDispatchMode):
    """Sees every operation on tensors, also those of which torch's own modules consist.

    Rows are taken to lie along the first dimension that is as long as this rank has rows, else
    along the first one of all where its length is a multiple of that (rows x heads of attention).
    Sizes say no more than that: (1, 1) on a rank with one row may be a number for this row or one
    for all, and it is the former (stochastic depth by rows is the common kind).
    """

    def __init__(self, ranks: Ranks, rows: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        mine = ranks.share(torch.arange(rows))
        self.rank, self.rows, self.mine = ranks.rank, rows, len(mine)
        self.first = int(mine[0]) if len(mine) else 0

    def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not _draws(func) or _drops_nothing(func, args, kwargs):
            return func(*args, **kwargs)
        given = [args] if func.overloadpacket is torch.ops.aten.randperm else args
        sizes = [size for size in map(_size, given) if size is not None]
        along = next((found for found in map(self._along, sizes) if found), None)
        if along is None:  # nothing of rows: all ranks draw the same
            return func(*args, **kwargs)
        if func.overloadpacket.__name__ in EVEN:
            return self._for_all(along, func, args, kwargs)
        return self._apart(func, args, kwargs)

    def _along(self, size: Sequence[int]) -> tuple[int, int] | None:
        """The dimension of the rows, and its length per row."""
        if self.mine in size:
            return list(size).index(self.mine), 1
        if self.mine and size and size[0] and size[0] % self.mine == 0:
            return 0, size[0] // self.mine
        return None

    def _for_all(self, along: tuple[int, int], func: Any, args: Any, kwargs: Any) -> Any:
        wide = [self._widened(arg, *along) for arg in args]
        found = func(*wide, **kwargs)
        if found is wide[0]:  # it was filled in place
            return args[0].copy_(self._own(found, *along))
        if isinstance(found, tuple):
            return tuple(self._own(one, *along).clone() for one in found)
        return self._own(found, *along).clone()  # what is drawn for others is not kept

    def _widened(self, arg: Any, dim: int, times: int) -> Any:
        """A tensor, or a size, with the rows of all ranks; those of others hold ones."""
        size = _size(arg)
        if size is None or len(size) <= dim or size[dim] != times * self.mine:
            return arg
        every = [times * self.rows if d == dim else length for d, length in enumerate(size)]
        if not isinstance(arg, Tensor):
            return every
        order = sorted(
            range(arg.ndim), key=arg.stride().__getitem__, reverse=True
        )  # as it lies in memory
        wide = torch.empty_permuted(every, order, dtype=arg.dtype, device=arg.device).fill_(1)
        self._own(wide, dim, times).copy_(arg)
        return wide

    def _own(self, wide: Tensor, dim: int, times: int) -> Tensor:
        return wide.narrow(dim, times * self.first, times * self.mine)

    def _apart(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What one process would draw cannot be told: numbers of this rank's own.

        Afterwards the generators of all ranks stand alike, whatever each has drawn.
        """
        devices = {arg.device for arg in args if isinstance(arg, Tensor) and arg.is_cuda}
        seed = int(torch.randint(1 << 60, ()))
        with torch.random.fork_rng(devices=list(devices)):
            torch.manual_seed(seed + self.rank)
            return func(*args, **kwargs)


def _size(arg: Any) -> Sequence[int] | None:
    if isinstance(arg, Tensor):
        return arg.shape
    is_size = isinstance(arg, (list, tuple)) and all(isinstance(n, int) for n in arg)
    return arg if is_size and arg else None


@cache
def _draws(func: Any) -> bool:
    tagged = torch.Tag.nondeterministic_seeded in func.tags
    return tagged or func.overloadpacket.__name__ in EVEN


def _drops_nothing(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether it is, say, attention without dropout."""
    for at, argument in enumerate(func._schema.arguments):
        if argument.name in DROPPED:
            held = args[at] if at < len(args) else kwargs.get(argument.name, argument.default_value)
            return not held
    return False
