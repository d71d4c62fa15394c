"""One training by several ranks: each takes a share of every batch, the numbers being one's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from labelset import check
from labelset.distributed import global_batch
from labelset.losses import Loss
from labelset.train._ranks import Ranks
from labelset.train._sharded import cut, cut_optimiser, shard, whole

__all__ = ["PARALLEL", "Parallel"]

PARALLEL = ("auto", "alone", "ddp", "fsdp")


@dataclass(eq=False)
class Parallel:
    """Who trains together, and whether each has all weights (ddp) or a share of them (fsdp)."""

    ranks: Ranks = field(default_factory=Ranks)
    sharded: bool = False
    _plain: Any = None

    @classmethod
    def by(cls, how: str) -> Parallel:
        """`auto`: ddp where a process group is running; `alone`: in this process only."""
        check.one_of("parallel", how, PARALLEL)
        ranks = Ranks() if how == "alone" else Ranks.running()
        return cls(ranks, sharded=how == "fsdp" and ranks.size > 1)

    def spread(self, model: nn.Module, device: str, example: Any) -> nn.Module:
        """What is called in training; it has the model's weights, or cuts them in place.

        `example`: some inputs, which show whether the model uses all of its weights.
        """
        if self.sharded:
            if getattr(model, "encoder", None) is None:
                raise ValueError("fsdp is for an encoder that is trained, here is none; take ddp")
            self._plain = copy.deepcopy(model)
            shard(model, device)
            return model.to(device)
        model.to(device)
        if self.ranks.size == 1:
            return model
        unused = _has_unused(model, example if device == "cpu" else example.to(device))
        return nn.parallel.DistributedDataParallel(model, find_unused_parameters=unused)

    def loss(self, loss: Loss) -> Loss:
        """The loss of the rows of all ranks, its gradient to be averaged over them."""
        return loss if self.ranks.size == 1 else global_batch(loss, ddp=True)

    @contextmanager
    def applied(
        self, model: nn.Module, weights: Mapping[str, Tensor]
    ) -> Iterator[Callable[[Any], Any]]:
        """The model with other weights."""
        if not self.sharded:
            yield lambda inputs: functional_call(model, dict(weights), (inputs,))
            return
        own = {name: t.detach().clone() for name, t in model.state_dict().items()}
        model.load_state_dict(weights)
        try:
            yield model
        finally:
            model.load_state_dict(own)

    def finished(self, model: nn.Module, weights: Mapping[str, Tensor]) -> nn.Module:
        """The whole model with these weights, as one process would leave it."""
        model = self._plain if self.sharded else model
        model.load_state_dict(self.whole(weights))
        return model

    # ---- between sessions, whose ranks may be other ones ----------------------------------------

    def whole(self, state: Any) -> Any:
        """Without anything cut; every rank must ask."""
        return whole(state) if self.sharded else state

    def cut(self, held: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Whole weights as the model of this session has them, and where it has them."""
        if self.sharded:
            return cut(held, like)
        return {name: t.to(like[name].device) for name, t in held.items()}

    def cut_optimisers(self, held: list[Any], inner: list[torch.optim.Optimizer]) -> list[Any]:
        """The states of optimisers, likewise."""
        if not self.sharded:
            return held
        return [
            cut_optimiser(one, [p for group in mine.param_groups for p in group["params"]])
            for one, mine in zip(held, inner, strict=True)
        ]


def _has_unused(model: nn.Module, example: Any) -> bool:
    """Whether the scores do not depend on some weights; the ranks would wait for their slopes."""
    learnt = [p for p in model.parameters() if p.requires_grad]
    model.eval()
    slopes = torch.autograd.grad(model(example).sum(), learnt, allow_unused=True)
    return any(slope is None for slope in slopes)
