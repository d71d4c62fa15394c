"""This process among others: what they tell each other, `torchrun`, and a rank that is lost.

Nothing here loads torch until there is more than one process, so that verbs start quickly.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
Verb = Callable[[argparse.Namespace], int | None]

LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""The environment variables that torchrun, and others like it, set."""
LONG = timedelta(days=30)
"""A rank may wait while another one trains; torchrun ends those that wait for a dead one."""
FAILED = "failed"
LOST = ("gloo/transport", "Socket Timeout", "NCCL")
"""Of which one is in what torch says when another rank does not answer."""


class RankLost(RuntimeError):
    """Another rank has ended, or does not answer."""


@dataclass(frozen=True)
class Ranks:
    """This process among `size` of them, all of which make the same calls in the same order.

    >>> import torch
    >>> Ranks().share(torch.arange(3)), Ranks().once(lambda: 7)
    (tensor([0, 1, 2]), 7)
    """

    rank: int = 0
    size: int = 1

    @classmethod
    def running(cls) -> Ranks:
        """Those of torch's process group; one where there is none."""
        if not _in_group():
            return cls()
        from torch import distributed

        return cls(distributed.get_rank(), distributed.get_world_size())

    @property
    def first(self) -> bool:
        """Whether this is the one that writes files and speaks."""
        return self.rank == 0

    def once(self, work: Callable[[], T]) -> T:
        """What the first rank gets from `work`, on every rank; the others wait for it."""
        if self.size == 1:
            return work()
        from torch import distributed

        box: list[Any] = [work() if self.first else None]
        distributed.broadcast_object_list(box, src=0)
        result: T = box[0]
        return result

    def gathered(self, value: T) -> list[T]:
        """Every rank's value, on the first one; nothing on the others."""
        if self.size == 1:
            return [value]
        from torch import distributed

        values: list[Any] | None = [None] * self.size if self.first else None
        distributed.gather_object(value, values, dst=0)
        return values or []

    def wait(self) -> None:
        """Until every rank has come here."""
        if self.size > 1:
            from torch import distributed

            distributed.barrier()

    def share(self, rows: Tensor) -> Tensor:
        """The rows of this rank: one piece of a batch that was cut as evenly as can be."""
        return rows if self.size == 1 else rows.tensor_split(self.size)[self.rank]

    def padded_share(self, rows: Tensor) -> Tensor:
        """The same, of equal length on every rank, the last row standing in where there is none."""
        if self.size == 1:
            return rows
        import torch

        each = -(-len(rows) // self.size)
        return rows[torch.arange(self.rank * each, (self.rank + 1) * each).clamp(max=len(rows) - 1)]

    def joined(self, mine: Tensor, rows: int) -> Tensor:
        """(rows, ...) from what each rank has made of its `padded_share`."""
        if self.size == 1:
            return mine
        import torch
        from torch import distributed

        mine = mine.contiguous()
        parts = [torch.empty_like(mine) for _ in range(self.size)]
        distributed.all_gather(parts, mine)
        return torch.cat(parts)[:rows]

    def dealt(self, items: Sequence[T]) -> Iterator[T]:
        """Each item on one rank only: whoever is free takes the next one."""
        if self.size == 1:
            yield from items
            return
        from labelset.torch_private import group_store

        key, store = self.once(lambda: uuid.uuid4().hex), group_store()
        while (at := int(store.add(key, 1)) - 1) < len(items):
            yield items[at]


def _in_group() -> bool:
    """Whether torch has a process group: where torch was not loaded, nobody has made one."""
    if "torch" not in sys.modules:
        return False
    from torch import distributed

    return bool(distributed.is_available() and distributed.is_initialized())


# ---- a rank that is lost -------------------------------------------------------------------------


def all_reduce(x: Tensor, op: Any = None, group: Any = None) -> None:
    """`torch.distributed.all_reduce`, with an error in words.

    A rank that was killed is noticed at once by gloo; one that hangs, when the time is over that
    `init_process_group(timeout=...)` has set.
    """
    from torch import distributed

    try:
        distributed.all_reduce(x, distributed.ReduceOp.SUM if op is None else op, group=group)
    except RuntimeError as error:
        raise _lost(error) from None


def in_words(error: BaseException) -> BaseException:
    """The error, or `RankLost` where torch's own words for that came from another call."""
    lost = isinstance(error, RuntimeError) and any(words in str(error) for words in LOST)
    return _lost(error) if lost and not isinstance(error, RankLost) else error


def _lost(error: BaseException) -> RankLost:
    return RankLost(
        f"rank {Ranks.running().rank} waits for the others in vain: one of them was killed, "
        "has failed, or has not answered within the time that init_process_group(timeout=...) "
        f"sets; its own messages say why ({' '.join(str(error).split())})"
    )


# ---- verbs under torchrun ------------------------------------------------------------------------


def under_torchrun(verb: Verb) -> Verb:
    """The verb, in a process group where there are several ranks.

    The first rank speaks. Whichever fails first says why and the rest are silent: they fail with
    it, or torchrun ends them.
    """

    @wraps(verb)
    def started(args: argparse.Namespace) -> int | None:
        if not _launched():
            return verb(args)
        store = _join_group()
        try:
            with _silent(not Ranks.running().first):
                status = verb(args)
        except BaseException as error:
            if not _is_first_to_fail(store):
                return 2
            if (lost := in_words(error)) is error:
                raise
            raise lost from None
        leave_group()
        return status

    return started


def leave_group() -> None:
    """Where the first rank goes on alone: the group ends, of which all calls need every member."""
    if _in_group():
        from torch import distributed

        gc.collect()  # models that hold the group go first
        distributed.barrier()
        distributed.destroy_process_group()


def _launched() -> bool:
    """Whether ranks were started that have no group yet, as a program of one's own may have."""
    if not all(name in os.environ for name in LAUNCHED) or int(os.environ["WORLD_SIZE"]) <= 1:
        return False
    return not _in_group()


def _join_group() -> Any:
    """Make the group, CPU tensors by gloo and those on GPUs by nccl; this rank's GPU is current.

    What comes back is a store that all ranks see, and no earlier call of this process.
    """
    import torch
    from torch import distributed
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    backend = "gloo"
    if torch.cuda.is_available():
        backend = "cpu:gloo,cuda:nccl"
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    store, rank, size = next(rendezvous("env://", timeout=LONG))
    time = store.add(f"labelset/calls/{rank}", 1)
    own = PrefixStore(f"labelset/{time}", store)
    inner = PrefixStore("group", own)
    distributed.init_process_group(backend, store=inner, rank=rank, world_size=size, timeout=LONG)
    return own


def _is_first_to_fail(store: Any) -> bool:
    try:
        return bool(store.add(FAILED, 1) == 1)
    except RuntimeError:  # the rank that kept the store has ended, and said why
        return False


@contextmanager
def _silent(yes: bool) -> Iterator[None]:
    if not yes:
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield
