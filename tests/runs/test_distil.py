"""A network that has learnt what a blend says: of its teachers, in the table, and chosen."""

import pytest
import torch

import labelset as ls
from labelset.cli import main
from labelset.data import Dataset, SparseRows
from labelset.metrics import build
from labelset.model import Mlp
from labelset.runs import Plan, distil, families, reopened, search
from labelset.runs.choosing import choose_found
from labelset.runs.distil import _mixed, _refitted, distilled
from labelset.runs.families import FAMILIES
from labelset.runs.folds import Development
from labelset.runs.search import EFFORT, Effort, Search
from labelset.runs.shelf import InMemory, tasks_of
from labelset.train import MlpSettings, members, solve

NARROW = MlpSettings(width=16, layers=1, dropout=0.2, noise=0.2, lr=0.02, epochs=12, batch=32)
SMALL = Effort((3, 3), 2, ("bce",), 4, 1)


def rows(count=160):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(count, 4, generator=g)
    truth = torch.stack([x[:, 0] * x[:, 1], x[:, 2] + x[:, 3].abs()], dim=1)
    return x, (truth + 0.3 * torch.randn(count, 2, generator=g) > 0.5).float()


@pytest.fixture
def small(monkeypatch):
    """Few trees and narrow networks, for speed."""
    monkeypatch.setitem(EFFORT, "quick", SMALL)
    for room in (members, distil):
        monkeypatch.setattr(room, "for_shape", lambda *_: NARROW)
    return {"effort": "quick", "losses": ["bce"]}


@pytest.mark.parametrize("given", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_teacher_has_not_seen_the_fold(small, given, monkeypatch):
    """Labels of a fold may be whatever they are: those who teach its network are the same, but for
    settings that all folds choose, of which there is one each here."""
    monkeypatch.setattr(solve, "STRENGTHS", (1.0,))
    for name in ("GAMMAS", "RIDGES"):
        monkeypatch.setattr(families, name, (1.0,))
    x, y = rows(60)
    fold = torch.arange(60) % 3
    folds = torch.where(fold == 1, 0, -1) if given else fold
    without, said = 0 if given else 1, []
    other = torch.where(fold[:, None] == 1, 1 - y, y)
    for labels in (y, other):
        data = Dataset.from_arrays(x, labels, split=[0] * 60)
        here = Search(data, Plan(**small), InMemory())
        final = fold if given else folds
        here.__dict__["development"] = Development(
            torch.arange(60), folds, data.labels, torch.empty(0, dtype=torch.int64), final
        )
        for name in ("linear", "kernel", "trees", "networks"):
            search._searched(here, name, FAMILIES[name])
        tasks = [task for task in here.shelf.models if task.head != "frequency"]
        assert len(tasks) == 4
        for task in tasks:
            run = here.shelf.model(task)
            model = _refitted(here, task, run.model, without)
            said.append(search.Scorer(model).of_features(x))
    for one, same in zip(said[:4], said[4:], strict=True):
        assert torch.equal(one, same)


@pytest.mark.slow
def test_it_stands_in_the_table_as_one_network(small, tmp_path):
    x, y = rows()
    found = ls.compare(x, y, distil=True, out=tmp_path / "run", **small)
    assert {"blend", "distilled"} <= {*found.standings}
    run = found.run("distilled")
    assert isinstance(run.model, Mlp)
    assert len(run.model) == 1
    assert found.search["costs"]["distilled"][2] == pytest.approx(run.model.nbytes / 1e6)
    value, floor = (
        next(s.mean for s in found.standings[key] if s.metric == "map@class")
        for key in ("distilled", "frequency")
    )
    assert value > floor + 0.1
    again = reopened(tmp_path / "run")
    assert again.standings.keys() == found.standings.keys()
    allowed = choose_found({"bce+linear": 0.5, "distilled": 0.6}, Plan(), {"passes": False})
    assert allowed == "distilled"


@pytest.mark.slow
def test_labels_drawn_at_random_leak_nothing(small):
    """What is better than chance on unseen rows would have been told by their own labels."""
    g = torch.Generator().manual_seed(3)
    x, y = torch.randn(240, 5, generator=g), (torch.rand(240, 3, generator=g) < 0.3).float()
    found = ls.compare(x, y, distil=True, optimise="map@class", **small)
    part = found.run("distilled").splits["valid"]
    assert abs(build("auroc@class")(part.scores, part.labels) - 0.5) < 0.12


def test_from_the_command_line_and_where_there_is_no_blend(tmp_path, capsys):
    x, y = rows(60)
    lines = ["a,b,c,d,fork,cup"]
    for row, labels in zip(x.tolist(), y.int().tolist(), strict=True):
        lines.append(",".join(map(str, row + labels)))
    (tmp_path / "a.csv").write_text("\n".join(lines))
    keys = ["--data", "label_columns=fork,cup", "--losses", "bce", "--time-budget", "0.01s"]
    argv = ["compare", str(tmp_path / "a.csv"), "--out", str(tmp_path / "run"), *keys]
    assert main([*argv, "--distil", "--quiet"]) == 0
    assert "distilled failed, there is no blend" in capsys.readouterr().out


def test_rows_are_mixed_alike_whether_sparse_or_dense():
    x = torch.randn(30, 5, generator=torch.Generator().manual_seed(0)).clamp(min=0)
    held = SparseRows.from_csr(torch.arange(0, 151, 5), torch.arange(5).repeat(30), 5, x.flatten())
    mixed = _mixed(x, 1)
    assert torch.allclose(_mixed(held, 1).dense(), mixed, atol=1e-6)
    assert bool((mixed <= x.amax(0) + 1e-6).all())
    assert not torch.equal(mixed, x)


@pytest.mark.slow
def test_what_it_learns_is_what_the_blend_says(small):
    """Unknown labels and weights change nothing about who is asked."""
    x, y = rows(120)
    y[::7, 0] = torch.nan
    data = Dataset.from_arrays(x, y, split=[0] * 90 + [2] * 30)
    here = Search(data, Plan(**small, distil=True), InMemory())
    for name, family in FAMILIES.items():
        here.entries[name] = search._searched(here, name, family)
    blended, _ = search.blend(here, tasks_of(here.entries.values()))
    assert blended
    ((task, fitted),) = distilled(here)
    blend = here.shelf.model(search.BLEND).estimator
    inside = here.features
    p, own = blend.scores(inside).sigmoid(), fitted.model.scores(inside).sigmoid()
    assert float((p - own).abs().mean()) < 0.15
    assert task.key == "distilled"
