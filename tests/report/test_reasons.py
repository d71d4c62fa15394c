"""Why rows have their labels: kept by a comparison, carried by its page, shown as text."""

import base64
import json
import zlib

import numpy as np
import pytest

from labelset.cli import main
from labelset.data import Dataset
from labelset.model import SavedModel
from labelset.report import as_input, write_report
from labelset.report.payload import payload
from labelset.runs import Plan, compare, reopened
from labelset.runs.folder import with_sum

EVIL = '</script><img src=x onerror="window.hurt=1">'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A comparison of texts, of which some lack a label that their words ask for."""
    g = np.random.default_rng(0)
    words = np.array(["rain", "sea", "sun", "sand", "wind", "<b>bold</b>", "red"])
    on = g.random((120, 7)) < 0.4
    texts = [" ".join(words[row]) + f" n{at}" for at, row in enumerate(on)]
    y = on[:, :2] ^ (g.random((120, 2)) < 0.08)
    out = tmp_path_factory.mktemp("reasons") / "run"
    rows = Dataset.from_arrays(None, y, texts=texts, names=["wet", EVIL])
    compare(rows, Plan(losses=("bce",), seeds=1, training={"epochs": 3}), out)
    return out


def carried(made):
    held = base64.b64decode(made["reasons"]["data"])
    return json.loads(zlib.decompress(held))


def test_the_reasons_are_those_of_the_recommended_model(folder):
    found = reopened(folder)
    reasons, names = found.reasons(), ["wet", EVIL]
    assert reasons["rows"]
    part = SavedModel.open(folder).scored("test")
    for row, each in reasons["rows"].items():
        for reason in each:
            score = float(part.scores[int(row), reason["label"]])
            assert reason["score"] == pytest.approx(score, abs=1e-4)
            total = reason["base"] + sum(v for _, v in reason["terms"]) + reason["rest"]
            assert total == pytest.approx(score, abs=1e-3)
    weighs = reasons["weights"]["0"][0]["terms"]
    assert '"rain"' in dict(map(tuple, weighs))
    due = found.best_model.weights([names[0]], top=8)[0].terms
    assert [name for name, _ in weighs] == [name for name, _ in due]


def test_every_row_that_is_shown_as_wrong_has_its_reasons(folder):
    made = payload(as_input(reopened(folder)))
    held = carried(made)
    best = next(each for each in made["candidates"] if each["key"] == made["best"])
    assert best["worst"]
    for entry in best["worst"]:
        listed = {label for label, *_ in entry["on"] + entry["extra"]}
        given = {reason["label"] for reason in held["rows"].get(str(entry["row"]), [])}
        assert listed <= given
    for row, label, _ in best["missing"]:
        assert label in {reason["label"] for reason in held["rows"][str(row)]}


def test_a_report_of_an_older_or_damaged_comparison(folder, tmp_path, capsys):
    out, kept = tmp_path / "r.html", (folder / "reasons.json").read_bytes()
    try:
        (folder / "reasons.json").unlink()
        assert main(["report", str(folder), "--out", str(out)]) == 0
        (folder / "reasons.json").write_bytes(kept[:-9])
        assert main(["report", str(folder), "--out", str(out)]) == 2
        assert "reasons.json" in capsys.readouterr().err
    finally:
        (folder / "reasons.json").write_bytes(kept)


def test_the_page_shows_reasons_as_text(browser, folder, tmp_path):
    hurt = with_sum(reopened(folder).reasons())
    assert b"onerror" not in hurt  # labels go by number
    path = tmp_path / "report.html"
    write_report(as_input(reopened(folder)), path)
    page = browser.open(path)
    assert page.problems() == []
    page.ask("document.querySelectorAll('details.why').forEach((each) => { each.open = true; })")
    assert page.ask("document.querySelectorAll('.reasons li').length") > 0
    page.pick_label("wet")
    assert "rain" in page.ask("document.getElementById('weights').textContent")
    assert page.ask("window.hurt") is None
