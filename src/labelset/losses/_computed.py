"""How a loss is computed: by the kernel for calls of a kind, or by the formula as it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from labelset import check
from labelset.kernels._choice import choose
from labelset.kernels._gradient import Kernel, differentiable
from labelset.kernels._kinds import call_kind
from labelset.losses._target import kernel_target

if TYPE_CHECKING:
    from labelset.losses._base import Loss

__all__ = ["computed", "tensors_of"]

MOST = 256  # kinds of calls that a loss remembers
MISSING: Any = object()


def computed(loss: Loss, logits: Tensor, labels: Any) -> Tensor:
    """The value of the loss; what the first call of a kind finds out, the next ones know."""
    kind = call_kind(logits, labels)
    if kind is not None and loss._learns():
        kind = None
    kernel, target = MISSING if kind is None else loss._kernels.get(kind, MISSING), labels
    if kernel is MISSING:
        kernel, target = fitting(loss, logits, labels)
        if kind is not None and target is labels and not loss.looks_at_labels:
            if len(loss._kernels) >= MOST:
                loss._kernels.clear()
            loss._kernels[kind] = kernel
    if kernel is None:
        return loss.eager(logits, target)
    return differentiable(logits, target, kernel, loss.eager)


def fitting(loss: Loss, logits: Tensor, labels: Any) -> tuple[Kernel | None, Any]:
    """The kernel for logits and labels, which it checks, or None; the labels as it reads them."""
    impl = choose(loss.impl, check.scores(logits), labels)
    if impl == "eager" or loss.reduction == "none" or not logits.numel():
        return None, labels
    target = kernel_target(logits, labels)
    found = None
    if not loss._learns():
        found = loss._compiled if impl == "compiled" else loss.kernel(impl, logits, target)
    if found is None and loss.impl != "auto":
        raise RuntimeError(
            f'{type(loss).__name__} as it is built here has no kernel; use impl="auto"'
        )
    return found, target


def tensors_of(loss: Loss) -> list[Tensor]:
    """The hyperparameters that are tensors, those of inner losses included."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    def visit(inner: Loss) -> Loss:
        inner._map(visit, note)
        return inner

    visit(loss)
    return found
