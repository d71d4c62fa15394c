"""A verb that torchrun starts several times at once: one process group, one voice."""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import timedelta
from functools import wraps
from typing import Any

import torch
from torch import distributed
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from labelset.distributed._lost import in_words

__all__ = ["part", "under_torchrun"]

Verb = Callable[[argparse.Namespace], int | None]

GIVEN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun, and others like it, say in the environment."""
LONG = timedelta(days=30)
"""A rank may wait while another one trains; torchrun ends those that wait for a dead one."""
FAILED = "failed"


def under_torchrun(verb: Verb) -> Verb:
    """The verb, in a process group where there are several ranks.

    The first rank speaks. Whichever fails first says why and the rest are silent: they fail with
    it, or torchrun ends them.
    """

    @wraps(verb)
    def started(args: argparse.Namespace) -> int | None:
        if not _ranks_wanted():
            return verb(args)
        store = _joined()
        try:
            with _silent(distributed.get_rank() > 0):
                status = verb(args)
        except BaseException as error:
            if not _is_first_to_fail(store):
                return 2
            if (lost := in_words(error)) is error:
                raise
            raise lost from None
        part()
        return status

    return started


def _is_first_to_fail(store: Any) -> bool:
    try:
        return bool(store.add(FAILED, 1) == 1)
    except RuntimeError:  # the rank that kept the store has ended, and said why
        return False


def part() -> None:
    """Where the first rank goes on alone: the group ends, of which all calls need every member."""
    if distributed.is_available() and distributed.is_initialized():
        gc.collect()  # models that hold the group go first
        distributed.barrier()
        distributed.destroy_process_group()


def _ranks_wanted() -> bool:
    if distributed.is_available() and distributed.is_initialized():
        return False  # a program of one's own, which has its group already
    return all(name in os.environ for name in GIVEN) and int(os.environ["WORLD_SIZE"]) > 1


def _joined() -> Any:
    """Make the group, CPU tensors by gloo and those on GPUs by nccl; this rank's GPU is current.

    What comes back is a store that all ranks see, and no earlier call of this process.
    """
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


@contextmanager
def _silent(yes: bool) -> Iterator[None]:
    if not yes:
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield
