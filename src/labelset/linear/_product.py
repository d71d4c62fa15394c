"""Matrix products of the size of a block of labels, by whatever is fastest for them."""

from __future__ import annotations

import torch
from torch import Tensor

from labelset.kernels._choice import has_triton

__all__ = ["SumOfProducts", "multiply_", "wide_product"]


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


class SumOfProducts:
    """a @ b of block after block, added up in a dtype of at least 32 bits."""

    def __init__(self, shape: torch.Size, dtype: torch.dtype, device: torch.device) -> None:
        self.total = torch.zeros(shape, dtype=dtype, device=device)
        self.parts: Tensor | None = None

    def add(self, a: Tensor, b: Tensor) -> None:
        """One more."""
        if a.device.type == "cuda" and has_triton():
            from labelset.kernels._product import add_parts_, fits_parts, parts

            if fits_parts(a, b):
                self.parts = parts(a, b) if self.parts is None else self.parts
                return add_parts_(self.parts, a, b)
        if self.total.dtype == a.dtype:
            self.total.addmm_(a, b)
        elif _wide(a) and hasattr(torch.ops.aten.addmm, "dtype_out"):
            torch.addmm(self.total, a, b, out_dtype=self.total.dtype, out=self.total)
        else:
            self.total += a @ b
        return None

    def value(self) -> Tensor:
        """Their sum."""
        return self.total if self.parts is None else self.total + self.parts.sum(0)


def wide_product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, not rounded to 16 bits where the device can leave that out; never to float16."""
    if _wide(a) and hasattr(torch.ops.aten.mm, "dtype"):
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float() if a.dtype == torch.float16 else a @ b


def _wide(a: Tensor) -> bool:
    """Whether the product may be of another dtype: of 16-bit numbers, on a GPU."""
    return a.device.type == "cuda" and a.element_size() == 2
