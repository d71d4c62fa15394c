"""Why a score: contributions add up to it, whatever the model, and are what they are said to be."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer

from labelset import calibrate, decide, encode, heads, losses
from labelset.data import Dataset, Schema, SparseRows
from labelset.heads import Head
from labelset.model import Blend, Forest, KernelMachine, Mlp, Part, SavedModel, Scorer
from labelset.model.blend import ESTIMATORS
from labelset.model.contributions import Contributions, along, of_model
from labelset.model.forest import SIZES

ROWS, WIDTH, LABELS = 60, 6, 3


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


Z = drawn(ROWS, WIDTH)
Y = (Z[:, :LABELS] + 0.3 * drawn(ROWS, LABELS, seed=1) > 0).float()


def head(name="linear", **more):
    torch.manual_seed(0)
    return heads.build(name, features=WIDTH, labels=LABELS, **more)


def forest():
    made = ExtraTreesRegressor(20, min_samples_leaf=2, random_state=0)
    return Forest.from_sklearn(made.fit(Z.numpy(), Y.numpy()))


def networks(loss, layers=1, seed=0):
    shapes = (WIDTH,), (WIDTH, 3, 16), (layers - 1, 3, 16, 16), (layers, 3, 16), (3, 16, LABELS)
    weights = [drawn(*shape, seed=seed + at) for at, shape in enumerate(shapes)]
    return Mlp(*weights, drawn(3, LABELS, seed=9), loss)


def machine():
    means = torch.full((LABELS,), 0.4)
    return KernelMachine(Z, 0.1 * drawn(ROWS, LABELS, seed=2), means, gamma=0.3)


def blend():
    platt = calibrate.build("platt").fit(drawn(ROWS, LABELS, seed=3), Y, folds=0)
    given = {"head": head(), "trees": forest(), "networks": networks(None), "machine": machine()}
    maps = dict.fromkeys(given, calibrate.build("link")) | {"machine": platt}
    return Blend(tuple(Part(name, 0.25, model, maps[name]) for name, model in given.items()))


MODELS = {
    "linear": head,
    "bottleneck": lambda: head(rank=2),
    "dft": lambda: head("dft", k=1),
    "forest": forest,
    "forest of unknown sizes": lambda: replace(forest(), sizes=None),
    "networks": lambda: networks(None),
    "deep networks with a link that ends": lambda: networks(losses.build("asl"), layers=2),
    "networks with a link of three pieces": lambda: networks(losses.build("squared-hinge")),
    "networks without a link": lambda: networks(losses.build("two-way")),
    "kernel": machine,
    "blend": blend,
}
PAIRS = np.repeat(np.arange(ROWS), LABELS), np.tile(np.arange(LABELS), ROWS)


def found_of(model, x=Z):
    """Contributions, and the scores that they should add up to."""
    scorer = Scorer(model)
    return of_model(scorer.model, x, *PAIRS), scorer.of_features(x)[PAIRS].double().numpy()


def adds_up(found, scores):
    """The law: the base and all contributions are the model's own score."""
    return np.abs(found.total() - scores) <= 1e-3 * np.abs(scores - found.base) + 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_contributions_add_up_to_the_score(name):
    found, scores = found_of(MODELS[name]())
    assert adds_up(found, scores).all()


def test_every_kind_of_model_is_held_to_it():
    assert {type(make()) for make in MODELS.values() if not isinstance(make(), Head)} == {
        *ESTIMATORS
    }


class Forgets(KernelMachine):
    """A planted bug: the last feature is not counted."""

    def contributions(self, features, rows, labels):
        found = super().contributions(features, rows, labels)
        return Contributions(found.base, found.values[:, :-1])


def test_the_law_catches_a_feature_that_is_forgotten():
    own = machine()
    found, scores = found_of(Forgets(own.rows, own.coefficients, own.means, own.gamma))
    assert not adds_up(found, scores).all()


@pytest.mark.parametrize("name", MODELS)
def test_sparse_and_dense_rows_are_explained_alike(name):
    x = Z * (Z.abs() > 0.7)
    starts = [0, *(x != 0).sum(1).cumsum(0).tolist()]
    rows, columns = x.nonzero(as_tuple=True)
    sparse = SparseRows.from_csr(starts, columns, WIDTH, x[rows, columns])
    model = MODELS[name]()
    dense, same = found_of(model, x)[0], found_of(model, sparse)[0]
    np.testing.assert_allclose(dense.values.toarray(), same.values.toarray(), atol=1e-9)
    np.testing.assert_allclose(dense.base, same.base, atol=1e-9)


