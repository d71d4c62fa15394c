"""shard_labels: linear layers and the dft head, of which each rank has some labels."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.functional import linear

from labelset import check
from labelset.data import SparseRows
from labelset.distributed._sharding import as_dtensor, chunk, group_of
from labelset.distributed.collectives import ranks, sum_gradient


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
        shard = distribute_tensor(whole.slack.detach(), mesh, [Shard(0)])
        self.slack = nn.Parameter(shard, whole.slack.requires_grad)
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
        return as_dtensor(linear(sum_gradient(x, self.mesh.get_group()), rows), self.n, self.mesh)

    def _apply(self, fn: Any, recurse: bool = True) -> ShardedDFT:
        """Moves as modules do, with the fixed part recomputed, so that it never loses precision."""
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


def shard_labels(module: nn.Module, group: Any = None) -> nn.Module:
    """A linear layer, or the linear layer of a head, with its labels spread over ranks.

    `module` is an `nn.Linear`, or a module whose `classifier` is one (the `linear` head), which
    is changed in place, or the `dft` head. Of n labels each of the R ranks of `group` (None: all;
    or a 1-D DeviceMesh) gets ceil(n / R), the last fewer or none. Rank 0's numbers are used. What
    comes back has the names of what was given; weight and bias (of a dft head, `slack`) are
    DTensors, `Shard(0)`, and so are the logits, `Shard(1)`, for `over_labels`. Features are plain
    tensors or `SparseRows`, the same on every rank.

    Where no rank can hold the whole weight, give a layer made with `device="meta"`, then call
    `to_empty(device=...)` and `reset_parameters()`, or load a checkpoint.

    Without a process group the module comes back as it is.

    >>> shard_labels(nn.Linear(3, 5))
    Linear(in_features=3, out_features=5, bias=True)
    """
    slack = getattr(module, "slack", None)
    if isinstance(slack, Tensor) and getattr(module, "name", None) == "dft":
        alone = ranks(group_of(group)) == 1
        return module if alone else ShardedDFT(module, _mesh(group, slack.device.type))
    inner = module if isinstance(module, nn.Linear) else getattr(module, "classifier", None)
    if not isinstance(inner, nn.Linear):
        raise TypeError(
            "shard_labels takes an nn.Linear, a module whose classifier is one (the linear head), "
            f"or the dft head, got {type(module).__name__}"
        )
    if ranks(group_of(group)) == 1:
        return module
    sharded = ShardedLinear(inner, _mesh(group, inner.weight.device.type))
    if inner is module:
        return sharded
    module.classifier = sharded
    return module


class ShardedLinear(nn.Module):
    """logits = W e + b, each rank computing those of its own rows of W."""

    weight: Any
    bias: Any

    def __init__(self, whole: nn.Linear, mesh: Any) -> None:
        super().__init__()
        from torch.distributed.tensor import Shard, distribute_tensor

        self.in_features, self.out_features = whole.in_features, whole.out_features
        self.mesh = mesh
        for name in ("weight", "bias"):
            given = getattr(whole, name)
            if given is not None:
                shard = distribute_tensor(given.detach(), mesh, [Shard(0)])
                given = nn.Parameter(shard, given.requires_grad)
            self.register_parameter(name, given)

    def forward(self, features: Tensor | SparseRows) -> Tensor:
        """(..., labels) as a DTensor, of which this rank has its labels."""
        w, b = self.weight.to_local(), None if self.bias is None else self.bias.to_local()
        if isinstance(features, SparseRows):
            v = features @ w.T if b is None else features @ w.T + b
        else:
            v = linear(sum_gradient(features, self.mesh.get_group()), w, b)
        return as_dtensor(v, self.out_features, self.mesh)

    @torch.no_grad()
    def reset_parameters(self, seed: int = 0) -> None:
        """Numbers from +-1 / sqrt(features), as in `nn.Linear`; each rank draws its own."""
        check.whole("seed", seed)
        for parameter in (self.weight, self.bias):
            if parameter is None:
                continue
            local = parameter.to_local()
            own = seed * self.mesh.size() + self.mesh.get_local_rank()
            draw = torch.Generator(local.device).manual_seed(own)
            local.uniform_(-1, 1, generator=draw).div_(math.sqrt(self.in_features))

    def extra_repr(self) -> str:
        held = len(self.weight.to_local())
        return f"in_features={self.in_features}, out_features={self.out_features}, held={held}"


def _mesh(group: Any, device: str) -> Any:
    from torch.distributed.device_mesh import DeviceMesh

    if isinstance(group, DeviceMesh):
        return group
    group = distributed.group.WORLD if group is None else group
    if device == "meta":
        device = "cuda" if distributed.get_backend(group) == "nccl" else "cpu"
    return DeviceMesh.from_group(group, device)
