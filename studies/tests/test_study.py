"""The study end to end on made data: trained, resumed, judged, reported."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from labelset import metrics
from labelset_studies import (
    Budget,
    Candidate,
    estimated,
    read_results,
    read_tables,
    study,
    write_page,
)
from labelset_studies._cell import final_cells, trial_cells
from labelset_studies._data import Ready, Resident, open_named, with_missing
from labelset_studies._fit import fit
from labelset_studies._store import Store
from labelset_studies._work import Workshop

TABLE = """
claim = 2
title = "One against the other"
source = "nobody"
metrics = ["raw map@class", "sigmoid f1-micro", "own/tuned f1-micro", "link ace", "platt ace"]
epochs = { short = 3, long = 3 }
seeds = { short = 2, long = 2 }
choose = "raw map@class"
data = { short = ["made"], long = ["made", "absent"] }

[tries]
all = [{ lr_times = 1.0 }, { lr_times = 1e-6 }]

[[candidates]]
name = "bce"

[[candidates]]
name = "bce, hardly trained"
loss = "bce"
training = { lr = 1e-9 }

[[candidates]]
name = "two-way"

[[expect]]
says = "training helps"
better = "bce"
than = "bce, hardly trained"
metrics = "raw map@class"

[[expect]]
says = "not training helps"
better = "bce, hardly trained"
than = "bce"
metrics = "raw map@class"

[[expect]]
says = "two-way has the mAP of bce, to 0.5"
better = "two-way"
than = "bce"
metrics = "raw map@class"
within = 0.5
extra = true
"""


def made(folder: Path) -> Path:
    """The data and the table, in a folder."""
    random = np.random.default_rng(0)
    x = random.normal(size=(240, 6)).astype("float32")
    y = x[:, :4] + 0.3 * random.normal(size=(240, 4)) > 0.7
    split = np.repeat([0, 1, 2], [120, 40, 80])
    np.savez(folder / "made.npz", X=x, Y=y.astype("uint8"), split=split)
    (folder / "table.toml").write_text(TABLE)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made(tmp_path)


def test_end_to_end(folder):
    tables = read_tables([folder / "table.toml"])
    results = study(tables, folder / "run", folder, Budget("short"))
    said = {one.says: one.verdict for one in results.sentences(tables[0])}
    assert said == {
        "training helps": "reproduced",
        "not training helps": "not reproduced",
        "two-way has the mAP of bce, to 0.5": "reproduced",
    }
    assert results.verdicts() == {2: "not reproduced"}
    assert results.about["cells"] == 6
    rows = list(csv.DictReader((folder / "run" / "results.csv").read_text().splitlines()))
    of_two_way = {row["stage"] for row in rows if row["candidate"] == "two-way"}
    assert of_two_way == {"raw", "sigmoid", "own/tuned", "platt"}  # it has no link


def test_the_value_is_the_metric_of_the_scores(folder):
    shop = Workshop(folder)
    table = read_tables([folder / "table.toml"])[0]
    cell = next(final_cells(table, ["made"], Budget("short"), {}))
    done = shop.do(cell)
    ready = shop.opened("made")
    got = fit(ready, ready.dataset.labels, cell.candidate, 0, 3, "cpu")
    labels = ready.dataset.part("test").labels
    assert done.values["raw map@class"] == metrics.build("map@class")(got.scores["test"], labels)
    on = got.scores["test"] > 0
    assert done.values["sigmoid f1-micro"] == pytest.approx(metrics.build("f1-micro")(on, labels))
    drawn = done.drawn["raw map@class"]
    assert abs(float(drawn.mean()) - done.values["raw map@class"]) < 0.05
    assert 0 < float(drawn.std()) < 0.1


def test_resuming_trains_only_what_is_left_and_finds_the_same(folder):
    tables = read_tables([folder / "table.toml"])
    whole = study(tables, folder / "whole", folder, Budget("short"))
    seen = []

    def stop(cell, done, at, of):
        seen.append(str(cell))
        if len(seen) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study(tables, folder / "run", folder, Budget("short"), tell=stop)
    path = folder / "run" / "cells.jsonl"
    path.write_bytes(path.read_bytes() + b'{"cell": "cut off')  # as a kill would leave it
    again = []
    found = study(
        tables,
        folder / "run",
        folder,
        Budget("short"),
        tell=lambda cell, *_: again.append(str(cell)),
    )
    assert len(again) == 2
    assert not set(again) & set(seen)
    assert found.values == whole.values
    names = ("results.csv", "comparisons.csv")
    for name in names:
        left, right = ((folder / run / name).read_text() for run in ("whole", "run"))
        assert _without_seconds(left) == _without_seconds(right)
    assert found.about["cells"] == 6


def _without_seconds(text):
    rows = list(csv.DictReader(text.splitlines()))
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def test_csvs_alone_are_gone_on_with(folder):
    """New data sets stand beside what an earlier run found, whose resamples are gone."""
    first, out, seen = read_tables([folder / "table.toml"]), folder / "run", []
    study(first, out, folder, Budget("long"))
    held = {
        name: (out / name).read_text().splitlines() for name in ("results.csv", "comparisons.csv")
    }
    (out / "cells.jsonl").unlink()

    def tell(cell, done, at, of):
        seen.append(cell.data)

    same = study(first, out, folder, Budget("long"), tell=tell)
    assert not seen
    assert (out / "results.csv").read_text().splitlines() == held["results.csv"]
    assert (out / "comparisons.csv").read_text().splitlines() == held["comparisons.csv"]
    (folder / "made.npz").rename(folder / "absent.npz")
    both = study(first, out, folder, Budget("long"), tell=tell)
    assert set(seen) == {"absent"}
    assert len(seen) == 12
    for name, before in held.items():
        assert set(before) < set((out / name).read_text().splitlines())
    assert both.sets(first[0]) == ["made", "absent"]
    assert both.mean(first[0], "made", "bce", "raw map@class") == same.mean(
        first[0], "made", "bce", "raw map@class"
    )
    assert both.about["cells"] == 24
    assert set(both.about["rows"]) == {"made", "absent"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished long run of the one table, of which only the CSVs are left."""
    folder = made(tmp_path_factory.mktemp("finished"))
    study(read_tables([folder / "table.toml"]), folder / "run", folder, Budget("long"))
    (folder / "run" / "cells.jsonl").unlink()
    return folder / "run"


