"""The same losses as people write them, and as other packages give them where installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from labelset.bench._plain import PLAIN

__all__ = ["PEERS", "installed", "peer", "peers_of"]

Function = Callable[[Tensor, Tensor], Tensor]


def _plain(loss: str) -> Function:
    return PLAIN[loss]


def _torch_bce() -> Function:
    return binary_cross_entropy_with_logits


def _timm_bce() -> Function:
    made: Function = import_module("timm.loss").BinaryCrossEntropy(smoothing=0.0)
    return made


def _torchvision_focal() -> Function:
    focal = import_module("torchvision.ops").sigmoid_focal_loss
    return lambda scores, on: focal(scores, on, alpha=-1.0, gamma=2.0, reduction="mean")


def _timm_asl() -> Function:
    """With the settings that `asl` has here; older versions know only the sum."""
    asl: Any = import_module("timm.loss").AsymmetricLossMultiLabel
    settings = {"gamma_pos": 0.0, "gamma_neg": 4.0, "clip": 0.05}
    try:
        made: Function = asl(**settings, reduction="mean")
    except TypeError:
        total = asl(**settings)
        return lambda scores, on: total(scores, on) / scores.numel()
    return made


PEERS: dict[str, dict[str, Callable[[], Function]]] = {
    "plain": {loss: partial(_plain, loss) for loss in PLAIN},
    "torch": {"bce": _torch_bce},
    "torchvision": {"focal": _torchvision_focal},
    "timm": {"bce": _timm_bce, "asl": _timm_asl},
}
"""Package, or "plain" -> loss -> what makes its function of scores and a floating-point target."""


def installed(package: str) -> bool:
    """Whether the package can be imported; plain formulas need none.

    >>> installed("torch")
    True
    """
    return package == "plain" or find_spec(package) is not None


def peers_of(loss: str) -> list[str]:
    """The packages that have this loss too, installed or not.

    >>> peers_of("bce")
    ['torch', 'timm']
    """
    return [package for package, known in PEERS.items() if loss in known]


def peer(package: str, loss: str) -> Function:
    """That package's loss, a mean over all entries, at the hyperparameters measured here."""
    return PEERS[package][loss]()
