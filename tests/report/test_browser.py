"""The page in a real browser: it draws without complaint, and its numbers are Python's."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from labelset import decide, metrics
from labelset.decide import NEVER
from labelset.model import SavedModel, Split
from labelset.report import CandidateInput, ReportInput, write_report
from labelset.report.payload import GRID
from labelset.retrieve import expected_right, rank

EVIL = '</script><img src=x onerror="window.hurt=1"><script>window.hurt=1</script>'


@pytest.fixture(scope="module")
def path(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("browser") / "report.html"
    write_report(small, path, seconds=5)
    return path


@pytest.fixture(scope="module")
def page(browser, path):
    return browser.open(path)


def ask(page, query):
    page.put("#query-text", query)
    page.rest()
    page.rest()


SHOTS = Path(__file__).parents[2] / "build" / "report"


def judged(candidate, thresholds):
    part = candidate.run.splits["test"]
    p = candidate.run.predictor.probabilities(part.scores)
    said = decide.build("fixed", threshold=thresholds)(p)
    names = {"precision": "precision", "recall": "recall", "f1": "f1-micro", "macro": "f1-macro"}
    found = {key: metrics.build(name)(said, part.labels) for key, name in names.items()}
    return found, said.dense(torch.bool), part.labels.dense() == 1


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_no_complaint_and_no_overflow(browser, path, width, dark):
    page = browser.open(path, width=width, dark=dark)
    assert page.problems() == []
    assert page.ask("document.documentElement.scrollWidth") <= width
    assert page.seconds < 5
    picture = page.picture()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 100_000
    SHOTS.mkdir(parents=True, exist_ok=True)
    (SHOTS / f"{width}-{'dark' if dark else 'light'}.png").write_bytes(picture)  # to be looked at
    assert page.requests() == []
    light = page.ask("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", light))) < 200) == dark


def test_the_page_starts_with_the_saved_rule_of_the_recommended(page, small):
    found = page.readings()
    candidate = small.candidate("spa")
    wanted, said, truth = judged(candidate, candidate.run.rule.thresholds.tolist())
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, abs=5.1e-4)
    assert found["tp"] == int((said & truth).sum())
    assert found["tn"] == int((~said & ~truth).sum())


@pytest.mark.parametrize("at", [0, 35, 90, 127, 180, 253])
@pytest.mark.parametrize("key", ["spa", "bce"])
def test_the_slider_shows_what_python_computes(page, small, at, key):
    page.choose(key)
    page.slide(at)
    found = page.readings()
    wanted, said, truth = judged(small.candidate(key), float(GRID[at]))
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, abs=5.1e-4)
    assert found["fp"] == int((said & ~truth).sum())
    assert found["fn"] == int((~said & truth).sum())
    assert found["per-row"] == pytest.approx(float(said.sum()) / len(said), abs=5.1e-3)


def test_one_label_moves_alone_and_thresholds_travel_back_to_python(page, small):
    page.choose("spa")
    page.press("As saved")
    page.pick_label("knife")
    page.slide(60)
    found = page.readings()
    candidate = small.candidate("spa")
    thresholds = candidate.run.rule.thresholds.clone()
    thresholds[small.names.index("knife")] = GRID[60]
    _, said, truth = judged(candidate, thresholds.tolist())
    said, truth = (t[:, small.names.index("knife")] for t in (said, truth))
    assert found["tp"] == int((said & truth).sum())
    assert found["fp"] == int((said & ~truth).sum())
    page.press("Copy thresholds as JSON")
    page.rest()
    copied = json.loads(page.ask("document.querySelector('textarea').value"))
    assert copied == decide.build("fixed", threshold=thresholds.tolist()).as_json()
    assert torch.equal(decide.from_json(copied).thresholds, thresholds)
    page.press("All labels")
    page.press("As saved")
    page.rest()


@pytest.mark.parametrize(
    "query",
    [
        "fork & apple & !knife",
        "fork | 'label 11'",
        "(fork & !apple) | (knife & fork)",
        '!(fork | "spoon") & !!apple',
    ],
)
@pytest.mark.parametrize("key", ["spa", "bce"])
def test_queries_rank_as_python_does(page, small, query, key):
    page.choose(key)
    ask(page, query)
    rows = page.ask(
        "[...document.querySelectorAll('#answers tbody tr')].map((r) => "
        "[r.querySelector('bdi').textContent, Number(r.children[1].textContent)])"
    )
    part = small.candidate(key).run.splits["test"]
    p = small.candidate(key).run.predictor.probabilities(part.scores)
    order, scores = rank(query, p, small.names)
    assert [value for _, value in rows] == pytest.approx(scores[:10].tolist(), abs=2e-3)
    where = {part.ids[row]: float(score) for row, score in zip(order, scores, strict=True)}
    assert all(abs(where[name] - value) < 2e-3 for name, value in rows)
    says = page.ask("document.querySelector('#answers .statement').textContent")
    mean, low, high = map(float, re.search(r": ([\d.]+) of .*right, (\d+) to (\d+)", says).groups())
    wanted = expected_right(scores[:10])
    assert mean == pytest.approx(float(wanted.mean[-1]), abs=0.06)
    assert abs(low - int(wanted.low[-1])) <= 1
    assert abs(high - int(wanted.high[-1])) <= 1


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("fork &", "expected a name"),
        ("(fork", "never closed"),
        ("fork)", "never opened"),
        ("fork knife", "expected & or |"),
        ("forc", "no label is called forc"),
        ("'fork", "quote"),
        ("fork & !fork", "never hold"),
        ("fork | !fork", "holds for every row"),
        ("fork ; 1", "unexpected ;"),
    ],
)
def test_bad_queries_are_answered_in_words(page, query, words):
    ask(page, query)
    assert words in page.ask("document.getElementById('answers').textContent")
    assert page.problems() == []


def test_tables_sort_search_and_keep_the_focus(page):
    labels = "[...document.querySelectorAll('#explore .tabled tbody tr')]"
    page.press("AP")
    values = page.ask(f"{labels}.map((r) => Number(r.children[2].textContent))")
    assert values == sorted(values, reverse=True)
    assert page.ask("document.querySelectorAll('#explore th[aria-sort=descending]').length") == 1
    page.ask(f"{labels}[3].querySelector('button').focus()")
    page.ask("document.activeElement.click()")
    page.rest()
    assert page.ask("document.activeElement.getAttribute('aria-expanded')") == "true"
    page.ask("document.activeElement.click()")
    page.rest()
    assert page.ask("document.activeElement.getAttribute('aria-expanded')") == "false"
    page.put("#explore input[type=search]", "KNI")
    assert page.ask(f"{labels}.map((r) => r.querySelector('bdi').textContent)") == ["knife"]
    page.put("#explore input[type=search]", "")


def test_every_control_has_a_name(page):
    nameless = page.ask(
        "[...document.querySelectorAll('button, input, select, textarea, svg[role=img], canvas')]"
        ".filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label') ||"
        " (e.labels && e.labels.length))).map((e) => e.outerHTML.slice(0, 80))"
    )
    assert nameless == []
    levels = page.ask("[...document.querySelectorAll('h1,h2,h3,h4')].map((e) => +e.tagName[1])")
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_hostile_names_and_texts_show_as_text(browser, tmp_path):
    part = Split([[1, 0], [0, 1]], [[3.0, 2.5], [-1.0, -3.0]], [EVIL, "b"])
    run = SavedModel(
        names=[EVIL, "b"], splits={"test": part}, about={EVIL: EVIL, "history": [{"epoch": 1}]}
    )
    files = {"one": "javascript:alert(1)", "two": "//evil.example/x", "three": "a b/ü?.json"}
    given = ReportInput(
        [CandidateInput(EVIL, EVIL, EVIL, run)],
        title=EVIL,
        recommendation=EVIL,
        texts=[EVIL, ""],
        images=torch.zeros(2, 1, 4, 4, dtype=torch.uint8),
        files=files,
    )
    write_report(given, tmp_path / "report.html")
    page = browser.open(tmp_path / "report.html")
    assert page.problems() == []
    assert page.ask("window.hurt === undefined")
    assert page.ask("document.querySelectorAll('img').length") == 0
    assert page.ask("document.querySelector('h1').textContent") == EVIL
    assert page.ask("document.querySelector('#errors').textContent").count(EVIL) >= 2
    links = page.ask("[...document.querySelectorAll('.files a')].map((a) => a.href)")
    folder = tmp_path.as_uri()
    assert [link.startswith(folder + "/") for link in links] == [True] * 3


def test_the_policy_stops_foreign_script(browser, path, tmp_path):
    text = path.read_text().replace("</body>", "<script>window.foreign = 1</script></body>")
    (tmp_path / "changed.html").write_text(text)
    page = browser.open(tmp_path / "changed.html")
    assert page.ask("window.foreign === undefined")
    assert any("Content Security Policy" in str(event) for event in page.problems())


def test_thresholds_at_the_very_ends_travel_too(browser, tmp_path, make_run):
    run = make_run(200, 4, valid=False)
    extremes = [NEVER, 0.0, 1.0, float(GRID[100])]
    run.rule = decide.build("fixed", threshold=extremes)
    candidate = CandidateInput("a", "bce", "linear", run)
    write_report(ReportInput([candidate]), tmp_path / "r.html")
    page = browser.open(tmp_path / "r.html")
    wanted, said, truth = judged(candidate, extremes)
    found = page.readings()
    assert found["macro"] == pytest.approx(wanted["macro"], abs=5.1e-4)
    assert found["fp"] == int((said & ~truth).sum())
    page.press("Copy thresholds as JSON")
    page.rest()
    copied = json.loads(page.ask("document.querySelector('textarea').value"))
    assert copied["settings"]["threshold"] == extremes


@pytest.mark.parametrize(("rows", "n", "unknown"), [(40, 1, 0.0), (1, 3, 0.0), (60, 5, 0.4)])
def test_odd_shapes_open(browser, tmp_path, make_run, rows, n, unknown):
    run = make_run(rows, n, valid=False, unknown=unknown)
    write_report(ReportInput([CandidateInput("a", "bce", "linear", run)]), tmp_path / "r.html")
    page = browser.open(tmp_path / "r.html")
    page.slide(100)
    page.rest()
    assert page.problems() == []
