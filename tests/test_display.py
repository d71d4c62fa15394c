"""What results show of themselves: records, frames, plots and what a notebook shows, alike."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch

import labelset as ls
from labelset import data, heads
from labelset.display import Shown
from labelset.doctor import diagnose
from labelset.model import Blend, Part, SavedModel, Split
from labelset.runs import Plan, compare

EVIL = "<script>alert('&')</script>"


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """One of each kind of result, with a label name that would be markup."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(200, 4, generator=g)
    y = x[:, :3] + 0.5 * torch.randn(200, 3, generator=g) > 0.7
    rows = data.Dataset.from_arrays(x, y, names=["a", "b", EVIL], ids=[f"r{i}" for i in range(200)])
    split = data.ensure_split(rows)
    plan = Plan(losses=("bce", "asl"), seconds=1)
    found = compare(split, plan, tmp_path_factory.mktemp("shown") / "run")
    run = SavedModel(["a", "b", EVIL], {"valid": Split(y, x[:, :3]), "test": Split(y, x[:, :3])})
    head = heads.build("linear", features=4, labels=3)
    parts = [Part(n, w, head, ls.calibrate.build("link")) for n, w in (("one", 0.25), (EVIL, 0.75))]
    probs = torch.sigmoid(x[:, :3])
    return {
        "comparison": found,
        "blend": Blend(parts),
        "data set": split,
        "inspected": data.inspect(split),
        "metric": ls.metrics.build("f1-macro").report(probs > 0.5, y),
        "reliability": ls.metrics.reliability(probs, y),
        "verification": ls.verify(head, y[:20]),
        "diagnosis": diagnose(run),
        "metrics of a run": run.evaluate(["f1-micro", "map@class", "ece"]),
        "reasons": found.best_model.explain(x[:2]),
    }


KINDS = (
    *("comparison", "blend", "data set", "inspected", "metric", "reliability", "verification"),
    *("diagnosis", "metrics of a run", "reasons"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_all_show_themselves_alike(shown, kind):
    pytest.importorskip("pandas")
    one = shown[kind]
    assert isinstance(one, Shown)
    records = one.records()
    frame = one.to_frame()
    assert len(frame) == len(records)
    assert list(frame.columns) == list(dict.fromkeys(name for each in records for name in each))
    for each in records:
        for value in each.values():
            assert isinstance(value, str | int | float | bool | list | tuple | type(None)), value


@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_shows_names_as_they_are(shown, kind):
    page = shown[kind]._repr_html_()
    root = ElementTree.fromstring(f"<div>{page}</div>")
    assert root.find(".//script") is None
    assert EVIL not in page
    assert len(page) < 200_000


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("inspected", "metric")])
def test_plots_are_drawn(shown, kind):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    one = shown[kind]
    if not one.panels():
        with pytest.raises(ValueError, match="nothing to draw"):
            one.plot()
        return
    axes = one.plot()
    assert axes.get_title(loc="left") == one.panels()[0].title
    figure, own = pyplot.subplots()
    assert one.plot(own) is own
    assert own.has_data()
    figure.canvas.draw()
    pyplot.close("all")
    assert ElementTree.fromstring(one.svg()).findall(".//{http://www.w3.org/2000/svg}path")


def test_what_is_recommended_is_marked_and_first(shown):
    found = shown["comparison"]
    records = found.records()
    (best,) = [each["candidate"] for each in records if each["recommended"]]
    assert best == found.best
    values = [each["f1-micro"] for each in records]
    assert values == sorted(values, reverse=True)
    assert {each["candidate"] for each in records} == {*found.standings}


def test_rows_of_a_data_set_are_named(shown):
    rows = shown["data set"]
    first = rows.records()[0]
    on = rows.labels[[0]].dense()[0].nonzero()[:, 0].tolist()
    assert first["id"] == "r0"
    assert first["labels"] == [rows.names[j] for j in on]
    assert first["part"] in data.PARTS if hasattr(data, "PARTS") else first["part"]


def test_label_sets_keep_their_verdicts(shown):
    v = shown["verification"]
    records = v.records()
    assert [each["status"] for each in records] == v.status.tolist()
    np.testing.assert_array_equal([each["radius"] for each in records], v.radius)


def test_evaluation_is_that_of_the_command_line(shown):
    one = shown["metrics of a run"]
    assert [each["metric"] for each in one.records()] == ["f1-micro", "map@class", "ece"]
    assert 0.5 < one["f1-micro"] < 1


def test_without_pandas_the_error_names_the_extra(shown, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"labelset\[notebook\]"):
        shown["blend"].to_frame()


def test_axes_are_counted(shown):
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match="axes must be 1"):
        shown["blend"].plot([None, None])
