"""Launches by what was compiled before, which takes its arguments by their places."""

import pytest

from labelset.kernels.triton.launch import Launch

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@triton.jit
def nothing(x, n, ONE: tl.constexpr, TWO: tl.constexpr):
    pass


def test_constants_are_in_the_order_of_the_kernel():
    assert Launch(nothing, {"ONE": 1, "TWO": 2}).values == (1, 2)
    assert Launch(nothing, {"TWO": 2, "ONE": 1}).values == (1, 2)
    for wrong in ({"ONE": 1}, {"ONE": 1, "TOW": 2}, {"n": 1, "ONE": 1, "TWO": 2, "X": 3}):
        with pytest.raises(ValueError, match="the constants of nothing are"):
            Launch(nothing, wrong)
