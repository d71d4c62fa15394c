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
        (np.zeros((40, 3)), "none that is positive among 120 known"),
        (np.ones((40, 3)), "none that is negative among 120 known"),
        (np.full((40, 3), np.nan), "no label is known"),
        (np.zeros((40, 2)), "scores have shape"),
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
@pytest.mark.parametrize("per", PER)
def test_fitted_to_one_label_and_used_for_three(name, per):
    v, y = data()
    m = calibrate.build(name, per=per).fit(v[:, :1], y[:, :1])
    assert m(v[:, :1]).shape == (40, 1)
    if per == "pool":
        assert m(v).shape == v.shape
        return
    with pytest.raises(ValueError, match="fitted to 1 labels, scores have 3; fit one to these"):
        m(v)


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
    for wrong, got in (([], "list"), (None, "NoneType"), ({1: 2, "name": "platt"}, "'1', 'name'")):
        with pytest.raises(ValueError, match=f"dict with name, settings, learnt; got .?{got}"):
            calibrate.from_json(wrong)
    for name in ("nope", None, ["platt"]):
        with pytest.raises(ValueError, match="no map is called"):
            calibrate.from_json({"name": name, "settings": {}, "learnt": {}})


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


@EVERY
def test_an_unfitted_map_is_neither_written_nor_read(name):
    with pytest.raises(calibrate.NotFitted, match="must be fitted before it is saved"):
        calibrate.build(name).as_json()
    with pytest.raises(ValueError, match=r"should have learnt .*, it holds nothing"):
        calibrate.from_json({"name": name, "settings": {}, "learnt": {}})


def values(v, dtype="float64"):
    return {"dtype": dtype, "values": v}


DAMAGE = [
    ("platt", "slope", values([1.0, 1.0]), "offset must have 2 entries along labels, got 3"),
    ("platt", "slope", values([[1.0, 1.0, 1.0]]), "slope must have 1 dimensions .labels., got 2"),
    ("platt", "slope", values(1.0), "slope must have 1 dimensions .labels., got 0"),
    ("platt", "slope", values([1.0] * 3, "complex64"), "slope: dtype must be one of float32"),
    ("platt", "slope", values([1.0] * 3, ["float64"]), "slope: dtype must be one of float32"),
    (
        "platt",
        "slope",
        values([1, 1, 1], "int64"),
        "slope must be of torch.float64, got torch.int64",
    ),
    (
        "platt",
        "slope",
        values([True] * 3, "bool"),
        "slope must be of torch.float64, got torch.bool",
    ),
    ("platt", "slope", values([1.0, np.nan, 1.0]), "slope: values must be finite numbers"),
    ("platt", "offset", values([1.0, np.inf, 1.0]), "offset: values must be finite numbers"),
    ("platt", "slope", values([1.0, -1.0, 1.0]), r"slope must lie in \[0, inf\], got -1"),
    ("platt", "slope", values([[1.0], [1.0, 2.0]]), "slope: values must be an array of numbers"),
    ("platt", "slope", values("one"), "slope: values must be an array of numbers"),
    ("platt", "slope", values([10**400] * 3), "slope: values must be an array of numbers"),
    ("platt", "slope", [1.0], "slope must be a dict with dtype, values; got list"),
    ("platt", "slope", values([1.0] * 3) | {"unit": 1}, "a dict with dtype, values; got"),
    ("platt", "curve", values([1.0] * 3), "should have learnt slope and offset, it holds"),
    ("temperature", "offset", values([0.0, 0.1, 0.0]), r"offset must lie in \[0, 0\], got 0.1"),
    ("histogram", "label_p", values([[0.5] * 14] * 3), "must have 15 entries along 15, got 14"),
    ("histogram", "label_p", values([[1.5] * 15] * 3), r"label_p must lie in \[0, 1\], got 1.5"),
    ("histogram", "pool_edges", values([[*range(13), 0]]), "pool_edges must rise"),
    ("histogram", "share", values([0.5, 0.5]), "must have .* entries along labels, got"),
    ("isotonic", "label_start", values([0.0, 1.0, 2.0, 3.0]), "must be of torch.int64, got"),
    ("histogram", "share", values([0.5] * 3, "float32"), "must be of torch.float64, got"),
    ("isotonic", "label_start", values([0, 1, 2.5, 3], "int64"), "must be int64 numbers"),
    ("isotonic", "label_start", values([0, 1, 2, 3], "int64"), "label_start must go from 0 to"),
    ("isotonic", "pool_start", values([0, 9999], "int64"), "pool_start must go from 0 to"),
    ("isotonic", "pool_start", values([0], "int64"), "must have 2 entries along 1.1, got 1"),
]


@pytest.mark.parametrize(("name", "part", "wrong", "words"), DAMAGE, ids=lambda x: str(x)[:30])
def test_a_damaged_map_is_told_in_one_line(name, part, wrong, words):
    saved = calibrate.build(name).fit(*data()).as_json()
    saved["learnt"][part] = wrong
    with pytest.raises(ValueError, match=words) as told:
        calibrate.from_json(saved)
    assert "\n" not in str(told.value)
    assert "is damaged" in str(told.value)


@pytest.mark.parametrize("whose", ["pool", "label"])
def test_isotonic_curves_that_fall_are_told(whose):
    saved = calibrate.build("isotonic").fit(*data()).as_json()
    for part in ("x", "p"):
        wrong = json.loads(json.dumps(saved))
        wrong["learnt"][f"{whose}_{part}"]["values"].reverse()
        with pytest.raises(ValueError, match=f"{whose}_x and {whose}_p must rise"):
            calibrate.from_json(wrong)


def test_damaged_settings_quality_and_unknown_keys_are_told():
    saved = calibrate.build("platt").fit(*data()).as_json()
    for wrong, words in (
        ({"settings": {"per": "labels"}}, "its settings: per must be one of"),
        ({"settings": {"strenght": 1.0}}, "its settings: .*strenght"),
        ({"settings": {"loss": "focl"}}, "its settings: .*did you mean 'focal'"),
        ({"settings": ["per"]}, "settings and learnt must be dicts"),
        ({"learnt": None}, "settings and learnt must be dicts"),
        ({"settings": {"per": "pool"}}, "slope must have 1 entries along 1, got 3"),
        ({"learned": {}}, "nothing else; got .*'learned'"),
        ({"quality": {"before": 0.1}}, "its quality"),
        ({"quality": {"before": 0.1, "after": float("nan"), "folds": 5}}, "its quality: after"),
        ({"quality": [1]}, "its quality"),
        ({"quality": {"before": 10**400, "after": 0.1, "folds": 5}}, "its quality"),
        ({"settings": {"strength": 10**400}}, "its settings"),
    ):
        with pytest.raises(ValueError, match=words):
            calibrate.from_json({**saved, **wrong})


def test_float32_scores_fit_like_float64_ones():
    v, y = data(rows=200)
    v = v.astype(np.float32)
    m = calibrate.build("isotonic", per="label").fit(v, y)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(v[:, 0].astype(float), y[:, 0])
    np.testing.assert_allclose(m(v)[:, 0], theirs.predict(v[:, 0].astype(float)), atol=1e-7)
