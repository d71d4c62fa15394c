"""ONNX files give what the run gives, for every link, map, rule and head; read by onnxruntime."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from labelset import calibrate, decide, encode, heads, losses
from labelset.data import Dataset
from labelset.export import ExportFailed, NotExportable, to_onnx, to_torch
from labelset.losses import NoLink
from labelset.model import SavedModel

N, E = 6, 5
NAMES = [f"label {i}" for i in range(N)]
torch.manual_seed(0)
SCORES = torch.randn(300, N) * 2
LABELS = (torch.rand(300, N) < torch.sigmoid(SCORES)).float()
ROWS = torch.randn(300, E) * torch.tensor([1.0, 5.0, 0.1, 2.0, 1.0]) + 3


def outputs(path, x):
    """What onnxruntime makes of a file, by name."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    got = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    names = [out.name for out in session.get_outputs()]
    return {name: torch.from_numpy(t) for name, t in zip(names, got, strict=True)}


def held_to(run, path, x, features=None):
    """The file's outputs against the run's own, on rows the export has not tried."""
    to_onnx(run, path)
    got = outputs(path, x)
    v = x if run.head is None else run.score(features)
    assert torch.allclose(got["logits"], v, atol=1e-4, rtol=1e-4)
    p = run.predictor.probabilities(v)
    assert torch.allclose(got["probabilities"], p.to(v.dtype), atol=1e-4)
    due = run.predictor.decide(got["probabilities"]).dense() == 1
    assert torch.equal(got["decisions"], due)
    return got


LINKED = [
    (name, k)
    for name in losses.names()
    for k, settings in enumerate(losses.catalog.get(name).examples)
    if losses.build(name, **settings).link_missing() is None
]


@pytest.mark.parametrize(("name", "k"), LINKED)
def test_links(name, k, tmp_path):
    loss = losses.build(name, **losses.catalog.get(name).examples[k])
    x = torch.cat([SCORES, torch.tensor([[-1e4], [-90.0], [90.0], [1e4]]).expand(-1, N)])
    held_to(SavedModel(names=NAMES, loss=loss), tmp_path / "m.onnx", x)


@pytest.mark.parametrize("loss", [None, "asl", "spa"])
@pytest.mark.parametrize("name", calibrate.names())
def test_maps(name, loss, tmp_path):
    if name == "phi":
        loss = "focal" if loss is None else "asl"
    for per in (None,) if name in ("link", "phi") else ("label", "pool", "shrunk"):
        settings = {} if per is None else {"per": per}
        made = calibrate.build(name, loss=loss, **settings).fit(SCORES, LABELS, folds=0)
        held_to(
            SavedModel(names=NAMES, loss=loss, calibrator=made), tmp_path / "m.onnx", SCORES * 3
        )


def test_maps_at_their_own_knots_and_edges(tmp_path):
    """Scores that the curves were fitted to: every knot and edge is met exactly."""
    v = SCORES.round()  # many equal ones
    for name in ("isotonic", "histogram"):
        run = SavedModel(
            names=NAMES, calibrator=calibrate.build(name, per="label").fit(v, LABELS, folds=0)
        )
        to_onnx(run, tmp_path / "m.onnx")
        got = outputs(tmp_path / "m.onnx", v)["probabilities"]
        assert torch.allclose(got, run.predictor.probabilities(v), atol=1e-7)


def test_isotonic_of_a_label_that_was_never_seen(tmp_path):
    y = LABELS.clone()
    y[:, 2] = torch.nan
    run = SavedModel(names=NAMES, calibrator=calibrate.build("isotonic").fit(SCORES, y, folds=0))
    held_to(run, tmp_path / "m.onnx", SCORES)


@pytest.mark.parametrize("name", ["averaging", "budget", "fixed", "global", "per-class", "top-k"])
def test_rules(name, tmp_path):
    settings = {"k": 2} if name in ("budget", "top-k") else {}
    rule = decide.build(name, **settings).fit(torch.sigmoid(SCORES), LABELS)
    # halves of scores are often equal: ties must break to the lowest label
    held_to(SavedModel(names=NAMES, rule=rule), tmp_path / "m.onnx", (SCORES * 2).round() / 2)


