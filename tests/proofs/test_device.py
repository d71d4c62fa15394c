"""The batched searches of a device, run on the processor, against the searches made for it."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch

from labelset import Labels, proofs
from labelset.proofs import _device, verification, verify
from labelset.proofs._device import SignedRows
from labelset.proofs.problem import distinct, read_model, signs_of

CPU = torch.device("cpu")


def on_device(weight, sets, bias=None):
    """What `verify` does for weights on a device, and how many label sets the device left over."""
    problem = read_model(weight, bias)
    each, which = distinct(Labels.from_dense(sets))
    found = [v for part in _device.batches(problem, each, CPU) for v in _prover(problem)(part)]
    verdicts = verification._on_device(problem, each, CPU, 60.0, None)
    return proofs.Verification(problem, each, which, verdicts), sum(v is None for v in found)


def _prover(problem):
    return _device.DeviceProver(problem, CPU)


def signed(weight, sets):
    """The signed unit rows of label sets, as a search has them."""
    unit = torch.from_numpy(read_model(weight).unit)
    return SignedRows(unit, torch.from_numpy(signs_of(Labels.from_dense(sets))), True)


def mixed(n, d, count, seed, bias=False):
    """Weights, and label sets of which some can be produced and some cannot."""
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((n, d)) * rng.lognormal(size=(n, 1))
    offset = rng.standard_normal(n) - 1 if bias else None
    said = rng.standard_normal((count, d)) @ weight.T + (0 if offset is None else offset) > 0
    for i in range(1, count, 2):
        said[i, rng.integers(0, n, 1 + i % 3)] ^= True
    return weight, said, offset


def holds_exactly(v, i, weight, signs, bias):
    """One proof in fractions alone, nothing of labelset's."""
    rows = np.column_stack([weight, np.zeros(len(weight)) if bias is None else bias])
    exact = [
        [Fraction(x) * int(s) for x in row] for row, s in zip(rows.tolist(), signs, strict=True)
    ]
    if v.status[i] == "argmaxable":
        x = [*map(Fraction, v.witness(i).tolist()), Fraction(1)]
        return all(sum(a * b for a, b in zip(row, x, strict=True)) > 0 for row in exact)
    labels, shares = v.certificate(i)
    sums = [
        sum(w * exact[r][j] for r, w in zip(labels.tolist(), shares, strict=True))
        for j in range(rows.shape[1])
    ]
    return min(shares) >= 0 < max(shares) and not any(sums[:-1]) and sums[-1] <= 0


def same(device, processor):
    np.testing.assert_array_equal(device.status, processor.status)
    np.testing.assert_allclose(device.radius, processor.radius, rtol=1e-6)
    finite = np.isfinite(device.radius)  # where something is known, and it can be produced
    low, high = device.bounds[finite].T
    assert (low <= high).all()
    assert (high - low <= 1e-6 * high).all()
    device.check()


@pytest.mark.parametrize(
    ("n", "d", "count"), [(12, 5, 150), (60, 5, 200), (300, 20, 150), (400, 50, 60), (55, 50, 20)]
)
@pytest.mark.parametrize("bias", [False, True])
def test_verdicts_are_those_of_the_processor(n, d, count, bias):
    weight, sets, offset = mixed(n, d, count, seed=n + d, bias=bias)
    device, left = on_device(weight, sets, offset)
    same(device, verify(weight, sets, offset))
    assert len(set(device.status.tolist())) == 2 or n == 55
    assert left <= 0.05 * count


@pytest.mark.parametrize("bias", [False, True])
def test_every_label_set_of_a_small_head_is_proven_in_fractions(bias):
    rng = np.random.default_rng(5)
    weight, offset = rng.standard_normal((8, 3)), rng.standard_normal(8) if bias else None
    sets = np.array(list(itertools.product([0, 1], repeat=8)))
    device, _ = on_device(weight, sets, offset)
    assert device.counts()["undecided"] == 0
    same(device, verify(weight, sets, offset))
    for i, y in enumerate(sets):
        assert holds_exactly(device, i, weight, np.where(y, 1, -1), offset)


