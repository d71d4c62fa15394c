"""Every model that a run keeps is exported: forests, kernel machines, networks, blends."""

import json
from dataclasses import dataclass

import onnx
import onnxruntime
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from sklearn.ensemble import ExtraTreesRegressor

from labelset import calibrate, csr, decide, encode, heads
from labelset.data import Dataset, SparseRows
from labelset.export import ExportFailed, to_onnx, to_safetensors, to_torch
from labelset.losses import Separable, build
from labelset.model import Blend, Forest, KernelMachine, Mlp, Part, SavedModel

N, E = 4, 5
NAMES = [f"label {i}" for i in range(N)]
LOSSES = {
    "log-odds": None,
    "weighted": build("bce", pos_weight=torch.arange(1.0, N + 1), smoothing=0.1),
    "asl": build("asl"),
    "mixed": build("mix", pos="asl", neg="bce"),
    "two-way": build("two-way"),
}
DRAW = torch.Generator().manual_seed(0)
ROWS = torch.randn(150, E, generator=DRAW) * torch.tensor([1.0, 5.0, 0.1, 2.0, 1.0]) + 3
NEW = torch.randn(80, E, generator=DRAW) * torch.tensor([1.0, 5.0, 0.1, 2.0, 1.0]) + 3
LABELS = (torch.rand(150, N, generator=DRAW) < torch.sigmoid(ROWS @ torch.randn(E, N))).float()


def drawn(*shape):
    return torch.randn(shape, generator=DRAW)


def forest(features=ROWS, labels=LABELS, trees=6, **settings):
    made = ExtraTreesRegressor(trees, random_state=0, **settings)
    return Forest.from_sklearn(made.fit(features.numpy(), labels.numpy()))


def stump():
    """Goes the first way at 0, which probes meet."""
    leaves = SparseRows.from_csr([0, 1, 2], [0, 1], width=N, values=[1.0, 0.25])
    nodes = torch.tensor([0, -1, -1]), torch.zeros(3), torch.tensor([0, 3])
    return Forest(*nodes, leaves, width=E)


def networks(loss=None, layers=2, members=3, units=8):
    return Mlp(
        drawn(E),
        drawn(E, members, units),
        drawn(layers - 1, members, units, units),
        drawn(layers, members, units),
        drawn(members, units, N),
        drawn(members, N),
        loss,
    )


def machine():
    return KernelMachine(drawn(40, E), 0.3 * drawn(40, N), torch.linspace(0.1, 0.9, N), gamma=0.3)


def blend(**wide):
    """One part of every kind, their maps too."""
    scores = drawn(150, N)
    platt = calibrate.build("platt", loss="two-way", per="pool").fit(scores, LABELS, folds=0)
    curve = calibrate.build("isotonic").fit(scores, LABELS, folds=0)
    head = heads.build("dft", features=E, labels=N, k=1)
    made = (
        (head, calibrate.build("link", loss="asl")),
        (heads.build("linear", features=E, labels=N, **wide), curve),
        (networks(LOSSES["two-way"]), platt),
        (machine(), calibrate.build("link")),
        (forest(), calibrate.build("link")),
    )
    return Blend(tuple(Part(str(k), 0.2, *each) for k, each in enumerate(made)))


def saved(model, encoder=None, loss=None):
    """A run with a map of its own and thresholds."""
    made = {"head": model} if isinstance(model, heads.Head) else {"estimator": model}
    run = SavedModel(names=NAMES, encoder=encoder, loss=loss, **made)
    scores = run.scorer()(Dataset.from_arrays(ROWS, LABELS)) if encoder else drawn(150, N)
    run.calibrator = calibrate.build("platt", loss=loss).fit(scores, LABELS, folds=0)
    return run_with_rule(run, scores)


def run_with_rule(run, scores):
    run.rule = decide.build("per-class").fit(run.predictor.probabilities(scores), LABELS)
    return run


def by_onnx(path, x):
    session = onnxruntime.InferenceSession(str(path))
    return [torch.from_numpy(t) for t in session.run(None, {"features": x.numpy()})]


def agree(run, got, x, exact=False):
    """Scores and label sets of rows that the export has not tried."""
    v = run.score(Dataset.from_arrays(x, torch.zeros(len(x), N)))
    p = run.predictor.probabilities(v)
    sets = run.predictor.decide(p).dense() == 1
    assert torch.equal(got[0], v) if exact else torch.allclose(got[0], v, atol=2e-5, rtol=2e-5)
    assert torch.allclose(got[1], p, atol=1e-6)
    limit = run.rule.learnt.get("thresholds", 0.5)
    assert bool(((got[2] == sets) | ((p - limit).abs() < 1e-6)).all())


