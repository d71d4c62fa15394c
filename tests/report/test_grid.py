"""One byte per probability, and no decision at a threshold of the grid changes."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from labelset.decide import NEVER
from labelset.report.payload import GRID, codes, histograms, positions

UNIT = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 0.5, 1e-300, *GRID[::17].tolist()]))
OWN = st.one_of(UNIT, st.just(NEVER))


def cut_of_grid(at, own):
    return at + 1 + int(own <= GRID[at])


def cut_of_own(own):
    return 1 + int((own > GRID).sum())


def test_the_grid_rises_within_the_unit_interval():
    assert len(GRID) == 254
    assert bool((GRID.diff() > 0).all())
    assert 0 < float(GRID[0]) < float(GRID[-1]) < 1
    assert set(np.round(np.arange(0.05, 1, 0.05), 2)) <= set(GRID.tolist())


@given(p=st.lists(UNIT, min_size=1, max_size=20), own=OWN)
def test_codes_decide_exactly(p, own):
    column = torch.tensor(p, dtype=torch.float64)[:, None]
    code = codes(column, torch.tensor([own], dtype=torch.float64)).long()
    for at, threshold in enumerate(GRID):
        assert torch.equal(code >= cut_of_grid(at, own), column >= threshold)
    assert torch.equal(code >= cut_of_own(own), column >= own)


@given(p=st.lists(UNIT, min_size=1, max_size=20), own=OWN)
def test_two_bytes_give_the_probability_back(p, own):
    column = torch.tensor(p, dtype=torch.float64)[:, None]
    each = torch.tensor([own], dtype=torch.float64)
    code = codes(column, each)
    fine = positions(column, each, code).double()
    edges = sorted([0.0, *GRID.tolist(), min(own, 1.0), 1.0, 1.0])
    low = torch.tensor([edges[int(c)] for c in code.flatten()])[:, None]
    high = torch.tensor([edges[int(c) + 1] for c in code.flatten()])[:, None]
    back = low + (high - low) * (fine + 0.5) / 256
    assert bool(((back - column).abs() <= (high - low) / 256 + 1e-7).all())


def test_histograms_count_known_entries():
    g = torch.Generator().manual_seed(0)
    code = torch.randint(0, 256, (200, 3), generator=g).to(torch.uint8)
    truth = torch.randint(0, 3, (200, 3), generator=g).to(torch.uint8)
    found = histograms(code, truth)
    for label in range(3):
        for on in (0, 1):
            wanted = np.zeros(256, dtype=int)
            for row in range(200):
                if truth[row, label] == on:
                    wanted[code[row, label]] += 1
            assert (found[label, on] == wanted).all()