def test_the_device_proves_by_itself_what_is_not_special():
    """Without a bias nothing at all of this is left to the processor."""
    weight, sets, _ = mixed(300, 20, 100, seed=2)
    problem = read_model(weight)
    found = _prover(problem)(Labels.from_dense(sets))
    assert all(v is not None for v in found)
    kinds = {v.status for v in found}
    assert kinds == {"argmaxable", "unargmaxable"}
    assert all(len(v.rows) == 21 for v in found if v.status == "unargmaxable")


def test_zero_equal_and_opposite_rows():
    rng = np.random.default_rng(3)
    weight = rng.integers(-2, 3, (14, 3)).astype(float)
    weight[5], weight[6], weight[7] = weight[4], -weight[4], 0.0
    sets = rng.integers(0, 2, (120, 14)).astype(float)
    sets[::2, 7] = np.nan
    sets[::3, 6] = np.nan
    device, _ = on_device(weight, sets)
    same(device, verify(weight, sets))
    assert device.counts()["undecided"] == 0


def test_many_equal_rows_and_unknown_labels():
    weight, sets, _ = mixed(60, 6, 80, seed=4)
    weight = np.concatenate([weight, weight, 2 * weight[:20]])
    sets = np.concatenate([sets, sets, sets[:, :20]], axis=1).astype(float)
    sets[np.random.default_rng(0).random(sets.shape) < 0.2] = np.nan
    sets[7], sets[8, 5:] = np.nan, np.nan
    device, _ = on_device(weight, sets)
    same(device, verify(weight, sets))


def test_unknown_labels_have_no_weight():
    """A row that is left out adds nothing to a hull, so it may not share in its weight."""
    weight, sets, _ = mixed(60, 6, 20, seed=4)
    sets = sets.astype(float)
    sets[:, 9:] = np.nan
    found = _prover(read_model(weight))(Labels.from_dense(sets))
    said = [v for v in found if v is not None and v.status == "argmaxable"]
    assert said
    for rows, weights, _ in (v.hull for v in said):
        assert (weights[rows >= 9] == 0).all()
        assert (weights[rows < 9] > 0).any()


@pytest.mark.parametrize("width", [1e-2, 1e-4, 1e-6, 1e-9])
def test_narrow_regions_and_nearly_dependent_rows(width):
    """Cones that are ever narrower: the device proves them or leaves them, never wrongly."""
    rng = np.random.default_rng(6)
    ring = rng.standard_normal((90, 4))
    ring /= np.linalg.norm(ring, axis=1, keepdims=True)
    weight = np.column_stack([ring, width * (1 + rng.random(90))])
    sets = np.ones((4, 90))
    sets[1, 3], sets[2, 50:], sets[3] = 0, np.nan, 0
    device, _ = on_device(weight, sets)
    same(device, verify(weight, sets))
    assert device.status[0] == "argmaxable"


def test_rows_close_to_a_plane():
    rng = np.random.default_rng(8)
    weight = rng.standard_normal((80, 6))
    weight[:, 5] = weight[:, :5].sum(1) + 1e-7 * rng.standard_normal(80)
    sets = rng.standard_normal((30, 6)) @ weight.T > 0
    sets[::2, :2] ^= True
    device, _ = on_device(weight, sets)
    same(device, verify(weight, sets))


@pytest.mark.parametrize("rows", [16, 20, 40, 400])
def test_working_sets_of_any_size_give_the_same(monkeypatch, rows):
    """Small ones are renewed more often; what they miss is left over, never told wrongly."""
    weight, sets, _ = mixed(400, 8, 60, seed=9)
    sets = sets.astype(float)
    sets[40:, ::7] = np.nan
    monkeypatch.setattr(_device, "working_size", lambda n, d: min(n, rows))
    device, left = on_device(weight, sets)
    same(device, verify(weight, sets))
    assert left == 0 or rows < 3 * 8


@pytest.mark.slow
def test_searches_have_seen_all_rows():
    """The least margin found is that of all known rows, and what is small is the whole hull's."""
    weight, sets, _ = mixed(500, 6, 40, seed=5)
    rows = signed(weight, sets)
    found = _device.separate(rows)
    apart = found.least > 0
    assert 0 < apart.sum() < 40
    assert found.which.shape[1] < 100
    w = found.at.z[apart, :-1]
    least = (w @ rows.unit.T * rows.signs[apart]).amin(1)
    torch.testing.assert_close(found.least[apart], least)
    assert (w.square().sum(1) - least <= 4e-7 * w.square().sum(1)).all()
    assert (found.least[~apart] == -torch.inf).all()
    assert all(len(set(one)) == len(one) for one in found.which.tolist())