@pytest.fixture(scope="module")
def standardising():
    return encode.build("features").fit(Dataset.from_arrays(ROWS, LABELS))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("layers", [1, 3])
def test_networks(loss, layers, standardising, tmp_path):
    model = networks(LOSSES[loss], layers, members=2 if layers == 1 else 1)
    run = saved(model, standardising, None if model.linked else LOSSES[loss])
    to_onnx(run, tmp_path / "m.onnx")
    agree(run, by_onnx(tmp_path / "m.onnx", NEW), NEW)


SLOW = pytest.param("blend", marks=pytest.mark.slow)


@pytest.mark.parametrize("kind", ["forest", "kernel", "mlp", SLOW])
def test_both_programs_give_what_the_run_gives(kind, standardising, tmp_path):
    model = {"forest": forest, "kernel": machine, "mlp": networks, "blend": blend}[kind]()
    run = saved(networks(layers=1) if kind == "mlp" else model, standardising)
    to_onnx(run, tmp_path / "m.onnx")
    to_torch(run, tmp_path / "m.pt2")
    program = torch.export.load(tmp_path / "m.pt2").module()
    x = NEW.clone()
    x[::5, 2] = torch.nan
    for some in (x, x[:1], x[:0]):
        agree(run, by_onnx(tmp_path / "m.onnx", some), some, exact=kind == "forest")
        agree(run, program(some), some, exact=kind == "forest")
    onnx.checker.check_model(onnx.load(tmp_path / "m.onnx"), full_check=True)


@pytest.mark.parametrize("kind", ["forest", "kernel", "mlp"])
def test_numbers_that_came_in_float64_or_in_sparse_rows(kind, tmp_path):
    model = {"forest": forest, "kernel": machine, "mlp": networks}[kind]()
    far = Dataset.from_arrays(ROWS.double() + 1.7e9, LABELS)
    starts = csr.cumulate(torch.full((len(ROWS),), E))
    every = torch.arange(E).repeat(len(ROWS))
    sparse = SparseRows.from_csr(starts, every, E, ROWS.flatten())
    for data, x in ((far, NEW.double() + 1.7e9), (Dataset.from_arrays(sparse, LABELS), NEW)):
        run = run_with_rule(
            SavedModel(names=NAMES, encoder=encode.build("features").fit(data), estimator=model),
            drawn(150, N),
        )
        to_onnx(run, tmp_path / "m.onnx")
        agree(run, by_onnx(tmp_path / "m.onnx", x), x)


def test_features_of_another_encoder_come_as_it_gives_them(tmp_path):
    data = Dataset.from_arrays(None, LABELS, texts=["a fork", "the knife", "cups"] * 50)
    encoder = encode.build("tfidf", characters=0).fit(data)
    x = encoder(data).dense()
    run = SavedModel(names=NAMES, encoder=encoder, estimator=forest(x))
    to_onnx(run, tmp_path / "m.onnx")
    got = by_onnx(tmp_path / "m.onnx", x)
    assert torch.equal(got[0], run.score(data))
    with safe_open_model(tmp_path / "m.onnx") as said:
        assert "'tfidf'" in said["labelset.input"]
        assert said["labelset.estimator"] == "forest"


class safe_open_model:
    """The metadata of an ONNX file."""

    def __init__(self, path):
        self.said = {entry.key: entry.value for entry in onnx.load(path).metadata_props}

    def __enter__(self):
        return self.said

    def __exit__(self, *_):
        return None


def test_trees_of_every_shape(tmp_path):
    """One leaf alone, a deep chain beside it, leaves of no label and of many."""
    depth, labels = 20, 100
    chain = torch.tensor([0, *[0, -1] * (depth - 1), -1, -1])
    feature = torch.cat([torch.tensor([-1]), chain])
    threshold = torch.where(feature >= 0, torch.linspace(1, -1, len(feature)), 0.0)
    counts = torch.arange(depth + 2) * 5 % (labels + 1)
    columns = torch.cat([torch.arange(int(count)) for count in counts])
    values = torch.rand(len(columns), generator=DRAW).clamp(min=0.01).half().float()
    table = SparseRows.from_csr(csr.cumulate(counts), columns, labels, values)
    model = Forest(feature, threshold, torch.tensor([0, 1, len(feature)]), table, 1)
    run = SavedModel(names=[str(i) for i in range(labels)], estimator=model)
    x = torch.linspace(-1.2, 1.2, 97)[:, None]
    to_onnx(run, tmp_path / "m.onnx")
    assert torch.equal(by_onnx(tmp_path / "m.onnx", x)[0], model.scores(x))
    assert torch.equal(model.module()(x), model.scores(x))
    assert len(model.scores(x).unique(dim=0)) > depth - 3


