"""The dft head with its labels spread over ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from labelset.data import SparseRows
from labelset.distributed._place import chunk, joined
from labelset.distributed._ranks import entered

__all__ = ["ShardedDFT"]


class ShardedDFT(nn.Module):
    """logits = [F S] (P e + c), each rank computing those of its own rows of F and S.

    P and c are on every rank, and their gradients are whole there; S is a DTensor, `Shard(0)`, and
    the rows of F follow from the formula. Names are those of the head it was made from.
    """

    order: Tensor
    frequencies: Tensor
    slack: Any

    def __init__(self, whole: Any, mesh: Any) -> None:
        super().__init__()
        from torch.distributed.tensor import Shard, distribute_tensor

        if whole.slack.device.type == "meta":
            raise ValueError("a dft head on the meta device cannot be spread; make it on the CPU")
        self.mesh, self.n, self.k, self._formula = mesh, whole.n, whole.k, whole.fourier
        self.projection = whole.projection
        part = distribute_tensor(whole.slack.detach(), mesh, [Shard(0)])
        self.slack = nn.Parameter(part, whole.slack.requires_grad)
        self.register_buffer("order", whole.order)
        self.register_load_state_dict_post_hook(_after_load)  # type: ignore[no-untyped-call]
        self._renew()

    def forward(self, features: Tensor | SparseRows) -> Tensor:
        """(..., labels) as a DTensor, of which this rank has its labels."""
        if isinstance(features, SparseRows):
            x = features @ self.projection.weight.T + self.projection.bias
        else:
            x = self.projection(features)
        rows = torch.cat([self.frequencies, self.slack.to_local()], dim=1)
        return joined(linear(entered(x, self.mesh.get_group()), rows), self.n, self.mesh)

    def _apply(self, fn: Any, recurse: bool = True) -> ShardedDFT:
        """Moves as modules do, the fixed part being made anew so that it never loses precision."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._renew()
        return self

    def _renew(self) -> None:
        first, last, _ = chunk(self.n, self.mesh.size(), self.mesh.get_local_rank())
        rows = self._formula(self.order[first:last], self.n, self.k)
        self.register_buffer("frequencies", rows.to(self.projection.weight), persistent=False)

    def extra_repr(self) -> str:
        return f"labels={self.n}, k={self.k}, held={len(self.frequencies)}"


def _after_load(head: Any, _: Any) -> None:
    """The order of the labels may have changed."""
    head._renew()
