"""From a slider in the page to decisions on disk: what was found by hand is what the model does."""

import json
import shlex

import pytest

from labelset.cli import main
from labelset.model import SavedModel
from labelset.report.payload import GRID

DATA = "--data train=300 --data valid=200 --data test=200"
MADE = f"compare digits {DATA} --losses bce two-way hill --epochs 2 --seeds 1 --jobs 1 --quiet"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decide") / "run"
    assert main([*MADE.split(), "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def page(browser, folder):
    return browser.open(folder / "report.html")


def pasted(page):
    """What the clipboard holds, as a field shows it that a person pastes it into."""
    page.ask(
        "(() => { const q = document.querySelector('#query-text'); q.value = ''; q.focus(); })()"
    )
    page.key("v", 86, modifiers=2, commands=["paste"])
    page.rest()
    return page.ask("document.querySelector('#query-text').value")


def evaluated(capsys, folder, *metrics):
    capsys.readouterr()
    assert main(["evaluate", str(folder), "--on", "test", "--json", "--metrics", *metrics]) == 0
    return json.loads(capsys.readouterr().out)["metrics"]


def counted(run):
    part = run.splits["test"]
    said = run.predictor.sets(part.scores).dense() == 1
    on = part.labels.dense() == 1
    return {
        "tp": int((said & on).sum()),
        "fp": int((said & ~on).sum()),
        "fn": int((~said & on).sum()),
        "tn": int((~said & ~on).sum()),
    }


@pytest.mark.parametrize("which", [0, 1, 2])
def test_thresholds_copied_in_the_page_decide_alike_on_disk(page, folder, capsys, tmp_path, which):
    compared = json.loads((folder / "compare.json").read_text())
    key = list(compared["standings"])[which]
    page.choose(key)
    page.click("As saved")
    page.slide(90)
    page.pick_label("3")
    page.slide(40)
    page.click("All labels")
    shown = page.readings()
    page.click("Copy thresholds as JSON")
    rule = tmp_path / "rule.json"
    rule.write_text(pasted(page))
    held = json.loads(rule.read_text())["settings"]["threshold"]
    assert held == [float(GRID[40 if name == "3" else 90]) for name in map(str, range(10))]
    commands = page.ask("document.querySelector('#commands').textContent").splitlines()
    assert len(commands) == (1 if key == compared["best"] else 2)
    places = {"RUN": str(folder), "rule.json": str(rule)}
    for command in commands:
        words = shlex.split(command)
        words = [places.get(w, w.replace("RUN/", f"{folder}/")) for w in words]
        assert words.pop(0) == "labelset"
        assert main([*words, "--force"]) == 0  # thresholds that nobody would want
    used = words[1]
    assert counted(SavedModel.open(used)) == {
        name: shown[name] for name in ("tp", "fp", "fn", "tn")
    }
    found = evaluated(capsys, used, "precision", "recall", "f1-micro", "f1-macro")
    named = {"precision": "precision", "recall": "recall", "f1-micro": "f1", "f1-macro": "macro"}
    for metric, reading in named.items():
        assert shown[reading] == pytest.approx(found[metric], abs=5.1e-4)
    assert page.problems() == []


def test_a_report_written_again_shows_the_rule_that_was_put_in(browser, folder, tmp_path):
    rule = {"name": "fixed", "settings": {"threshold": 0.3125}, "learnt": {}}
    (tmp_path / "rule.json").write_text(json.dumps(rule))
    assert main(["decide", str(folder), "--from", str(tmp_path / "rule.json")]) == 0
    assert main(["report", str(folder), "--out", str(tmp_path / "again.html")]) == 0
    page = browser.open(tmp_path / "again.html")
    assert page.ask("document.querySelector('#threshold-value').textContent") == "0.313"
    shown = page.readings()
    assert {name: shown[name] for name in ("tp", "fp", "fn", "tn")} == counted(
        SavedModel.open(folder)
    )
