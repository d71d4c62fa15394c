"""Randomness from arguments only: what a seed and a step say, and no state left changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

__all__ = ["draw_from", "generators_kept", "mixed", "seeded", "shuffled"]


def mixed(seed: int, what: str) -> int:
    """A seed for one purpose, made of the seed of the run."""
    return int.from_bytes(hashlib.sha256(f"{seed} {what}".encode()).digest()[:7], "big")


@contextmanager
def generators_kept(device: str = "cpu") -> Iterator[None]:
    """Afterwards torch's own generators, the CPU's and the device's, are as before."""
    with torch.random.fork_rng(devices=[] if device == "cpu" else [device]):
        yield


def draw_from(seed: int, what: str, device: str = "cpu") -> None:
    """Let them go on from `mixed(seed, what)`; `torch.manual_seed` takes forty times as long."""
    start = mixed(seed, what)
    torch.default_generator.manual_seed(start)
    if device != "cpu":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(start)


@contextmanager
def seeded(seed: int, what: str) -> Iterator[None]:
    """They start at `mixed(seed, what)`; afterwards the CPU's is as before."""
    with generators_kept():
        torch.manual_seed(mixed(seed, what))
        yield


def shuffled(rows: Tensor, batch: int, seed: int) -> tuple[Tensor, ...]:
    """The rows in random order, in batches of at most `batch`, as equal in size as can be."""
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    return rows[order].tensor_split(-(-len(rows) // batch))
