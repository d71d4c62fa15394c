"""What can compute a loss: its implementations here, torch.compile of its formula, and peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from labelset import check, losses
from labelset.bench._peers import PEERS, installed, peer, peers_of
from labelset.kernels import _choice
from labelset.labels import Labels
from labelset.losses import Loss

__all__ = ["COMPILED", "IMPLEMENTATIONS", "Ready", "chosen", "example", "of_loss", "ready", "usual"]

OWN = ("eager", "torch.compile", "compiled", "triton", "native", "auto")
IMPLEMENTATIONS = (*OWN, *PEERS)
COMPILED = ("torch.compile", "compiled")


class Ready(NamedTuple):
    """A function of scores and labels, and the labels in the form that it takes."""

    function: Callable[[Tensor, Any], Tensor]
    labels: Any


def usual(device: str, everything: bool = False) -> list[str]:
    """Those that are there on this device; on a CPU the compiled ones only with `everything`.

    >>> usual("cpu")[0]
    'eager'
    """
    scores = torch.empty(1, 1, device=device)
    kernels = [name for name in ("triton", "native") if _choice.missing(name, scores) is None]
    compiled = COMPILED if everything or scores.device.type != "cpu" else ()
    return ["eager", *compiled, *kernels, *(name for name in PEERS if installed(name))]


def chosen(names: list[str]) -> list[str]:
    """The names, each checked, each once."""
    for name in names:
        if name not in IMPLEMENTATIONS:
            hint = check.nearest(name, IMPLEMENTATIONS)
            raise ValueError(f"no implementation is called {name!r}: {hint}")
        if name in PEERS and not installed(name):
            raise ValueError(f"the package {name} is not installed; install it or leave it out")
    return list(dict.fromkeys(names))


def of_loss(loss: str, names: list[str]) -> list[str]:
    """Those of the implementations that this loss has: a peer only where it corresponds.

    >>> of_loss("hill", ["eager", "torch"])
    ['eager']
    """
    return [name for name in names if name in OWN or name in peers_of(loss)]


def ready(loss: str, implementation: str, labels: Tensor | Labels, dtype: torch.dtype) -> Ready:
    """The implementation of the loss at its first example, with labels made ready beforehand."""
    if implementation in PEERS:
        dense = labels.dense(dtype) if isinstance(labels, Labels) else labels.to(dtype)
        return Ready(peer(implementation, loss), dense)
    if implementation == "torch.compile":
        return Ready(torch.compile(example(loss, "eager").eager), labels)
    return Ready(example(loss, implementation), labels)


def example(loss: str, impl: str) -> Loss:
    """The loss with the first of the hyperparameters that it gives as examples."""
    return losses.build(loss, **{**losses.catalog.get(loss).examples[0], "impl": impl})
