"""Sums over ranks that say what has happened when a rank is lost."""

from __future__ import annotations

from typing import Any

from torch import Tensor, distributed

__all__ = ["RankLost", "all_reduce"]


class RankLost(RuntimeError):
    """Another rank has ended, or does not answer."""


def all_reduce(x: Tensor, op: Any = None, group: Any = None) -> None:
    """`torch.distributed.all_reduce`, with an error in words.

    A rank that was killed is noticed at once by gloo; one that hangs, when the time is over that
    `init_process_group(timeout=...)` has set.
    """
    try:
        distributed.all_reduce(x, distributed.ReduceOp.SUM if op is None else op, group=group)
    except RuntimeError as error:
        raise RankLost(
            f"rank {distributed.get_rank()} waits for the others in vain: one of them was killed, "
            "has failed, or has not answered within the time that init_process_group(timeout=...) "
            f"sets; its own messages say why ({' '.join(str(error).split())})"
        ) from None
