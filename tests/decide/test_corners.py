"""Names, settings, bad input, empty input, saving."""

import inspect
import json

import numpy as np
import pytest
import torch

from labelset import Labels, decide
from labelset.catalog import hyperparameters
from labelset.decide import NotFitted, build, from_json

SETTINGS = {
    "fixed": {"threshold": 0.5},
    "global": {"metric": "f1-micro", "beta": 1},
    "per-class": {"metric": "f1-macro", "shrink": 0, "beta": 1},
    "averaging": {},
    "top-k": {"k": 2},
    "expected-f1": {"empty": 0},
    "budget": {"k": 2, "metric": "f1-macro"},
}
LEARNS = ("global", "per-class", "averaging")
P = torch.tensor([[0.9, 0.2, 0.6], [0.1, 0.7, 0.4]])
Y = torch.tensor([[1, 0, 0], [0, 1, 1]])


def rule(name):
    return build(name, **SETTINGS[name])


def test_the_promised_names_and_defaults():
    assert decide.names() == sorted(SETTINGS)
    for name, promised in SETTINGS.items():
        known = hyperparameters(decide.catalog.get(name))
        wanted = {key: known[key].default for key in promised if key != "k"}
        assert wanted == {key: value for key, value in promised.items() if key != "k"}
        assert all(h.doc for h in known.values())
        assert inspect.getdoc(decide.catalog.get(name))