def test_a_row_that_counts_cannot_be_dropped():
    """The next working set keeps the rows that carry weight, and takes in those of least margin."""
    margins = torch.tensor([[5.0, 4.0, 3.0, 2.0, 1.0, 0.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]])
    which = torch.tensor([list(range(6, 12)) + list(range(5))])
    lam = torch.tensor([[1e-9] * 5 + [0.9] + [1e-9] * 5])
    kept, weights = _device._renewed(margins, which, lam, 1)
    assert sorted(kept[0].tolist()) == [*range(10), 11]
    assert weights[0, kept[0].tolist().index(11)] == lam.max()
    assert weights[0, kept[0].tolist().index(5)] == 0


def test_batches_of_any_size_give_the_same(monkeypatch):
    weight, sets, _ = mixed(50, 5, 40, seed=1)
    whole, _ = on_device(weight, sets)
    monkeypatch.setattr(_device, "MEMORY", 70_000)
    problem, each = read_model(weight), distinct(Labels.from_dense(sets))[0]
    assert len(list(_device.batches(problem, each, CPU))) > 3
    part, _ = on_device(weight, sets)
    same(part, whole)


def test_working_rows_are_signed_and_end_in_minus_one():
    weight, sets, _ = mixed(30, 4, 5, seed=0)
    sets = sets.astype(float)
    sets[:, 3] = np.nan
    rows, which = signed(weight, sets), torch.tensor([[3, 0, 29]] * 5)
    working = rows.working(which)
    assert (working[:, 0] == 0).all()
    torch.testing.assert_close(working[:, :, :-1], rows.some(which))
    assert (working[:, 1:, -1] == -1).all()


@pytest.mark.parametrize("unknown", [False, True])
def test_a_newton_step_meets_its_equations(unknown):
    """w = A' lam and sum of lam = 1 hold after it, s = A w - t moves along, if it is known."""
    weight, sets, _ = mixed(30, 4, 6, seed=0)
    sets = np.where(np.arange(30) % 3 == 0, np.nan, sets) if unknown else sets
    rows = signed(weight, sets)
    working = rows.working(torch.arange(30).expand(6, -1))
    known = rows.signs != 0
    at = _device.begin(working, _device.halves(rows.signs))
    moving, gap = torch.ones(6, dtype=torch.bool), at.gap
    for _ in range(5):
        at, good = _device.step(working, at, 1.0, moving)
        assert good.all()
        assert (at.s > 0).all()
        assert (at.lam > 0).all()
        w, t = at.z[:, :-1], at.z[:, -1:]
        torch.testing.assert_close((at.lam * rows.signs) @ rows.unit, w)
        torch.testing.assert_close((at.lam * known).sum(1), torch.ones(6).double())
        torch.testing.assert_close((w @ rows.unit.T * rows.signs - t)[known], at.s[known])
        assert (at.s[~known] == 2).all()
    assert (at.gap < 0.1 * gap).all()
    still, good = _device.step(working, at, 1.0, ~moving)
    assert not good.any()
    torch.testing.assert_close(still.lam, at.lam, rtol=0, atol=0)


def test_progress_counts_every_label_set():
    weight, sets, _ = mixed(50, 5, 40, seed=1)
    weight[0] = 0.0  # left to the processor
    told = []
    problem, each = read_model(weight), distinct(Labels.from_dense(sets))[0]
    verification._on_device(problem, each, CPU, 60.0, lambda *at: told.append(at))
    assert told[-1] == (len(each), len(each))


def test_devices_are_checked():
    weight, sets, _ = mixed(5, 2, 3, seed=0)
    assert verify(weight, sets, device="cpu").counts()["undecided"] == 0
    with pytest.raises(ValueError, match="'cpu' or 'cuda'"):
        verify(weight, sets, device="meta")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="finds none here"):
            verify(weight, sets, device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("bias", [False, True])
def test_on_cuda(bias):
    weight, sets, offset = mixed(300, 20, 150, seed=0, bias=bias)
    tensor = torch.from_numpy(weight).cuda()
    same(verify(tensor, sets, offset), verify(weight, sets, offset))