@pytest.fixture
def out(folder, finished):
    """The same beside the data, to be changed."""
    return Path(shutil.copytree(finished, folder / "run"))


@pytest.mark.parametrize(
    ("change", "interrupted"),
    [
        pytest.param(change, stopped, marks=pytest.mark.slow if stopped and i else ())
        for i, change in enumerate(("setting", "cell", "metric", "comparisons", "cut line"))
        for stopped in (False, True)
    ],
)
def test_csvs_are_not_kept_where_they_are_not_whole(folder, out, change, interrupted):
    path, seen = folder / "table.toml", []
    lines = (out / "results.csv").read_text().splitlines()
    if change == "setting":
        path.write_text(path.read_text().replace("lr = 1e-9", "lr = 1e-8"))
    elif change == "cell":
        last = lines[-1].split(",")[:6]
        lines = [line for line in lines if line.split(",")[:6] != last]
    elif change == "metric":
        lines.pop()
    elif change == "comparisons":
        kept = (out / "comparisons.csv").read_text().splitlines()[0]
        (out / "comparisons.csv").write_text(kept + "\n")
    else:
        lines[-1] = lines[-1][:9]
    (out / "results.csv").write_text("\n".join(lines) + ("" if change == "cut line" else "\n"))
    tables = read_tables([path])

    def stop(*_):
        raise KeyboardInterrupt

    if interrupted:
        with pytest.raises(KeyboardInterrupt):
            study(tables, out, folder, Budget("long"), tell=stop)
    study(tables, out, folder, Budget("long"), tell=lambda cell, *_: seen.append(cell))
    assert len(seen) == 12 - interrupted
    fresh = study(tables, folder / "fresh", folder, Budget("long"))
    rows = (out / "results.csv").read_text().splitlines()
    again = (folder / "fresh" / "results.csv").read_text().splitlines()
    assert [r.rsplit(",", 1)[0] for r in rows] == [r.rsplit(",", 1)[0] for r in again]
    same = (folder / "fresh" / "comparisons.csv").read_text()
    assert (out / "comparisons.csv").read_text() == same
    assert len(fresh.comparisons) == 3
    assert not (out / "results.before.csv").exists()


def test_tables_that_are_not_asked_for_keep_their_results(folder):
    other = TABLE.replace("claim = 2", "claim = 3").replace("bce, hardly trained", "bce, lazy")
    (folder / "other.toml").write_text(other)
    first, second = (read_tables([folder / f"{name}.toml"]) for name in ("table", "other"))
    out = folder / "run"
    study(first, out, folder, Budget("short"))
    (out / "cells.jsonl").unlink()
    study(second, out, folder, Budget("short"))
    assert read_results(out, [*first, *second]).verdicts().keys() == {2, 3}
    (out / "cells.jsonl").unlink()
    seen = []
    study([*first, *second], out, folder, Budget("short"), tell=lambda *cell: seen.append(cell))
    assert not seen


def test_results_that_would_be_lost_are_kept_beside(folder, out):
    before = (out / "results.csv").read_text()
    lines = before.splitlines(keepends=True)
    (out / "results.csv").write_text("".join(lines[:-1]))  # not whole
    (folder / "made.npz").unlink()  # and cannot be made again
    study(read_tables([folder / "table.toml"]), out, folder, Budget("long"))
    assert (out / "results.before.csv").read_text() == "".join(lines[:-1])
    assert (out / "results.csv").read_text() == lines[0]


def test_one_folder_holds_one_version(folder, out):
    with pytest.raises(ValueError, match="holds the long version; use another folder"):
        study(read_tables([folder / "table.toml"]), out, folder, Budget("short"))


def test_built_in_data_are_not_set_beside_results_of_others(folder, out):
    seen = []
    tables = read_tables([folder / "table.toml"])
    found = study(tables, out, None, Budget("long"), tell=lambda *cell: seen.append(cell))
    assert not seen
    assert found.sets(tables[0]) == ["made"]


def test_the_long_version_searches_on_validation_rows(folder):
    tables = read_tables([folder / "table.toml"])
    budget = Budget("long")
    trials = list(trial_cells(tables[0], ["made"], budget))
    assert len(trials) == 3 * 2
    assert {cell.seed for cell in trials} == {100}
    results = study(tables, folder / "run", folder, budget)
    assert results.searched == {"table": 2}
    good = results.mean(tables[0], "made", "two-way", "raw map@class")
    assert good > 0.5  # the try that hardly trains was not taken
    lines = (folder / "run" / "cells.jsonl").read_text().splitlines()
    told = [json.loads(line) for line in lines]
    assert all(set(t["values"]) == {"raw map@class"} for t in told if "try" in t["what"])


def test_a_time_ends_it_and_what_there_is_is_judged(folder):
    tables = read_tables([folder / "table.toml"])
    found = study(tables, folder / "run", folder, Budget("short", seconds=0.0))
    assert found.about["cells"] == 0
    assert found.verdicts() == {}


@pytest.mark.slow
def test_several_processes_find_the_same(folder):
    tables = read_tables([folder / "table.toml"])
    one = study(tables, folder / "one", folder, Budget("short"), jobs=1)
    two = study(tables, folder / "two", folder, Budget("short"), jobs=2)
    assert one.values == two.values


def test_a_failed_training_is_told_and_tried_again(folder):
    text = TABLE.replace('name = "two-way"\n', 'name = "two-way"\ntraining = { lr = 1e38 }\n')
    (folder / "table.toml").write_text(text)
    tables = read_tables([folder / "table.toml"])
    found = study(tables, folder / "run", folder, Budget("short"))
    assert len(found.failed) == 2
    assert "learning rate" in found.failed[0]
    page = folder / "page.md"
    write_page(found, page)
    assert "What could not be trained" in page.read_text()
    again = []
    study(tables, folder / "run", folder, Budget("short"), tell=lambda c, *_: again.append(str(c)))
    assert len(again) == 2


