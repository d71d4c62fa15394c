"""The special functions of the kernels against float64, as Triton's interpreter computes them.

On a GPU some steps are instructions that are good to 22 bits: `benchmarks/agreement.py` is for
those. The interpreter rounds twice where a GPU multiplies and adds at once, which costs `exp` most.
"""

import pytest
import torch

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from labelset.kernels.triton import device_math  # noqa: E402

SIZE = 2**14


@triton.jit
def applied(x, out, function: tl.constexpr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(out + at, function(tl.load(x + at)))


def spread(low, high):
    """From one power of ten to another, evenly in the logarithm."""
    return torch.logspace(low, high, SIZE, dtype=torch.float64)


SCORES = torch.linspace(-80, 80, SIZE, dtype=torch.float64)
AROUND_ONE = torch.cat([1 - spread(-6, -0.01)[::2], 1 + spread(-6, 3)[::2]])
FUNCTIONS = {
    "exp": (SCORES, torch.exp),
    "decay": (SCORES, lambda x: (-x.abs()).exp()),
    "unit": (spread(-8, 0), lambda e: 1 / (1 + e)),
    "reciprocal": (spread(-8, 8), lambda x: 1 / x),
    "log1p_unit": (spread(-8, 0), torch.log1p),
    "log": (AROUND_ONE, torch.log),
    "log1p": (spread(-8, 8), torch.log1p),
    "tanh": (torch.cat([-spread(-6, 1)[::2], spread(-1.5, 0)[::2]]), torch.tanh),
}
SHORT = ("decay", "log1p_unit", "log", "log1p")


@pytest.mark.parametrize(
    ("name", "allowed"),
    [(name, 4e-6 if name in ("exp", "decay") else 4e-7) for name in FUNCTIONS]
    + [(f"{name}_short", 2**-16) for name in SHORT],
)
def test_each_is_as_good_as_it_says(name, allowed):
    x, function = FUNCTIONS[name.removesuffix("_short")]
    x = x.float()
    got = torch.empty(SIZE)
    applied[(1,)](x, got, getattr(device_math, name), SIZE)
    want = function(x.double())
    off = (got.double() - want).abs() / want.abs().clamp(min=1e-37)
    assert off.max() < allowed, f"{off.max():.1e} at {x[off.argmax()]}"
