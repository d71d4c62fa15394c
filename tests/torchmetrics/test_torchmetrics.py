"""Every metric as a torchmetrics.Metric: the values are ours, in a loop, a collection, on ranks."""

import copy
import importlib
import math
import pickle
import sys
import warnings

import pytest
import torch
import torch.multiprocessing
from torch import distributed

from labelset import losses, metrics
from labelset.testing.cases import random_batch

torchmetrics = pytest.importorskip("torchmetrics")
from labelset.torchmetrics import Streamed, build, collection  # noqa: E402

SETTINGS = [(n, e) for n in metrics.names() for e in metrics.catalog.get(n).examples]
CUTS = [(0, 5), (5, 6), (6, 20)]


def data(metric, seed=0, unknown=True):
    v, y = random_batch(20, 6, seed=seed, unknown=unknown)
    given = {"scores": v, "probabilities": v.sigmoid(), "label sets": (v > 0).double()}
    return given[metric.takes], y


@pytest.mark.parametrize(("name", "example"), SETTINGS, ids=str)
def test_values_are_ours(name, example):
    ours, theirs = metrics.build(name, **example), build(name, **example)
    assert isinstance(theirs, torchmetrics.Metric)
    assert theirs.higher_is_better == ours.higher_is_better
    given, y = data(ours)
    for a, b in CUTS:
        here = theirs(given[a:b], y[a:b])
        try:
            want = ours(given[a:b], y[a:b])
        except ValueError:
            want = math.nan
        assert here.item() == pytest.approx(want, rel=1e-12, nan_ok=True)
    assert theirs.compute().item() == pytest.approx(ours(given, y), rel=1e-12)
    saved = pickle.loads(pickle.dumps(theirs))
    assert saved.compute() == theirs.compute()
    theirs.reset()
    given, y = data(ours, seed=1)
    theirs.update(given, y)
    assert theirs.compute().item() == pytest.approx(ours(given, y), rel=1e-12)
    assert theirs.clone().compute() == copy.deepcopy(theirs).compute() == theirs.compute()


@pytest.mark.parametrize("name", ["map@class", "f1-macro", "ndcg@k"])
def test_states_merge(name):
    ours, one, other = metrics.build(name), build(name), build(name)
    given, y = data(ours)
    one.update(given[:7], y[:7])
    other.update(given[7:], y[7:])
    one.merge_state(other)
    assert one.compute().item() == pytest.approx(ours(given, y), rel=1e-12)


def test_against_torchmetrics_own():
    v, y = random_batch(200, 6, seed=4)
    y = y.long()
    own = torchmetrics.MetricCollection(
        {
            "map@class": torchmetrics.classification.MultilabelAveragePrecision(num_labels=6),
            "f1-micro": torchmetrics.classification.MultilabelF1Score(6, average="micro"),
            "coverage": torchmetrics.classification.MultilabelCoverageError(num_labels=6),
        }
    )
    ours = collection(["map@class", "f1-micro", "coverage"], loss="bce")
    for rows in torch.arange(200).split(64):
        own.update(v[rows].sigmoid(), y[rows])
        ours.update(v[rows], y[rows])
    want = own.compute()
    for name, value in ours.compute().items():
        assert value.item() == pytest.approx(want[name].item(), rel=1e-5)


def test_a_collection_takes_scores_and_the_loss_says_what_they_mean():
    v, y = random_batch(50, 6, seed=4)
    names = ["map@class", "f1-micro", "nll"]
    found = collection(names, loss="spa")(v, y)
    p = losses.build("spa").link(v)
    want = {n: metrics.build(n)(g, y) for n, g in zip(names, (v, (p >= 0.5).int(), p), strict=True)}
    assert {n: x.item() for n, x in found.items()} == pytest.approx(want)
    with pytest.raises(losses.NoLink):
        collection(["map@class", "nll"], loss="sigmoid-f1")


def test_a_collection_takes_metrics_and_the_settings_of_torchmetrics():
    made = collection(["nll", metrics.build("ndcg@k", k=3)], loss="bce", prefix="val_")
    assert sorted(made(torch.randn(4, 5), torch.ones(4, 5))) == ["val_ndcg@3", "val_nll"]
    assert "NDCG" in repr(made)
    with pytest.raises(TypeError, match="list of names"):
        collection("nll", loss="bce")