@pytest.mark.parametrize(
    ("n", "empty"),
    [
        *((1, 0.5), (6, 0.0), (6, 1.0), (60, 0.5)),
        *(pytest.param(n, e, marks=pytest.mark.slow) for n in (1, 60) for e in (0.0, 1.0)),
        pytest.param(6, 0.5, marks=pytest.mark.slow),
    ],
)
def test_the_sets_of_largest_expected_f1(n, empty, tmp_path):
    draw = torch.Generator().manual_seed(n)
    v = 3 * torch.randn(400, n, generator=draw) - 2
    v[:50], v[50:60], v[60:70] = v[:50].round(), -80.0, 80.0  # ties, nothing, everything
    v[70:80, 0] = torch.nan
    names = [str(label) for label in range(n)]
    run = SavedModel(names=names, rule=decide.build("expected-f1", empty=empty))
    to_onnx(run, tmp_path / "m.onnx")
    to_torch(run, tmp_path / "m.pt2")
    got = outputs(tmp_path / "m.onnx", v)
    clear = ~v.isnan().any(1)
    due = run.predictor.decide(got["probabilities"][clear]).dense() == 1
    assert torch.equal(got["decisions"][clear], due)
    program = torch.export.load(tmp_path / "m.pt2").module()
    assert torch.equal(program(v)[2], got["decisions"])
    assert not got["decisions"][70:80, 0].any()


def test_thresholds_are_compared_exactly(tmp_path):
    """A probability that is the threshold to the last bit is on; the next one below is off."""
    p = torch.sigmoid(torch.tensor([[0.3]]).double()).float().double().item()
    above = float(np.nextafter(p, 1))
    for threshold, on in ((p, True), (above, False)):
        rule = decide.build("fixed", threshold=threshold)
        to_onnx(SavedModel(names=["a"], rule=rule), tmp_path / "m.onnx")
        got = outputs(tmp_path / "m.onnx", torch.tensor([[0.3]]))
        assert bool(got["decisions"][0, 0]) is on


HEADS = [
    ("linear", {}),
    ("linear", {"bias": False}),
    ("linear", {"rank": 1}),
    ("linear", {"rank": 4, "bias": False}),
    ("dft", {"k": 1}),
    ("dft", {"k": 2, "slack": 1, "order": [3, 1, 0, 5, 4, 2]}),
    ("dft", {"k": 2, "product": "fft"}),
]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("name", "settings"), HEADS)
def test_heads_behind_scaled_features(name, settings, sparse, tmp_path):
    x = ROWS.clone()
    x[3, 1] = torch.nan
    data = Dataset.from_arrays(x, LABELS)
    encoder = encode.build("features").fit(data)
    if sparse:
        encoder.facts["sparse"] = True
        encoder.learnt = {"largest": x.nan_to_num(0.0).abs().amax(0)}
    head = heads.build(name, features=E, labels=N, **settings)
    with torch.no_grad():
        for weight in head.parameters():
            weight.mul_(5)  # as large as training makes them
    held_to(SavedModel(names=NAMES, head=head, encoder=encoder), tmp_path / "m.onnx", x, data)


def test_a_wide_head_through_a_bottleneck_stays_two_products(tmp_path):
    for rank, products in ((2, 2), (40, 1)):
        head = heads.build("linear", features=50, labels=60, rank=rank)
        run = SavedModel(names=[str(i) for i in range(60)], head=head)
        to_onnx(run, tmp_path / "m.onnx")
        graph = onnx.load(tmp_path / "m.onnx").graph
        assert sum(node.op_type == "MatMul" for node in graph.node) == products


def test_constants_are_not_rounded(tmp_path):
    """1e200 stands for an infinite score; in float32 it would be infinite itself."""
    x = torch.tensor([[torch.inf, -torch.inf, 3e38, -3e38, 0.0, 1.0]])
    for loss in ("asl", "focal", "spa"):
        to_onnx(SavedModel(names=NAMES, loss=loss), tmp_path / "m.onnx")
        got = outputs(tmp_path / "m.onnx", x)["probabilities"]
        assert torch.allclose(got, calibrate.build("link", loss=loss)(x), atol=1e-7)


@pytest.mark.parametrize("name", ["histogram", "isotonic", "platt"])
def test_a_score_that_is_none_has_no_probability(name, tmp_path):
    to_onnx(
        SavedModel(names=NAMES, calibrator=calibrate.build(name).fit(SCORES, LABELS)),
        tmp_path / "m.onnx",
    )
    x = SCORES[:2].clone()
    x[0, 1] = torch.nan
    got = outputs(tmp_path / "m.onnx", x)
    assert torch.equal(got["probabilities"].isnan(), x.isnan())
    assert not got["decisions"][0, 1]


def test_a_head_in_half_precision(tmp_path):
    head = heads.build("dft", features=E, labels=N, k=2).bfloat16()
    to_onnx(SavedModel(names=NAMES, loss="bce", head=head), tmp_path / "m.onnx")
    got = outputs(tmp_path / "m.onnx", ROWS)["logits"]
    assert torch.allclose(got.double(), head.double()(ROWS.double()), atol=1e-4)


def test_a_head_in_float64_takes_and_gives_float64(tmp_path):
    head = heads.build("dft", features=E, labels=N, k=2).double()
    to_onnx(SavedModel(names=NAMES, head=head), tmp_path / "m.onnx")
    got = outputs(tmp_path / "m.onnx", ROWS.double())
    assert got["logits"].dtype == torch.float64
    assert torch.allclose(got["logits"], head(ROWS.double()), atol=1e-12)


def test_any_number_of_rows(tmp_path):
    rule = decide.build("top-k", k=2)
    to_onnx(SavedModel(names=NAMES, rule=rule, loss="asl"), tmp_path / "m.onnx")
    for rows in (0, 1, 2, 77):
        assert outputs(tmp_path / "m.onnx", SCORES[:rows])["decisions"].shape == (rows, N)


