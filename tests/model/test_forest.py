"""A forest says what scikit-learn's does; a crafted file of one is refused before it is used."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier

from labelset import files, heads
from labelset.data import Dataset, SparseRows
from labelset.encode import build
from labelset.model import Forest, SavedModel, Scorer, log_odds

ROWS, WIDTH = 300, 12


@pytest.fixture(scope="module")
def table():
    g = np.random.default_rng(0)
    x = g.standard_normal((ROWS, WIDTH)).astype(np.float32)
    x[:, 3:] *= g.random((ROWS, WIDTH - 3)) < 0.3
    y = (x[:, :5] + 0.5 * g.standard_normal((ROWS, 5)) > 0.3).astype(int)
    return x, y


@pytest.fixture(scope="module")
def forest(table):
    x, y = table
    return Forest.from_sklearn(ExtraTreesClassifier(20, random_state=0).fit(x, y))


def positives(fitted, x):
    """Probabilities of class 1 by scikit-learn, columns by `classes_`."""
    each, classes = fitted.predict_proba(x), fitted.classes_
    if fitted.n_outputs_ == 1:
        each, classes = [each], [classes]
    columns = [
        p[:, list(c).index(1)] if 1 in c else np.zeros(len(x))
        for p, c in zip(each, classes, strict=True)
    ]
    return torch.from_numpy(np.stack(columns, axis=1)).float()


def close(a, b):
    """Leaves are kept in float16, whose error is at most 2 ** -12."""
    torch.testing.assert_close(a, b, rtol=0, atol=2.0**-12)


@pytest.mark.parametrize("kind", [ExtraTreesClassifier, RandomForestClassifier])
@pytest.mark.parametrize("most", [None, 9], ids=["depth-first", "best-first"])
def test_equal_to_scikit_learn(table, kind, most):
    x, y = table
    fitted = kind(15, max_leaf_nodes=most, min_samples_leaf=2, random_state=0).fit(x[:200], y[:200])
    made = Forest.from_sklearn(fitted)
    close(made(torch.from_numpy(x)), positives(fitted, x))
    assert (len(made), made.width, made.labels) == (15, WIDTH, 5)


def test_labels_of_one_class_count_as_what_they_are(table):
    x, y = table
    y = y.copy()
    y[:, 0], y[:, 2] = 0, 1
    fitted = ExtraTreesClassifier(5, random_state=0).fit(x, y)
    p = Forest.from_sklearn(fitted)(torch.from_numpy(x))
    close(p, positives(fitted, x))
    assert bool((p[:, 0] == 0).all())
    assert bool((p[:, 2] == 1).all())
    single = ExtraTreesClassifier(5, random_state=0).fit(x, y[:, 1])
    close(Forest.from_sklearn(single)(torch.from_numpy(x)), positives(single, x))
    with pytest.raises(ValueError, match="classes of label 0 must be 0 and 1"):
        Forest.from_sklearn(ExtraTreesClassifier(2).fit(x, y[:, 1] + 1))


def test_shares_by_regression(table):
    x, y = table
    fitted = ExtraTreesRegressor(5, min_samples_leaf=4, random_state=0).fit(x, y * 0.5)
    close(
        Forest.from_sklearn(fitted)(torch.from_numpy(x)),
        torch.from_numpy(fitted.predict(x)).float(),
    )


def test_comparisons_are_exact_at_the_threshold(table):
    """Thresholds are float64: the float32 numbers next to them go where they should."""
    x, y = table[0][:, :1], table[1][:, 1]
    fitted = ExtraTreesClassifier(3, random_state=0).fit(x, y)
    cuts = np.concatenate([t.tree_.threshold for t in fitted.estimators_]).astype(np.float32)
    near = [np.nextafter(cuts, np.float32(side)) for side in (-np.inf, np.inf)]
    x = np.concatenate([cuts, *near])[:, None]
    close(Forest.from_sklearn(fitted)(torch.from_numpy(x)), positives(fitted, x))


def test_sparse_rows_and_blocks(forest, table, monkeypatch):
    x = torch.from_numpy(table[0])
    rows, columns = x.nonzero(as_tuple=True)
    starts = [0, *torch.bincount(rows, minlength=len(x)).cumsum(0).tolist()]
    sparse = SparseRows.from_csr(starts, columns, WIDTH, x[rows, columns])
    whole = forest(x)
    assert torch.equal(forest(sparse), whole)
    monkeypatch.setattr("labelset.model.forest.ENTRIES", 1)
    assert torch.equal(forest(x), whole)
    alone = torch.cat([forest(x[i : i + 1]) for i in range(0, ROWS, 30)])
    assert torch.equal(alone, whole[::30])
    assert forest(x[:0]).shape == (0, 5)
    with pytest.raises(ValueError, match=r"takes \(rows, 12\) features, got \(300, 3\)"):
        forest(x[:, :3])


def test_stacked_forests_average(forest, table):
    x, y = table
    other = Forest.from_sklearn(ExtraTreesClassifier(60, random_state=1).fit(x, y))
    both = Forest.stack([forest, other])
    each = torch.from_numpy(x)
    torch.testing.assert_close(both(each), (forest(each) * 20 + other(each) * 60) / 80)
    with pytest.raises(ValueError, match="same features"):
        Forest.stack([forest, replace(forest, width=99)])


# ---- files --------------------------------------------------------------------------------------


def test_a_file_gives_the_same_forest(forest, table):
    x = torch.from_numpy(table[0])
    again = Forest.from_tensors(load(save(forest.tensors())))
    assert torch.equal(again(x), forest(x))
    assert again.nbytes == forest.nbytes


def crafted(tensors, **changes):
    return {name: t.clone() for name, t in tensors.items()} | {
        name: change(tensors[name].clone()) for name, change in changes.items()
    }


def put(at, value):
    def change(t):
        t[at] = value
        return t

    return change


CRAFTED = {
    "features of a forest must lie": {"feature": put(0, WIDTH)},
    "features of a forest must lie in": {"feature": put(0, -2)},
    "feature of a forest must be 1-D": {"feature": lambda t: t.double()},
    "threshold of a forest must be 1-D": {"threshold": lambda t: t[None]},
    "one feature and one threshold": {"threshold": lambda t: t[1:]},
    "thresholds of a forest must be finite": {"threshold": put(0, torch.nan)},
    "thresholds of a forest must be": {"threshold": put(0, torch.inf)},
    "starts of a forest must run": {"starts": put(-1, 1 << 60)},
    "starts of a forest": {"starts": put(0, -5)},
    "starts": {"starts": lambda t: t[:0]},
    "at least one node": {"starts": put(1, 0)},
    "at least one": {"starts": put(1, 1 << 40)},
    "one row of values per leaf": {"feature": put(0, -1)},
    "one row of values": {"feature": put(-1, 0)},
    "leaf_values of a forest": {"leaf_values": put(0, torch.nan)},
    "leaf_values of a": {"leaf_values": put(0, torch.inf)},
    "leaf_values of": {"leaf_values": put(0, -1)},
    "the leaves of a forest": {"leaf_labels": put(0, 5)},
    "the leaves of a": {"leaf_labels": put(0, -1)},
    "the leaves of": {"leaf_starts": put(-1, 1 << 60)},
    "the leaves": {"leaf_starts": put(1, 1 << 60)},
    "at least one feature": {"shape": put(0, 1 << 62)},
    "at least one featur": {"shape": put(0, 0)},
    "leaves of a forest": {"shape": put(1, 1 << 62)},
    "shape of a forest": {"shape": lambda t: t[:1]},
}


@pytest.mark.parametrize("message", CRAFTED)
def test_crafted_files_are_refused(forest, message):
    with pytest.raises(ValueError, match=message):
        Forest.from_tensors(crafted(forest.tensors(), **CRAFTED[message]))


def test_missing_tensors_are_refused(forest):
    kept = forest.tensors()
    del kept["starts"]
    with pytest.raises(ValueError, match="has the tensors feature"):
        Forest.from_tensors(kept)


def of_nodes(feature):
    """One tree with these nodes, and as many leaves as it says."""
    feature = torch.tensor(feature)
    leaves = int((feature < 0).sum())
    values = SparseRows.from_csr([0] * (leaves + 1), [], width=1, values=[])
    return Forest(feature, torch.zeros(len(feature)), torch.tensor([0, len(feature)]), values, 1)


@pytest.mark.parametrize(
    "feature",
    [[0], [0, -1], [-1, -1, -1], [-1, 0, -1], [0, 0, -1], [0, 0, 0], [0, -1, -1, -1], [0] * 99],
)
def test_a_walk_through_what_is_no_tree_never_begins(feature):
    with pytest.raises(ValueError, match="two children"):
        of_nodes(feature)


def test_a_chain_that_would_take_long_is_refused():
    assert len(of_nodes([0, -1] * 50 + [-1])) == 1
    with pytest.raises(ValueError, match="deeper than 2000 levels"):
        of_nodes([0, -1] * 100_000 + [-1])


# ---- in the folder of a model -------------------------------------------------------------------


@pytest.fixture
def saved(forest, table, tmp_path):
    data = Dataset.from_arrays(*table, split=[0] * 200 + [2] * 100)
    encoder = build("features").fit(data.part("train"))
    run = SavedModel(names=data.names, encoder=encoder, estimator=forest)
    run.save(tmp_path / "run")
    return run, data, tmp_path / "run"


def test_a_forest_in_the_folder_of_a_model(saved):
    run, data, folder = saved
    again = SavedModel.open(folder)
    scores = again.score(data)
    assert torch.equal(scores, run.score(data))
    assert torch.equal(scores, log_odds(run.estimator(run.encoder(data))))
    assert bool(scores.isfinite().all())
    torch.testing.assert_close(
        again.predictor.probabilities(scores),
        run.estimator(run.encoder(data)).clamp(1e-4, 1 - 1e-4),
    )
    assert "estimator.safetensors" in json.loads((folder / "model.json").read_text())["files"]
    with pytest.raises(ValueError, match="use of_features"):
        Scorer(run.estimator)(data)


def test_a_damaged_forest_is_a_damaged_run(saved):
    run, _, folder = saved
    path = folder / "estimator.safetensors"
    about = json.loads((folder / "model.json").read_text())
    for content in (
        b"nothing",
        save(crafted(run.estimator.tensors(), feature=put(0, WIDTH))),
        save({"feature": torch.zeros(3)}),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="not as it was saved"):
            SavedModel.open(folder)
        about["files"][path.name] = files.file_sum(path)
        (folder / "model.json").write_text(json.dumps(about))
        with pytest.raises(ValueError, match="damaged run"):
            SavedModel.open(folder)
        about["files"][path.name] = "old"
        (folder / "model.json").write_text(json.dumps(about))


def test_a_forest_must_fit_the_names(forest):
    with pytest.raises(ValueError, match="the forest has 5 labels, names 2"):
        SavedModel(names=["a", "b"], estimator=forest)
    head = heads.build("linear", features=2, labels=5)
    with pytest.raises(ValueError, match="a head or an estimator"):
        SavedModel(names=[*"abcde"], estimator=forest, head=head)