def test_equal_values_at_first_do_not_make_equal_metrics():
    """Collections share the states of metrics that look alike after one batch."""
    made = {n: build(n, k=1) for n in ("precision@k", "ndcg@k", "recall@k", "f1@k")}
    made |= {"ece": build("ece", bins=4), "ace": build("ace", bins=4), "of1": build("of1")}
    scores = {n: m for n, m in made.items() if m.of.takes == "scores"}
    together = torchmetrics.MetricCollection(scores)
    v, y = torch.eye(4), torch.eye(4)
    together.update(v, y)  # all are 1
    y2 = torch.tensor([[0.0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]])
    together.update(v, y2)
    for name, value in together.compute().items():
        want = metrics.build(name, k=1)(torch.cat([v, v]), torch.cat([y, y2]))
        assert value.item() == pytest.approx(want), name


def test_nothing_counted_or_defined():
    metric = build("map@class")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchmetrics warns of a compute before an update
        assert metric.compute().isnan()
    assert metric(torch.zeros(2, 3), torch.zeros(2, 3)).isnan()
    assert metric(torch.eye(3), torch.eye(3)) == 1.0


def test_bad_input_is_refused_as_ours_is():
    metric = build("f1-micro")
    with pytest.raises(ValueError, match="label sets are due"):
        metric.update(torch.rand(2, 3), torch.ones(2, 3))
    metric.update(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(ValueError, match="equal numbers of labels, got 3 and 1"):
        metric.update(torch.ones(2, 1), torch.ones(2, 1))
    with pytest.raises(ValueError, match="no metric is called"):
        build("f2")


FIRST = list({n: (n, e) for n, e in reversed(SETTINGS)}.values())
FIRST += [("ace", {"binning": "mass", "bins": 4})]


def share(rank, turn):
    """Rank 0 has the first rows, and every third turn all of them."""
    end = 20 if turn % 3 == 0 else 7
    return slice(end) if rank == 0 else slice(end, 20)


def ranks(rank, path):
    distributed.init_process_group("gloo", f"file://{path}/meet", rank=rank, world_size=2)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # torchmetrics warns of a rank that has counted nothing
    found = []
    for turn, (name, example) in enumerate(FIRST):
        metric = build(name, **example)
        given, y = (t[share(rank, turn)] for t in data(metric.of))
        if len(given):
            metric.update(given.float() if rank else given, y)
        together = metric.compute().item()
        metric._to_sync, metric._computed = False, None
        found.append((together, metric.compute().item()))
    wide = Streamed(metrics.build("f1-micro"))
    wide.update(torch.ones(2, 3 + rank), torch.ones(2, 3 + rank))
    try:
        wide.compute()
    except ValueError as error:
        found.append(str(error))
    torch.save(found, f"{path}/{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.slow
def test_ranks_agree_with_one_process(tmp_path):
    torch.multiprocessing.spawn(ranks, (str(tmp_path),), nprocs=2)
    for rank in range(2):
        *found, wide = torch.load(tmp_path / f"{rank}.pt")
        for turn, (name, example) in enumerate(FIRST):
            ours = metrics.build(name, **example)
            given, y = data(ours)
            mine, theirs = share(rank, turn), share(1, turn)
            given[theirs] = given[theirs].float().double()
            assert found[turn][0] == pytest.approx(ours(given, y), rel=1e-6), name
            # and afterwards a rank has what it had counted itself
            kept = ours(given[mine], y[mine]) if len(y[mine]) else math.nan
            assert found[turn][1] == pytest.approx(kept, rel=1e-6, nan_ok=True), name
        assert "equal numbers of labels, got [3, 4]" in wide


@pytest.mark.parametrize("module", ["torchmetrics", "transformers"])
def test_without_the_package_it_says_what_to_install(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    for name in [n for n in sys.modules if n.startswith(f"labelset.{module}")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=rf"pip install 'labelset\[{module}\]'"):
        importlib.import_module(f"labelset.{module}")