def test_what_the_file_says(tmp_path):
    head = heads.build("linear", features=E, labels=2)
    data = Dataset.from_arrays(None, LABELS[:, :2], texts=["a fork", "the knife"] * 150)
    encoder = encode.build("tfidf").fit(data)
    run = SavedModel(names=["fork", "Löffel"], loss="spa", head=head, encoder=encoder)
    to_onnx(run, tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(model, full_check=True)
    said = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(said["labelset.labels"]) == ["fork", "Löffel"]
    assert "'tfidf'" in said["labelset.input"]
    assert json.loads(said["labelset.loss"])["name"] == "spa"
    assert model.opset_import[0].version == 17
    assert [out.name for out in model.graph.output] == ["logits", "probabilities", "decisions"]


def test_without_decisions_any_rule_will_do(tmp_path):
    run = SavedModel(names=NAMES, rule=decide.build("budget", k=2))
    to_onnx(run, tmp_path / "m.onnx", decisions=False)
    assert set(outputs(tmp_path / "m.onnx", SCORES)) == {"logits", "probabilities"}


@pytest.mark.parametrize(
    ("rule", "says"),
    [("expected-f1", "at most 512"), ("budget", "decides rows together")],
)
def test_rules_that_cannot_be_exported_say_what_to_do(rule, says, tmp_path):
    settings = {"k": 2} if rule == "budget" else {}
    names = [str(label) for label in range(513)]
    run = SavedModel(names=names, rule=decide.build(rule, **settings))
    with pytest.raises(ValueError, match=says):
        to_onnx(run, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_rules_and_maps_of_other_labels_are_refused(tmp_path):
    other = decide.build("per-class").fit(torch.sigmoid(SCORES[:, :4]), LABELS[:, :4])
    with pytest.raises(ValueError, match="is for 4 labels"):
        to_onnx(SavedModel(names=NAMES, rule=other), tmp_path / "m.onnx")
    fitted = calibrate.build("platt").fit(SCORES[:, :4], LABELS[:, :4], folds=0)
    with pytest.raises(ValueError, match="fitted to 4 labels"):
        to_onnx(SavedModel(names=NAMES, calibrator=fitted), tmp_path / "m.onnx")
    with pytest.raises(ValueError, match="at most the number of labels"):
        to_onnx(SavedModel(names=NAMES, rule=decide.build("top-k", k=9)), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_a_loss_without_a_link_needs_a_map(tmp_path):
    with pytest.raises(NoLink, match="labelset calibrate"):
        to_onnx(SavedModel(names=NAMES, loss="hill"), tmp_path / "m.onnx")


def test_operations_without_onnx_form_are_named(tmp_path):
    class Own(type(decide.build("fixed"))):
        def decide(self, p):
            return torch.special.erf(p) > 0.5

    with pytest.raises(NotExportable, match=r"operation .*erf"):
        to_onnx(SavedModel(names=NAMES, rule=Own()), tmp_path / "m.onnx")


def test_rules_that_read_numbers_off_are_named(tmp_path):
    class Own(type(decide.build("fixed"))):
        def decide(self, p):
            return p >= (0.5 if float(p.sum((0, 1))) > 0.3 else 0.6)

    with pytest.raises(NotExportable, match=r"torch\.where"):
        to_onnx(SavedModel(names=NAMES, rule=Own()), tmp_path / "m.onnx")


def test_a_number_of_rows_that_is_frozen_in_the_graph_is_caught(tmp_path):
    class Own(type(decide.build("fixed"))):
        def decide(self, p):
            return torch.from_numpy(p.numpy() > 0.5) | (p > 2)

    with pytest.raises(ExportFailed, match=r"fails for|differ"):
        to_onnx(SavedModel(names=NAMES, rule=Own()), tmp_path / "m.onnx")


def test_a_rule_that_the_graph_gets_wrong_is_caught(tmp_path):
    """What is read off as a number while tracing is frozen in the graph: it must not be written."""

    class Frozen(type(decide.build("fixed"))):
        def decide(self, p):
            return p >= torch.tensor(p.numpy().mean())

    file = tmp_path / "m.onnx"
    file.write_bytes(b"what was there")
    with pytest.raises(ExportFailed, match="decisions differ"):
        to_onnx(SavedModel(names=NAMES, rule=Frozen()), file)
    assert file.read_bytes() == b"what was there"
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_a_wrong_constant_is_caught(monkeypatch, tmp_path):
    """Planted: the writer loses the precision of a constant, as float32 would."""
    from labelset.export import onnx

    exact = onnx.Graph.constant

    def rounded(self, value, dtype):
        short = torch.as_tensor(value)
        return exact(self, (short * 1.001) if short.is_floating_point() else short, dtype)

    monkeypatch.setattr(onnx.Graph, "constant", rounded)
    with pytest.raises(ExportFailed, match="nothing was written"):
        to_onnx(SavedModel(names=NAMES, loss="asl"), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_without_the_package_it_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "onnx.helper", None)
    with pytest.raises(ImportError, match=r"labelset\[onnx\]"):
        to_onnx(SavedModel(names=NAMES), tmp_path / "m.onnx")


def test_numbers_too_long_for_float32_come_in_float64(tmp_path):
    x = np.stack([1.7e9 + np.arange(60.0), np.arange(60.0) % 7, np.ones(60)], 1)
    data = Dataset.from_arrays(x, np.arange(60)[:, None] % 5 == np.arange(N))
    head = heads.build("linear", features=3, labels=N)
    run = SavedModel(names=NAMES, loss="bce", head=head, encoder=encode.build("features").fit(data))
    to_onnx(run, tmp_path / "m.onnx")
    got = outputs(tmp_path / "m.onnx", torch.from_numpy(x))
    assert got["logits"].dtype == torch.float32
    assert torch.allclose(got["logits"], run.score(data), atol=1e-5)
