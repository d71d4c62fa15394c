"""Weights that are cut over ranks (FSDP2), and whole again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn

__all__ = ["cut", "cut_optimiser", "is_cut", "shard", "whole"]

LISTS = (nn.ModuleList, nn.ModuleDict)  # they have no forward pass of their own


def is_cut(t: Any) -> bool:
    """Whether ranks hold a share each: a DTensor, whose module takes a second to import."""
    return hasattr(t, "full_tensor")


def shard(model: nn.Module, device: str) -> None:
    """Cut every weight over all ranks; each layer's are gathered when it is their turn.

    Layers are the members of lists and sequences of modules, which is where networks keep their
    blocks; what is in none of them is gathered with the model as a whole. All ranks start with
    the weights of the first.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    kind = torch.device(device).type
    if kind == "cpu" and torch.__version__.startswith("2.6."):
        raise RuntimeError("fsdp of torch 2.6 does not run on a CPU; update torch, or take ddp")
    mesh = init_device_mesh(kind, (distributed.get_world_size(),))
    for t in model.state_dict().values():
        there = t.to(device)
        distributed.broadcast(there, src=0)
        t.copy_(there)
    lists = [m for m in model.modules() if isinstance(m, (nn.ModuleList, nn.Sequential))]
    for members in reversed(lists):  # inner ones first
        for layer in members:
            if any(p.requires_grad for p in layer.parameters()) and not isinstance(layer, LISTS):
                fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def whole(held: Any) -> Any:
    """The same dicts and lists, each tensor complete; every rank must ask."""
    if isinstance(held, Mapping):
        return {key: whole(value) for key, value in held.items()}
    if isinstance(held, (list, tuple)):
        return [whole(value) for value in held]
    return held.full_tensor() if is_cut(held) else held


def cut(held: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Complete tensors cut as those of the same name are."""
    return {name: _cut(t, like[name]) for name, t in held.items()}


def cut_optimiser(held: Mapping[str, Any], params: Sequence[Tensor]) -> dict[str, Any]:
    """An optimiser's state, of which what has the shape of a weight is cut as that is."""
    state = {
        at: {name: _cut(t, params[at]) if _alike(t, params[at]) else t for name, t in facts.items()}
        for at, facts in held["state"].items()
    }
    return {**held, "state": state}


def _alike(t: Any, p: Tensor) -> bool:
    return isinstance(t, Tensor) and t.ndim > 0 and t.shape == p.shape


def _cut(t: Tensor, like: Any) -> Tensor:
    if not is_cut(like):
        return t
    from torch.distributed.tensor import distribute_tensor

    place = like.to_local().device
    return distribute_tensor(t.to(place), like.device_mesh, like.placements, src_data_rank=None)
