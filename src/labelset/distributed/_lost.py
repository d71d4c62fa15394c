"""Sums over ranks that say what has happened when a rank is lost."""

from __future__ import annotations

from typing import Any

from torch import Tensor, distributed

__all__ = ["RankLost", "all_reduce", "in_words"]

LOST = ("gloo/transport", "Socket Timeout", "NCCL")
"""Of which one is in what torch says when another rank does not answer."""


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
        raise _lost(error) from None


def in_words(error: BaseException) -> BaseException:
    """The error, or `RankLost` where torch's own words for that came from another call."""
    lost = isinstance(error, RuntimeError) and any(words in str(error) for words in LOST)
    return _lost(error) if lost and not isinstance(error, RankLost) else error


def _lost(error: BaseException) -> RankLost:
    return RankLost(
        f"rank {distributed.get_rank()} waits for the others in vain: one of them was killed, "
        "has failed, or has not answered within the time that init_process_group(timeout=...) "
        f"sets; its own messages say why ({' '.join(str(error).split())})"
    )