def test_a_forest_takes_little_more_than_its_own_file(tmp_path):
    x = drawn(400, E)
    run = SavedModel(
        names=NAMES,
        estimator=forest(x, (x[:, :N] + drawn(400, N) > 0.5).float(), 300, min_samples_leaf=2),
    )
    run.save(tmp_path / "run")
    to_onnx(run, tmp_path / "m.onnx")
    kept = (tmp_path / "run" / "estimator.safetensors").stat().st_size
    assert (tmp_path / "m.onnx").stat().st_size < 1.5 * kept
    nodes = len(onnx.load(tmp_path / "m.onnx").graph.node)
    assert nodes < 20 * 60  # by levels, not by trees


def test_a_head_of_float64_within_a_blend(tmp_path):
    wide = heads.build("linear", features=E, labels=N).double()
    link = calibrate.build("link")
    model = Blend((Part("wide", 0.5, wide, link), Part("kernel", 0.5, machine(), link)))
    run = SavedModel(names=NAMES, estimator=model)
    to_onnx(run, tmp_path / "m.onnx")
    got = by_onnx(tmp_path / "m.onnx", NEW)
    assert got[0].dtype == torch.float32
    assert torch.allclose(got[0], model.scores(NEW), atol=2e-5)


@pytest.mark.parametrize("kind", ["forest", "kernel", "mlp", "blend"])
def test_the_tensors_of_an_estimator(kind, standardising, tmp_path):
    model = {"forest": forest, "kernel": machine, "mlp": networks, "blend": blend}[kind]()
    run = saved(model, standardising)
    to_safetensors(run, tmp_path / "m.safetensors")
    again = type(model).from_tensors(load_file(tmp_path / "m.safetensors"))
    assert torch.equal(again.scores(NEW), model.scores(NEW))
    with safe_open(tmp_path / "m.safetensors", framework="pt") as file:
        said = file.metadata()
    assert said["labelset.estimator"] == kind
    assert json.loads(said["labelset.rule"]) == json.loads(json.dumps(run.rule.as_json()))


@pytest.mark.parametrize("kind", ["forest", "kernel", "mlp", "blend"])
def test_a_model_that_the_graph_gets_wrong_is_caught(kind, standardising, tmp_path, monkeypatch):
    """Planted: one operation that only models use is off by little, or by one."""
    from labelset.export import onnx as writer

    def wrong_exp(c):
        return c.put("Exp", c.put("Mul", c.args[0], 1.001))

    def strictly(c):
        return c.put("Not", c.graph.put("Less", *(c.value(x, torch.float32) for x in c.args)))

    def untouched(c):
        return c.put("Mul", c.args[0], 1.0)

    name, wrong = {
        "forest": ("gt", strictly),
        "kernel": ("exp", wrong_exp),
        "mlp": ("native_layer_norm", untouched),
        "blend": ("scatter_add", untouched),
    }[kind]
    model = {"forest": stump, "kernel": machine, "mlp": networks, "blend": blend}[kind]()
    monkeypatch.setitem(writer.OPERATIONS, name, wrong)
    with pytest.raises(ExportFailed, match="logits differ"):
        to_onnx(saved(model, standardising), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("export", [to_onnx, to_torch])
def test_networks_of_a_loss_whose_link_is_derived_are_refused(export, tmp_path):
    @dataclass(frozen=True, kw_only=True)
    class Own(Separable):
        def pos(self, v):
            return torch.nn.functional.softplus(-v)

        def neg(self, v):
            return 2 * torch.nn.functional.softplus(v)

    run = SavedModel(names=NAMES, estimator=networks(Own()))
    with pytest.raises(ValueError, match=r"link of Own is found by diff.* or choose a candidate"):
        export(run, tmp_path / "m")
    assert not list(tmp_path.iterdir())
