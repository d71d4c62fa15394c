"""Kernels: value and gradient of a loss in one pass, written from its formula."""

from typing import TYPE_CHECKING

from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.kernels.dispatch import (
        IMPLEMENTATIONS,
        Kernel,
        Result,
        choose,
        compiled,
        differentiable,
        has_triton,
        in_use,
        label_types,
        missing,
        multiplied,
        signature,
    )
else:
    __getattr__, __dir__ = door(__name__)


__all__ = [
    "IMPLEMENTATIONS",
    "Kernel",
    "Result",
    "choose",
    "compiled",
    "differentiable",
    "has_triton",
    "in_use",
    "label_types",
    "missing",
    "multiplied",
    "signature",
]
