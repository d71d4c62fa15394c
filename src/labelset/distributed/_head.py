"""shard_labels: a linear layer of which each rank holds some labels."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.functional import linear

from labelset import check
from labelset.data import SparseRows
from labelset.distributed._dft import ShardedDFT
from labelset.distributed._place import group_of, joined
from labelset.distributed._ranks import entered, ranks

__all__ = ["ShardedLinear", "shard_labels"]


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
                part = distribute_tensor(given.detach(), mesh, [Shard(0)])
                given = nn.Parameter(part, given.requires_grad)
            self.register_parameter(name, given)

    def forward(self, features: Tensor | SparseRows) -> Tensor:
        """(..., labels) as a DTensor, of which this rank has its labels."""
        w, b = self.weight.to_local(), None if self.bias is None else self.bias.to_local()
        if isinstance(features, SparseRows):
            v = features @ w.T if b is None else features @ w.T + b
        else:
            v = linear(entered(features, self.mesh.get_group()), w, b)
        return joined(v, self.out_features, self.mesh)

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