WRONG = {
    "did you mean 'per-class'": ("per-clas", {}),
    "has no hyperparameter 'metrik'": ("global", {"metrik": "f1-micro"}),
    "rule 'top-k' needs k": ("top-k", {}),
    "rule 'budget' needs k": ("budget", {}),
    "k must be at least 1": ("top-k", {"k": 0}),
    "k must be a whole number": ("top-k", {"k": 1.5}),
    "threshold must be a finite number in .0, 1.": ("fixed", {"threshold": 1.2}),
    "threshold must be a finite number": ("fixed", {"threshold": float("nan")}),
    "got -0.1": ("fixed", {"threshold": [0.1, -0.1]}),
    "every entry of threshold must be finite": ("fixed", {"threshold": [float("nan")]}),
    "threshold must be a number or one number per label": ("fixed", {"threshold": "half"}),
    "metric must be one of 'f1-micro'": ("global", {"metric": "f1"}),
    "metric must be one of 'f1-micro', 'f1-macro', 'f1-weighted', 'hamming'": (
        "per-class",
        {"metric": "f1-samples"},
    ),
    "shrink must be": ("per-class", {"shrink": -1}),
    "beta must be": ("global", {"beta": 0}),
    "empty must be": ("expected-f1", {"empty": 2}),
    "metric must be one of 'f1-macro'": ("budget", {"k": 1, "metric": "f1-micro"}),
    "sweeps must be": ("budget", {"k": 1, "sweeps": -1}),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_settings_are_told(message):
    name, given = WRONG[message]
    with pytest.raises((ValueError, TypeError), match=message):
        build(name, **given)


@pytest.mark.parametrize("name", SETTINGS)
def test_bad_probabilities_are_told(name):
    r = rule(name).fit(P, Y)
    for bad, shown in ((1.5, "1.5"), (-0.1, "-0.1"), (float("nan"), "nan"), (float("inf"), "inf")):
        q = P.clone()
        q[1, 2] = bad
        for attempt in (lambda q=q: r(q), lambda q=q: rule(name).fit(q, Y)):
            with pytest.raises(ValueError, match=rf"in \[0, 1\], got {shown} at row 1, label 2"):
                attempt()
    with pytest.raises(ValueError, match="must be 2-D"):
        r(P[0])
    with pytest.raises(TypeError, match="got Labels"):
        r(Labels.from_dense(Y))
    with pytest.raises(ValueError, match="probabilities have shape"):
        rule(name).fit(P, Y[:, :2])
    with pytest.raises(ValueError, match="got soft ones"):
        rule(name).fit(P, 0.5 * Y)


@pytest.mark.parametrize("name", SETTINGS)
def test_before_fit(name):
    if name in LEARNS:
        with pytest.raises(NotFitted, match="must be fitted first"):
            rule(name)(P)
        with pytest.raises(NotFitted):
            _ = rule(name).thresholds
    else:
        assert rule(name)(P).shape == (2, 3)


def test_intervals_before_fit_and_wrong_settings():
    with pytest.raises(NotFitted):
        build("per-class").intervals(P, Y)
    r = build("per-class").fit(P, Y)
    for wrong in ({"rounds": 0}, {"level": 1.0}, {"level": 0}, {"seed": -1}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            r.intervals(P, Y, **wrong)


def test_a_failed_fit_leaves_what_was_learnt():
    r = build("global").fit(P, Y)
    before = r.as_json()
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        r.fit(P + 1, Y)
    assert r.as_json() == before


@pytest.mark.parametrize("name", LEARNS)
@pytest.mark.parametrize(
    ("p", "y"),
    [
        (P, torch.zeros(2, 3)),
        (P, torch.full((2, 3), torch.nan)),
        (torch.full((2, 3), torch.nan), torch.full((2, 3), torch.nan)),
        (torch.zeros(0, 3), torch.zeros(0, 3)),
        (torch.zeros(2, 3), torch.zeros(2, 3)),
    ],
    ids=["no positives", "all unknown", "all unknown, NaN", "no rows", "zeros"],
)
def test_where_the_data_say_nothing_the_threshold_is_a_half(name, p, y):
    r = rule(name).fit(p, y)
    assert bool((r.thresholds == 0.5).all())
    assert r(P) == build("fixed")(P)
    if name == "per-class":
        assert bool((r.intervals(p, y, rounds=3) == 0.5).all())
    if name != "averaging":
        assert r.objective(p, y) == 0.0


@pytest.mark.parametrize("name", SETTINGS)
def test_one_label_one_row_no_rows_no_labels(name):
    given = {**SETTINGS[name], **({"k": 1} if "k" in SETTINGS[name] else {})}
    one = build(name, **given).fit([[0.7]], [[1]])
    assert one([[0.7]]).dense().tolist() == [[1.0]]
    assert one(torch.zeros(0, 1)).shape == (0, 1)
    if "k" not in given:
        none = build(name, **given).fit(torch.zeros(3, 0), torch.zeros(3, 0))
        assert none(torch.zeros(3, 0)).shape == (3, 0)


@pytest.mark.parametrize("name", SETTINGS)
def test_whatever_holds_probabilities_is_taken(name):
    r = rule(name).fit(P.numpy(), Labels.from_dense(Y))
    want = r(P.double().float())
    for given in (P.tolist(), P.numpy(), P.double(), P.clone().requires_grad_()):
        q = torch.as_tensor(np.asarray(given)) if isinstance(given, list) else given
        assert r(q).shape == want.shape
    assert r(P.bfloat16()) == r(P.bfloat16().double())
    assert rule(name).fit(P.bfloat16(), Y).as_json() == (
        rule(name).fit(P.bfloat16().double(), Y).as_json()
    )


def test_a_rule_for_other_labels_is_told():
    for r in (build("per-class").fit(P, Y), build("fixed", threshold=[0.1, 0.2, 0.3])):
        with pytest.raises(ValueError, match="is for 3 labels, got probabilities of 2"):
            r(P[:, :2])


def test_fixed_takes_lists_arrays_tensors_and_what_others_learnt():
    for each in ([0.5, 0.3, 0.7], np.array([0.5, 0.3, 0.7]), torch.tensor([0.5, 0.3, 0.7])):
        got = build("fixed", threshold=each)(torch.tensor([[0.5, 0.29, 0.71]]).double())
        assert got.dense().tolist() == [[1, 0, 1]]
    learnt = build("per-class", metric="hamming").fit(torch.ones(2, 3), torch.zeros(2, 3))
    again = build("fixed", threshold=learnt.thresholds)
    assert again(torch.ones(1, 3)).counts().tolist() == [0]


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("fitted", [False, True])
def test_saved_and_loaded(name, fitted):
    r = rule(name)
    if fitted:
        r.fit(P, Y)
    elif name in LEARNS:
        with pytest.raises(NotFitted, match="must be fitted before it is saved"):
            r.as_json()
        return
    text = json.dumps(r.as_json(), allow_nan=False)
    back = from_json(json.loads(text))
    assert type(back) is type(r)
    assert json.dumps(back.as_json()) == text
    assert back(P) == r(P)


def test_what_is_no_saved_rule_is_told():
    for wrong in ({}, {"settings": {}}, []):
        with pytest.raises(ValueError, match="a saved rule must be a dict with name"):
            from_json(wrong)
    with pytest.raises(ValueError, match="did you mean 'global'"):
        from_json({"name": "globl", "settings": {}, "learnt": {}})


DAMAGED = [
    ({"settings": {"metrik": "f1-micro"}}, "is damaged: its settings"),
    ({"settings": {"metric": "f1"}}, "metric must be one of"),
    ({"settings": []}, "settings and learnt must be dicts"),
    ({"learnt": {}}, "should have learnt thresholds, it holds nothing"),
    ({"learned": {}}, "and nothing else; got"),
    ({"learnt": {"thresholds": {"dtype": "float64", "values": [0.5]}}}, "must have 0 dimensions"),
    ({"learnt": {"thresholds": {"dtype": "float64", "values": -0.5}}}, "must lie in"),
    ({"learnt": {"thresholds": {"dtype": "float64", "values": 1.5}}}, "lie in .0, 1., got 1.5"),
    ({"learnt": {"thresholds": {"dtype": "complex64", "values": 0.5}}}, "dtype must be one of"),
    ({"learnt": {"thresholds": {"dtype": "int64", "values": 1}}}, "must be of torch.float64"),
    ({"learnt": {"thresholds": {"dtype": "float64", "values": float("nan")}}}, "finite numbers"),
    ({"learnt": {"thresholds": {"dtype": "float65", "values": 0.5}}}, "got 'float65'"),
    ({"learnt": {"thresholds": {"values": 0.5}}}, "dict with dtype, values"),
    ({"learnt": {"thresholds": {"dtype": "float64", "values": "half"}}}, "array of numbers"),
    ({"learnt": {"threshold": {"dtype": "float64", "values": 0.5}}}, "should have learnt"),
    ({"learnt": [0.5]}, "must be dicts"),
]


@pytest.mark.parametrize(("change", "told"), DAMAGED, ids=[told for _, told in DAMAGED])
def test_a_damaged_rule_is_told(change, told):
    saved = build("global").fit(P, Y).as_json()
    with pytest.raises(ValueError, match=told):
        from_json({**saved, **change})


@pytest.mark.parametrize(
    ("name", "part", "told"),
    [
        ("per-class", "thresholds", "thresholds must have 1 dimensions .labels., got 2"),
        ("per-class", "pooled", "pooled must have 0 dimensions .one number., got 1"),
        ("budget", "slope", "slope must have 1 dimensions .labels., got 2"),
        ("averaging", "thresholds", "thresholds must have 0 dimensions .one number., got 1"),
    ],
)
def test_learnt_numbers_of_another_shape_are_told(name, part, told):
    saved = rule(name).fit(P, Y).as_json()
    saved["learnt"][part]["values"] = [saved["learnt"][part]["values"]]
    with pytest.raises(ValueError, match=told):
        from_json(saved)


def test_a_rule_that_learns_part_or_too_much_is_told():
    saved = build("budget", k=1).fit(P, Y).as_json()
    saved["learnt"].pop("offset")
    with pytest.raises(ValueError, match="should have learnt slope and offset, it holds slope"):
        from_json(saved)
    learnt = {"thresholds": {"dtype": "float64", "values": 0.5}}
    for name in ("fixed", "expected-f1"):
        with pytest.raises(ValueError, match="should have learnt nothing, it holds thresholds"):
            from_json(rule(name).as_json() | {"learnt": learnt})


def test_intervals_of_other_labels_are_refused():
    r = build("per-class").fit(P, Y)
    with pytest.raises(ValueError, match="is for 3 labels, got probabilities of 2"):
        r.intervals(P[:, :2], Y[:, :2])


def test_scores_are_over_known_labels_only():
    y = Y.double()
    y[0, 2] = torch.nan
    r = build("global", metric="hamming").fit(P, y)
    assert r.score([[1, 0, 1], [0, 1, 1]], y) == 1.0
    assert r.score([[1, 0, 0], [0, 1, 0]], y) == pytest.approx(4 / 5)
