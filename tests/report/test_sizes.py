"""Files small enough to send, pages quick enough to use, however many labels or rows."""

import base64
import json
import zlib

import numpy as np
import pytest
import torch

from labelset.model import SavedModel, Split
from labelset.report import CandidateInput, ReportInput, write_report
from labelset.report.payload import GRID, payload, sampled
from labelset.runs import findings_of

LABELS, ROWS = 5000, 600

pytestmark = pytest.mark.slow


def opened(packed):
    content = zlib.decompress(base64.b64decode(packed["data"]))
    if packed["kind"] == "json":
        return json.loads(content)
    return np.frombuffer(content, f"<{packed['kind']}")


@pytest.fixture(scope="module", autouse=True)
def diagnosed_once():
    """Some candidates here share a run, whose diagnosis takes the most time of a report."""
    made = {}

    def found(run, p):
        if id(run) not in made:
            made[id(run)] = (
                run,
                findings_of(run, p),
            )  # the run is kept, so that its id stays its own
        return made[id(run)][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labelset.runs.judging.findings_of", found)
        yield


def test_ten_thousand_rows_and_fifty_labels_stay_under_three_megabytes(make_run, tmp_path):
    run = make_run(10_000, 50)
    many = [CandidateInput(f"c{i}", "bce", "linear", run) for i in range(8)]
    g = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(3000)])
    texts = [" ".join(words[g.integers(3000, size=60)]) for _ in range(10_000)]
    images = torch.from_numpy(g.integers(0, 256, (10_000, 3, 32, 32), dtype=np.uint8))
    given = ReportInput(many, texts=texts, images=images)
    write_report(given, tmp_path / "report.html", seconds=1)
    assert (tmp_path / "report.html").stat().st_size < 3_000_000


def wide_run(seed):
    """Few labels common and most rare, as wide data are."""
    g = torch.Generator().manual_seed(seed)
    base = torch.linspace(-1.0, -7.0, LABELS)
    v = torch.randn(ROWS, LABELS, generator=g) * 1.5 + base
    y = torch.rand(v.shape, generator=torch.Generator().manual_seed(9)) < torch.sigmoid(base)
    return SavedModel(names=[f"label {i}" for i in range(LABELS)], splits={"test": Split(y, v)})


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    runs = [wide_run(seed) for seed in range(2)] * 2  # each candidate is packed by itself
    path = tmp_path_factory.mktemp("wide") / "report.html"
    given = [CandidateInput(f"c{i}", "bce", "linear", run) for i, run in enumerate(runs)]
    write_report(ReportInput(given), path)
    return path, runs


def test_five_thousand_labels_of_four_candidates_fit_in_ten_megabytes(wide):
    assert wide[0].stat().st_size < 10_000_000


def test_five_thousand_labels_stay_usable(browser, wide):
    path, runs = wide
    page = browser.open(path)
    assert page.problems() == []
    assert page.seconds < 10
    paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    assert page.ask(paint) < 3000
    page.choose("c2")
    frame = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
    waited = []
    for at in range(20, 200, 20):
        start = page.ask("performance.now()")
        page.slide(at)
        page.ask(frame)
        waited.append(page.ask("performance.now()") - start)
    assert np.median(waited) < 300  # a frame is 16; what is left is for slow machines
    page.slide(100)
    page.pick_label("label 21")
    part = runs[2].splits["test"]
    said = (torch.sigmoid(part.scores) >= GRID[100])[:, 21]
    assert page.readings()["tp"] == int((said & (part.labels.dense()[:, 21] == 1)).sum())


def test_rows_are_fewer_where_candidates_are_many_but_never_few():
    assert len(sampled(10_000, 5_000, 1)) == 220
    assert len(sampled(10_000, 5_000, 4)) == 100
    assert len(sampled(10_000, 5_000, 40)) == 50
    assert len(sampled(30, 5_000, 40)) == 30


def test_texts_of_rows_worth_a_look_are_the_longest(make_run, monkeypatch):
    monkeypatch.setattr("labelset.report.payload.CHARACTERS", 40_000)
    run = make_run(400, 6)
    texts = ["x" * 500] * 400
    given = ReportInput([CandidateInput("a", "bce", "linear", run)], texts=texts)
    made = payload(given)
    shown = opened(made["rows"]["shown"]).tolist()
    lengths = [len(text) for text in opened(made["rows"]["texts"])]
    worth = {entry["row"] for entry in made["candidates"][0]["worst"]}
    assert min(lengths[shown.index(row)] for row in worth) > 100
    assert sum(lengths) <= 40_000
