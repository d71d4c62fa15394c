"""Matrix products of the size of a block of labels, by whatever is fastest for them."""

from __future__ import annotations

import torch
from torch import Tensor

from labelset.kernels._choice import has_triton

__all__ = ["add_product_", "multiply_", "wide_product"]


def multiply_(
    a: Tensor, b: Tensor, out: Tensor, bias: Tensor | None = None, scale: float = 1.0
) -> Tensor:
    """out = scale a @ b + bias, all of one dtype."""
    if out.device.type == "cuda" and has_triton():
        from labelset.kernels._product import fits, product_

        if fits(a, b, out):
            return product_(a, b, out, bias, scale)
    if bias is None:
        return torch.addmm(out, a, b, beta=0, alpha=scale, out=out)
    return torch.addmm(bias, a, b, alpha=scale, out=out)


def add_product_(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a @ b, in the dtype of the total."""
    if total.dtype == a.dtype:
        total.addmm_(a, b)
    elif a.device.type == "cuda" and hasattr(torch.ops.aten.addmm, "dtype_out"):
        torch.addmm(total, a, b, out_dtype=total.dtype, out=total)
    else:
        total += a @ b


def wide_product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, not rounded to 16 bits where the device can leave that out; never to float16."""
    if a.device.type == "cuda" and a.element_size() == 2 and hasattr(torch.ops.aten.mm, "dtype"):
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float() if a.dtype == torch.float16 else a @ b
