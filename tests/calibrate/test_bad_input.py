"""Hostile input: a clear error or the documented neutral answer, never NaN."""

import json

import numpy as np
import pytest
import torch
from sklearn.isotonic import IsotonicRegression

import labelset as ls
from labelset import calibrate, losses

LEARNING = ["temperature", "platt", "vector", "isotonic", "histogram"]
PER = ["label", "pool", "shrunk"]
EVERY = pytest.mark.parametrize("name", LEARNING)


def data(rows=40, n=3, seed=0):
    r = np.random.default_rng(seed)
    v = r.normal(size=(rows, n))
    return v, (r.random(v.shape) < 0.4).astype(float)


@EVERY
def test_nan_scores_are_named(name):
    v, y = data()
    v[5, 2] = np.nan
    with pytest.raises(ValueError, match="scores must be numbers, got nan at row 5, label 2"):
        calibrate.build(name).fit(v, y)


@EVERY
def test_infinite_scores_are_refused_in_fitting_and_read_in_use(name):
    v, y = data()
    m = calibrate.build(name).fit(v, y)
    p = m([[np.inf, -np.inf, 1e308]])
    assert p.isfinite().all()
    v[3, 1] = np.inf
    with pytest.raises(ValueError, match="finite and below 1e\\+100 in size, got inf at row 3"):
        calibrate.build(name).fit(v, y)


@EVERY
@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.zeros((40, 3)), "none that is on among 120 known"),
        (np.ones((40, 3)), "none that is off among 120 known"),
        (np.full((40, 3), np.nan), "no label is known"),
        (np.empty((40, 2)), "scores have shape"),
        (np.full((40, 3), 2.0), "labels must lie in"),
    ],
)
def test_labels_that_teach_nothing(name, y, words):
    with pytest.raises(ValueError, match=words):
        calibrate.build(name).fit(data()[0], y)


@EVERY
def test_no_rows_or_labels(name):
    for shape in ((0, 3), (4, 0)):
        with pytest.raises(ValueError, match="no label is known"):
            calibrate.build(name).fit(np.empty(shape), np.empty(shape))


