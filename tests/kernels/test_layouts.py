"""How matrices are cut into tiles: every entry is in one of them, and in no more than one."""

import pytest

from labelset.kernels.triton import axes, confusion
from labelset.kernels.triton.layout import is_small

SIZES = [1, 2, 3, 15, 16, 17, 80, 127, 256, 257, 1025, 4096, 8193, 20_000, 131_072, 3_000_001]
SHAPES = [(rows, n) for rows in SIZES for n in SIZES if rows * n < 2**40]


def power_of_two(x):
    return x > 0 and x & (x - 1) == 0


def layouts(module, rows, n, axis, stored):
    if module is confusion:
        return [module.layout_of(rows, n, axis, stored)]
    return [module.layout_of(rows, n, axis, item, stored) for item in (2, 4)]


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("module", [confusion, axes])
def test_every_entry_is_in_one_tile(module, axis, stored):
    for rows, n in SHAPES:
        if module is axes and axis == 1 and is_small(rows, n, 0, stored):
            continue  # a small matrix is gone through one way only
        for at in layouts(module, rows, n, axis, stored):
            assert power_of_two(at.height)
            assert power_of_two(at.width)
            assert at.height * at.width <= 4096  # registers for all of a tile
            assert at.steps % at.unroll == 0
            across, along = (n, rows) if axis == 0 else (rows, n)
            size, step = (at.width, at.height) if axis == 0 else (at.height, at.width)
            assert (at.blocks - 1) * size < across <= at.blocks * size
            assert (at.chunks - 1) * at.steps * step < along <= at.chunks * at.steps * step


@pytest.mark.parametrize("module", [confusion, axes])
def test_a_warp_goes_through_stored_labels_alone(module):
    """All of a tile is then in its registers: 16 numbers of each thread at most."""
    assert module.STORED.warps == 1
    for rows, n in SHAPES:
        for at in layouts(module, rows, n, 0, True):
            assert at.height * at.width <= 16 * 32
