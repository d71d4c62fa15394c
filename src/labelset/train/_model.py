"""Encoder and head as one module, and its scores for many rows."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from labelset.data import SparseRows, Stored
from labelset.data._stored import per_row
from labelset.heads import Head
from labelset.train._parallel import Parallel
from labelset.train._task import Task

__all__ = ["Model", "scores"]

ENTRIES = 1 << 22
"""Scores that are computed together: 16 MB; of inputs on disk, a quarter of it."""


class Model(nn.Module):
    """logits = head(encoder(inputs)), or head(inputs) where nothing before it is trained.

    `wide`: all of it in float64, inputs as well.
    """

    def __init__(self, encoder: nn.Module | None, head: Head, wide: bool = False) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.wide = wide
        if wide:
            self.double()

    def forward(self, inputs: Tensor | SparseRows) -> Tensor:
        if self.wide and isinstance(inputs, Tensor) and inputs.is_floating_point():
            inputs = inputs.double()  # sparse rows take after the weight
        logits: Tensor = self.head(inputs if self.encoder is None else self.encoder(inputs))
        return logits


@torch.no_grad()
def scores(
    model: Model,
    weights: Mapping[str, Tensor],
    task: Task,
    rows: Tensor,
    device: str,
    parallel: Parallel,
) -> Tensor:
    """(rows, labels) float32 logits on the CPU, by the given weights.

    Each rank computes those of its share of the rows, and gets all.
    """
    model.eval()
    stored = isinstance(task.inputs, Stored)
    widest = max(task.labels.n, 4 * per_row(task.inputs) if stored else 1)
    size, ranks = max(16, min(4096, ENTRIES // widest)), parallel.ranks
    out = torch.empty(len(rows), task.labels.n)
    with parallel.applied(model, weights) as forward:
        for start in range(0, len(rows), size * ranks.size):
            some = rows[start : start + size * ranks.size]
            inputs: Tensor | SparseRows = task.inputs[ranks.padded_share(some)]
            there = inputs if device == "cpu" else inputs.to(device)
            out[start : start + len(some)] = ranks.joined(forward(there), len(some))
    return out