@EVERY
@pytest.mark.parametrize("per", PER)
def test_labels_of_one_kind_fall_back_on_the_pool(name, per):
    v, y = data(n=5)
    y[:, 0], y[:, 1], y[:, 2] = 0, 1, np.nan  # never on, always on, never known
    m = calibrate.build(name, per=per).fit(v, y)
    pool = calibrate.build(name, per="pool").fit(v, y)
    p = m(v)
    assert p.isfinite().all()
    if per == "label":
        torch.testing.assert_close(p[:, :3], pool(v)[:, :3], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(p[:, 2], pool(v)[:, 2], rtol=1e-6, atol=1e-6)


@EVERY
@pytest.mark.parametrize("per", PER)
def test_one_row(name, per):
    m = calibrate.build(name, per=per).fit([[2.0, -1.0, 0.5]], [[1, 0, np.nan]])
    assert m([[2.0, -1.0, 0.5], [9.0, -9.0, 0.0]]).isfinite().all()


@EVERY
@pytest.mark.parametrize("per", PER)
def test_one_label_all_scores_equal(name, per):
    m = calibrate.build(name, per=per).fit(np.zeros((8, 1)), [[0]] * 6 + [[1]] * 2)
    p = float(m([[0.0]]))
    want = {"temperature": 0.5, "platt": (6 / 8 + 2 * 3 / 4) / 8}.get(name, 0.25)
    assert p == pytest.approx(want, abs=1e-6)


@EVERY
def test_scores_of_every_kind_are_taken(name):
    v, y = data()
    half = np.round(v * 4) / 4
    m = calibrate.build(name).fit(half, y)
    want = m(half)
    for scores in (half.tolist(), torch.tensor(half).half(), torch.tensor(half).bfloat16()):
        assert torch.allclose(m(scores).double(), want, atol=1e-6)
    assert m(torch.tensor(half).bfloat16()).dtype == torch.float32
    assert m((half * 4).astype(int)).dtype == torch.float64
    assert not m(torch.tensor(half, requires_grad=True)).requires_grad
    sparse = ls.Labels.from_dense(y)
    assert torch.equal(calibrate.build(name).fit(half, sparse)(half), want)


@EVERY
def test_another_number_of_labels(name):
    v, y = data()
    m = calibrate.build(name, per="label").fit(v, y)
    with pytest.raises(ValueError, match="fitted to 3 labels, scores have 2"):
        m(v[:, :2])
    pooled = calibrate.build(name, per="pool").fit(v, y)
    torch.testing.assert_close(pooled(v[:, :2]), pooled(v)[:, :2], rtol=1e-14, atol=0)


@EVERY
def test_used_before_fit(name):
    with pytest.raises(calibrate.NotFitted, match="must be fitted first"):
        calibrate.build(name)([[0.0]])


def test_wrong_shapes_and_kinds():
    v, y = data()
    with pytest.raises(ValueError, match="2-D"):
        calibrate.build("platt").fit(v[:, 0], y)
    with pytest.raises(TypeError, match="scores are due"):
        calibrate.build("platt").fit(ls.Labels.from_dense(y), y)


def test_wrong_settings_are_told():
    for wrong, words in (
        ({"per": "labels"}, "per must be one of"),
        ({"strength": 0}, "strength must be"),
        ({"loss": "focl"}, "did you mean 'focal'"),
        ({"loss": 3}, "loss must be a loss"),
        ({"strenght": 3}, "did you mean 'strength'"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            calibrate.build("platt", **wrong)
    with pytest.raises(ValueError, match="bins must be at least 1"):
        calibrate.build("histogram", bins=0)
    with pytest.raises(ValueError, match="no map is called 'plat': did you mean 'platt'"):
        calibrate.build("plat")


def test_wrong_json_is_told():
    with pytest.raises(ValueError, match="described by name, settings and learnt, got list"):
        calibrate.from_json([])
    with pytest.raises(ValueError, match="no map is called"):
        calibrate.from_json({"name": "nope", "settings": {}, "learnt": {}})


SUM = losses.build("bce", pos_weight=[1.0, 2.0, 3.0]) + 0.5 * losses.build("focal")
LOSSES = [
    *("focal", SUM, {"name": "asl", "gamma_neg": 2.0}),
    losses.build("mix", pos="bce", neg=losses.build("spa", k_neg=2.0)),
    losses.build("lpr", of=losses.build("bce", pos_weight=torch.tensor([1.0, 0.1, 3.0]))),
    *("splc", "two-way", "wan"),
]


@EVERY
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: str(loss)[:20])
def test_losses_travel_with_the_map(name, loss):
    v, y = data()
    m = calibrate.build(name, loss=loss).fit(v, y)
    text = json.dumps(m.as_json(), allow_nan=False)
    again = calibrate.from_json(json.loads(text))
    assert torch.equal(again(v), m(v))
    assert json.dumps(again.as_json()) == text


def test_a_loss_of_ones_own_cannot_travel():
    class Own(type(losses.build("bce"))):
        pass

    m = calibrate.build("platt", loss=Own()).fit(*data())
    with pytest.raises(TypeError, match="Own is not in the catalogue of losses"):
        m.as_json()


def test_unfitted_maps_travel_too():
    again = calibrate.from_json(json.loads(json.dumps(calibrate.build("platt").as_json())))
    with pytest.raises(calibrate.NotFitted):
        again([[0.0]])


def test_float32_scores_fit_like_float64_ones():
    v, y = data(rows=200)
    v = v.astype(np.float32)
    m = calibrate.build("isotonic", per="label").fit(v, y)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(v[:, 0].astype(float), y[:, 0])
    np.testing.assert_allclose(m(v)[:, 0], theirs.predict(v[:, 0].astype(float)), atol=1e-7)
