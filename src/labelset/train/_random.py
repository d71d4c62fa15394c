"""Randomness from arguments only: what a seed and an epoch say, and no state left changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

__all__ = ["mixed", "random_state", "seeded", "set_random_state", "shuffled"]


def mixed(seed: int, what: str) -> int:
    """A seed for one purpose, made of the seed of the run."""
    return int.from_bytes(hashlib.sha256(f"{seed} {what}".encode()).digest()[:7], "big")


@contextmanager
def seeded(seed: int, what: str, device: str = "cpu") -> Iterator[None]:
    """Torch's own generators start at `mixed(seed, what)`; afterwards they are as before."""
    with torch.random.fork_rng(devices=[] if device == "cpu" else [device]):
        torch.manual_seed(mixed(seed, what))
        yield


def random_state(device: str) -> list[Tensor]:
    """Where torch's own generators stand: the CPU's, and the device's where it is another."""
    with_device = [] if device == "cpu" else [torch.cuda.get_rng_state(device)]
    return [torch.get_rng_state(), *with_device]


def set_random_state(state: list[Tensor], device: str) -> None:
    """Let them go on from there."""
    torch.set_rng_state(state[0])
    if device != "cpu":
        torch.cuda.set_rng_state(state[1], device)


def shuffled(rows: Tensor, batch: int, seed: int) -> tuple[Tensor, ...]:
    """The rows in random order, in batches of at most `batch`, as equal in size as can be."""
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    return rows[order].tensor_split(-(-len(rows) // batch))