@pytest.mark.parametrize("room", ["forest", "mlp", "kernel", "blend", "contributions"])
def test_blocks_change_nothing(room, monkeypatch):
    model = blend()
    whole = of_model(model, Z, *PAIRS)
    monkeypatch.setattr(f"labelset.model.{room}.ENTRIES", 1)
    few = tuple(each[:7] for each in PAIRS)
    parts = of_model(model, Z, *few)
    np.testing.assert_allclose(parts.values.toarray(), whole.values.toarray()[:7], atol=1e-12)
    assert [name for name, _ in parts.members] == [name for name, _ in whole.members]


# ---- each model by other means ------------------------------------------------------------------


def test_a_linear_model_adds_weight_times_feature():
    model = head()
    found, _ = found_of(model)
    weight, bias = (t.detach().double().numpy() for t in model.matrix())
    due = Z.double().numpy()[PAIRS[0]] * weight[PAIRS[1]]
    np.testing.assert_allclose(found.values.toarray(), due, atol=1e-12)
    np.testing.assert_allclose(found.base, bias[PAIRS[1]], atol=1e-12)


def test_a_tree_adds_what_each_split_changes_by_scikit_learns_own_nodes():
    x, y = Z.numpy(), Y.numpy().astype(int)
    fitted = RandomForestClassifier(4, max_depth=4, bootstrap=False, random_state=0).fit(x, y)
    due = np.zeros((ROWS, LABELS, WIDTH))
    for made in fitted.estimators_:
        tree = made.tree_
        for row in range(ROWS):
            node = 0
            while tree.children_left[node] >= 0:
                at = tree.feature[node]
                sides = tree.children_right, tree.children_left
                after = sides[int(x[row, at] <= tree.threshold[node])][node]
                due[row, :, at] += (tree.value[after] - tree.value[node])[:, 1] / 4
                node = after
    model = Forest.from_sklearn(fitted)
    base, values = model._paths.changes(x, *PAIRS)
    np.testing.assert_allclose(values.toarray(), due.reshape(-1, WIDTH), atol=2.0**-10)
    np.testing.assert_allclose(base[:LABELS], y.mean(0), atol=2.0**-10)
    found, _ = found_of(model)
    probability = np.log(y.mean(0) / (1 - y.mean(0)))
    np.testing.assert_allclose(found.base[:LABELS], probability, atol=1e-2)
    shares = np.stack([model.importances(label) for label in range(LABELS)])
    np.testing.assert_allclose(shares.sum(1), 1)
    assert shares.argmax(1).tolist() == [0, 1, 2]  # each label hangs on the feature of its number


def slopes(score, steps=1000):
    """Integrated gradients of label 0 of the first rows, by as many equal steps."""
    total, x = torch.zeros(5, WIDTH, dtype=torch.float64), Z[:5].double()
    for t in (torch.arange(steps) + 0.5) / steps:
        at = (t * x).requires_grad_()
        total += torch.autograd.grad(score(at)[:, 0].sum(), at)[0]
    return (total * x / steps).numpy()


def test_networks_and_kernels_have_integrated_gradients():
    one = networks(losses.build("two-way")).member(1)  # no link: the score is the logit
    module = one.module().double()
    found = of_model(one, Z, np.arange(5), np.zeros(5, dtype=int))
    np.testing.assert_allclose(found.values.toarray(), slopes(module), atol=2e-3)
    kernel = machine()
    found = of_model(kernel, Z, np.arange(5), np.zeros(5, dtype=int)).values.toarray()

    def estimate(x):
        near = (-kernel.gamma * (x[:, None] - Z.double()).square().sum(2)).exp()
        return near @ kernel.coefficients.double()

    due = slopes(estimate)
    ratio = found.sum(1) / due.sum(1)  # what makes log-odds of the estimate
    np.testing.assert_allclose(found, due * ratio[:, None], atol=1e-4)


def test_a_blend_is_made_of_its_members():
    found, scores = found_of(blend())
    assert [name for name, _ in found.members] == ["head", "trees", "networks", "machine"]
    each = [member.total() - member.base for _, member in found.members]
    np.testing.assert_allclose(found.base + np.sum(each, axis=0), scores, atol=1e-3)
    inside = sum(member.values for _, member in found.members)
    np.testing.assert_allclose(inside.toarray(), found.values.toarray(), atol=1e-12)
    alone = of_model(Scorer(head()).model, Z, *PAIRS).values.toarray()
    own = found.members[0][1].values.toarray()
    ratio = own[:, 0] / alone[:, 0]
    assert (ratio > 0).all()
    np.testing.assert_allclose(own, alone * ratio[:, None], atol=1e-9)


