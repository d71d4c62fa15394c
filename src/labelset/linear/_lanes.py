"""Two lanes of work on a GPU: the products of one block beside the kernel of the next."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import linear

__all__ = ["Lanes", "OneLane"]


@lru_cache(maxsize=16)
def side_stream(device: torch.device) -> torch.cuda.Stream:
    """One for each device: every new stream brings a workspace of its own for its products."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class OneLane:
    """One thing after the other: what a CPU does, and blocks whose slopes are new tensors."""

    def logits(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        return linear(x, w, b)

    def after(self, work: Callable[[], None]) -> None:
        """Work on the slopes of the block just done."""
        work()

    def join(self) -> None:
        """Waits, on the device, until all of it is done."""


class Lanes(OneLane):
    """Matrix products fill the tensor cores, the kernel of the loss the others: so both at once.

    The logits of two blocks lie in two buffers; one is written again when the products that
    read it are done. The host waits for nothing.
    """

    def __init__(self, x: Tensor, width: int) -> None:
        self.main = torch.cuda.current_stream(x.device)
        self.side = side_stream(x.device)
        self.side.wait_stream(self.main)
        self.buffers = [x.new_empty(len(x) * width) for _ in range(2)]
        self.done: list[torch.cuda.Event | None] = [None, None]
        self.turn = 0

    def logits(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        free = self.done[self.turn]
        if free is not None:
            self.main.wait_event(free)
        out = self.buffers[self.turn][: len(x) * len(w)].view(len(x), len(w))
        if b is None:
            return torch.mm(x, w.T, out=out)
        return torch.addmm(b, x, w.T, out=out)

    def after(self, work: Callable[[], None]) -> None:
        self.side.wait_stream(self.main)
        with torch.cuda.stream(self.side):
            work()
            self.done[self.turn] = self.side.record_event()
        self.turn = 1 - self.turn

    def join(self) -> None:
        self.main.wait_stream(self.side)
