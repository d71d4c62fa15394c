"""Random numbers of the global batch: each row gets those that one process would give it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from labelset.train._ranks import Ranks

__all__ = ["draws_over"]

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


def draws_over(ranks: Ranks, rows: int) -> AbstractContextManager[object]:
    """Inside, a model that gets this rank's share of a batch of so many rows draws for all of them.

    All ranks must come with the same states of torch's generators. Numbers for rows are drawn for
    those of every rank, and this rank's are taken: they are those of one process. So is where the
    generators stand afterwards, unless this rank has no rows, or takes other things for rows than
    the other ranks do; let them start afresh at every step, so that this ends with it.
    """
    return nullcontext() if ranks.size == 1 else _GlobalDraws(ranks, rows)


class _GlobalDraws(TorchDispatchMode):
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