# ---- of a saved model ---------------------------------------------------------------------------

TEXTS = ["rain at sea", "sun on sand", "rain and wind", "sea and sand", "wind at sea", "sun"]
NAMES = ["wet", "warm"]


def saved(encoder, rows, model=None):
    fitted = encoder.fit(rows)
    width = fitted(rows).shape[1]
    torch.manual_seed(0)
    linear = heads.build("linear", features=width, labels=2)
    model = linear if model is None else model(fitted(rows))
    part = {"head": model} if isinstance(model, Head) else {"estimator": model}
    schema = (rows.schema or Schema.of(rows)).as_json()
    return SavedModel(names=NAMES, encoder=fitted, about={"schema": schema}, **part)


@pytest.fixture
def of_texts():
    rows = Dataset.from_arrays(None, [[1, 0]] * 6, texts=TEXTS)
    return saved(encode.build("tfidf", words=1, characters=3), rows)


def test_words_are_quoted_and_times_their_weights(of_texts):
    model = of_texts
    found = model.explain(TEXTS, labels=["warm"], top=1000)
    assert [reason.label for reason in found] == ["warm"] * 6
    encoder, weight = model.encoder, model.head.matrix()[0][1].detach()
    x = encoder(Dataset.from_arrays(None, [[0]], texts=TEXTS[:1])).dense()[0]
    added = (x * weight).tolist()
    # each n-gram of characters belongs to the words it is in, as often as it is in them
    columns = encoder.terms("words") + [f"letters {t}" for t in encoder.terms("characters")]
    cut = CountVectorizer(analyzer="char_wb", ngram_range=(2, 3)).build_analyzer()
    inside = {w: Counter([w, *(f"letters {t}" for t in cut(w))]) for w in TEXTS[0].split()}
    every = sum(inside.values(), Counter())
    terms = dict(found[0].terms)
    for word, counts in inside.items():
        due = sum(
            value * counts[term] / every[term]
            for term, value in zip(columns, added, strict=True)
            if term in every
        )
        assert terms.pop(f'"{word}"') == pytest.approx(due, rel=1e-5)
    assert not terms
    for reason in found:
        assert reason.rest == pytest.approx(0, abs=1e-6)
        total = reason.base + sum(value for _, value in reason.terms) + reason.rest
        assert total == pytest.approx(reason.score, abs=1e-12)
    short = model.explain(TEXTS, labels=[1], top=2)[0]
    assert short.terms == found[0].terms[:2]
    due = sum(value for _, value in found[0].terms[2:])
    assert short.rest == pytest.approx(due, abs=1e-6)


def test_the_predicted_labels_are_explained_or_the_most_probable(of_texts):
    model = of_texts
    p = model.predict_proba(TEXTS)
    for threshold in (0.0, 1.0):
        model.rule = decide.build("fixed", threshold=threshold)
        found = model.explain(TEXTS)
        if threshold:
            assert [r.label for r in found] == [NAMES[at] for at in p.argmax(1).tolist()]
        else:
            assert [(r.row, r.label) for r in found] == [(i, n) for i in range(6) for n in NAMES]


def test_a_frame_has_a_line_for_each_term(of_texts):
    found = of_texts.explain(TEXTS, top=3)
    frame = found.to_frame()
    assert [*frame.columns] == ["row", "label", "member", "term", "value"]
    sums = frame.groupby(["row", "label"])["value"].sum()
    for reason in found:
        assert sums[reason.row, reason.label] == pytest.approx(reason.score)
    json.dumps([reason.as_json() for reason in found], allow_nan=False)


def test_bad_labels_and_numbers_are_told(of_texts):
    with pytest.raises(ValueError, match="no label is called 'wett': did you mean 'wet'"):
        of_texts.explain(TEXTS, labels=["wett"])
    with pytest.raises(ValueError, match="numbered 0 to 1, got 2"):
        of_texts.explain(TEXTS, labels=[2])
    with pytest.raises(ValueError, match="top must be"):
        of_texts.explain(TEXTS, top=0)


def table():
    numbers = [[20.0 + i, i % 2, (i + 1) % 2] for i in range(40)]
    y = [[i % 2, int(i > 20)] for i in range(40)]
    rows = Dataset.from_arrays(numbers, y)
    schema = Schema(columns=["age", "hue"], categories={"hue": ["red", "blue"]}, width=3)
    return replace(rows, schema=schema)


