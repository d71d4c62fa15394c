"""Randomness from arguments only: what a seed and an epoch say, and no state left changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

__all__ = ["mixed", "seeded", "shuffled"]


def mixed(seed: int, what: str) -> int:
    """A seed for one purpose, made of the seed of the run."""
    return int.from_bytes(hashlib.sha256(f"{seed} {what}".encode()).digest()[:7], "big")


@contextmanager
def seeded(seed: int, what: str, device: str = "cpu") -> Iterator[None]:
    """Torch's own generators start at `mixed(seed, what)`; afterwards they are as before."""
    with torch.random.fork_rng(devices=[] if device == "cpu" else [device]):
        torch.manual_seed(mixed(seed, what))
        yield


def shuffled(rows: Tensor, batch: int, seed: int) -> tuple[Tensor, ...]:
    """The rows in random order, in batches of at most `batch`, as equal in size as can be."""
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    return rows[order].tensor_split(-(-len(rows) // batch))