def test_data_on_a_device_train_the_same(folder):
    ready = Ready.of(open_named("made", folder))
    labels = ready.dataset.labels
    plain = fit(ready, labels, Candidate(name="asl", loss="asl"), 0, 2, "cpu")

    class Moved(Ready):
        def with_labels(self, labels, device):
            task = self.task
            return Resident(
                task.encoder, task.inputs, labels, task.rows, task.width, target=labels.dense()
            )

    moved = fit(
        Moved(ready.dataset, ready.task), labels, Candidate(name="asl", loss="asl"), 0, 2, "cpu"
    )
    assert torch.allclose(plain.scores["test"], moved.scores["test"], atol=1e-5)


def test_exact_micro_batches_are_the_whole_batch(folder):
    ready = Ready.of(open_named("made", folder))
    labels = ready.dataset.labels
    kinds = {"whole": {}, "exact": {"micro": 8}, "mean": {"micro": 8, "exact": False}}
    scores = {
        name: fit(
            ready,
            labels,
            Candidate(name=name, loss="sigmoid-f1", training={"batch": 60}, **kind),
            0,
            2,
            "cpu",
        ).scores["test"]
        for name, kind in kinds.items()
    }
    assert torch.allclose(scores["whole"], scores["exact"], atol=1e-4)
    assert not torch.allclose(scores["whole"], scores["mean"], atol=1e-3)


def test_pseudo_labels_and_a_start_at_zero(folder):
    ready = Ready.of(open_named("made", folder))
    labels = with_missing(ready.dataset, 1.0, seed=0).labels
    scores = []
    for more in ({}, {"pseudo": True}, {"start": "zero"}):
        candidate = Candidate(name="bce", training={"lr": 0.3}, **more)
        scores.append(fit(ready, labels, candidate, 0, 3, "cpu").scores["test"])
    once, twice, zero = scores
    assert twice.mean() > once.mean()  # what was dropped is found again, in part
    assert not torch.equal(once, twice)
    assert not torch.equal(once, zero)


def test_the_page_is_made_from_the_csv_files_alone(folder):
    tables = read_tables([folder / "table.toml"])
    study(tables, folder / "run", folder, Budget("short"))
    (folder / "run" / "cells.jsonl").unlink()
    page = folder / "page.md"
    page.write_text(
        "# Mine\n\n<!-- study: begin -->\nearlier words\n<!-- study: end -->\n\nThe end.\n"
    )
    write_page(read_results(folder / "run", tables), page)
    text = page.read_text()
    assert text.startswith("# Mine\n")
    assert text.endswith("<!-- study: end -->\n\nThe end.\n")
    assert "earlier words" not in text
    pair = "*bce against bce, hardly trained, `raw map@class`*"
    assert f"| training helps<br>{pair} | **reproduced** | made +0." in text
    pair = "*bce, hardly trained against bce, `raw map@class`*"
    assert f"| not training helps<br>{pair} | **not reproduced** | - | made -0." in text
    assert "two-way has the mAP of bce, to 0.5 (beyond the paper)" in text
    assert "| **holds** | made" in text
    assert (
        "| 2 | **not reproduced** | 1 | 1 | 0 | training helps: *reproduced*, 1 / 0 / 0<br>" in text
    )
    assert "Test rows: made 80." in text
    assert "`raw map@class`, higher is better; means over 2 seeds:" in text
    write_page(read_results(folder / "run", tables), page)
    assert page.read_text() == text
    page.write_text("no marks")
    with pytest.raises(ValueError, match="marks"):
        write_page(read_results(folder / "run", tables), page)


def test_an_estimate_counts_every_training(folder):
    tables = read_tables([folder / "table.toml"])
    found = estimated(tables, folder, Budget("long"), "cpu")
    assert found["made"][0] == 3 * 2 + 3 * 2
    assert found["made"][1] > 0


def test_a_store_keeps_what_it_was_given(folder):
    shop = Workshop(folder)
    table = read_tables([folder / "table.toml"])[0]
    cell = next(final_cells(table, ["made"], Budget("short"), {}))
    done = shop.do(cell)
    store = Store(folder / "run")
    store.add(cell, done, claim=2)
    store.close()
    again = Store(folder / "run")
    again.close()
    held = again.done[cell.id]
    assert held.values == done.values == store.done[cell.id].values
    for name, drawn in done.drawn.items():
        assert torch.allclose(held.drawn[name], drawn, atol=1e-4)