def test_columns_and_categories_are_named():
    rows = table()
    linear = saved(encode.build("features"), rows)
    assert {name for name, _ in linear.explain(rows, labels=[0])[0].terms} == {
        *("age", "hue=red", "hue=blue")
    }

    def grown(x):
        made = ExtraTreesRegressor(10, random_state=0).fit(x.numpy(), rows.labels.dense().numpy())
        return Forest.from_sklearn(made)

    trees = saved(encode.build("features"), rows, grown)
    for reason in trees.explain(rows, labels=["wet"]):
        assert reason.terms[0][0].startswith("hue=")
        assert abs(reason.rest) < 1e-5
    wet, warm = trees.weights()
    assert (wet.kind, warm.kind) == ("importances", "importances")
    assert wet.terms[0][0].startswith("hue=")
    assert warm.terms[0][0] == "age"


def test_dimensions_of_an_embedding_are_one_term():
    rows = Dataset.from_arrays(None, [[1, 0]] * 6, texts=TEXTS)
    model = saved(encode.build("tfidf", svd=3), rows)
    reason = model.explain(TEXTS, labels=["wet"])[0]
    assert [name for name, _ in reason.terms] == ["embedding of text"]
    assert reason.base + reason.terms[0][1] == pytest.approx(reason.score, abs=1e-6)
    with pytest.raises(ValueError, match="only linear models and forests of words or columns"):
        model.weights()


def test_the_largest_weights_of_a_label(of_texts):
    (found,) = of_texts.weights(["warm"], top=4)
    weight = of_texts.head.matrix()[0][1].detach()
    due = sorted(weight.abs().tolist(), reverse=True)[:4]
    assert [abs(value) for _, value in found.terms] == pytest.approx(due)
    assert (found.kind, found.label, found.member) == ("weights", "warm", "")
    kernel = KernelMachine(torch.zeros(1, 3), torch.zeros(1, 2), torch.full((2,), 0.5), 1.0)
    model = saved(encode.build("features"), table(), lambda _: kernel)
    with pytest.raises(ValueError, match="only linear models and forests"):
        model.weights()


def test_a_picture_has_a_heat_map_that_adds_up():
    g = torch.Generator().manual_seed(0)
    images = torch.randint(0, 40, (3, 1, 24, 24), generator=g, dtype=torch.uint8)
    images[0, :, 2:8, 14:22] = 250
    rows = Dataset.from_arrays(images=images, labels=[[1, 0]] * 3)
    torch.manual_seed(0)
    model = saved(encode.build("conv", width=16), rows)
    found = model.explain(rows, labels=["wet"], top=3)
    for reason in found:
        assert reason.heat.shape == (16, 16)
        assert reason.base + float(reason.heat.sum()) == pytest.approx(reason.score, abs=2e-3)
        largest = reason.heat.flatten()[reason.heat.abs().argmax()]
        assert reason.terms[0][1] == pytest.approx(float(largest))
    inside = found[0].heat.abs()[:7, 8:16].sum() / found[0].heat.abs().sum()
    assert inside > 0.5  # of what is added lies where the bright patch is
    assert found[0].terms[0][0].startswith("square ")


# ---- on disk ------------------------------------------------------------------------------------


def test_sizes_of_leaves_are_kept_and_looked_at(tmp_path):
    rows = table()
    y = rows.labels.dense().numpy()
    model = saved(
        encode.build("features"),
        rows,
        lambda x: Forest.from_sklearn(
            ExtraTreesRegressor(3, max_depth=2, random_state=0).fit(x.numpy(), y)
        ),
    )
    model.save(tmp_path)
    opened = SavedModel.open(tmp_path)
    assert opened.explain(rows, labels=[0])[0] == model.explain(rows, labels=[0])[0]
    tensors = load(save(model.estimator.tensors()))
    without = {name: t for name, t in tensors.items() if name != SIZES}
    assert Forest.from_tensors(without).sizes is None  # as files were written before
    for bad in (tensors[SIZES][1:], tensors[SIZES].double(), 0 * tensors[SIZES]):
        with pytest.raises(ValueError, match="leaf_sizes of a forest must be"):
            Forest.from_tensors(tensors | {SIZES: bad})


def test_a_network_that_is_never_smooth_takes_a_bounded_number_of_slopes():
    rows = 0

    def rough(x):
        nonlocal rows
        rows += len(x)
        return (x + 0.1 * torch.sin(1e5 * x)).sum(1, keepdim=True)

    ends = torch.ones(2, 3)
    along(rough, torch.zeros(2, 3), ends, np.zeros(2, dtype=np.int64))
    assert rows < 2 * 4 * 2**5 * 7  # ways, parts, halvings, and points of each
