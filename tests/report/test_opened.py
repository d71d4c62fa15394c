"""A label opens in place with its mistakes, two candidates stand side by side, the address has the
view; and all of it says what Python says."""

import json

import pytest
import torch

from labelset import metrics
from labelset.labels import Labels
from labelset.report import write_report
from labelset.report.payload import GRID

WIDTHS = (390, 1024, 1280)
LINE = "[...document.querySelectorAll('#explore .tabled > .scroll > table > tbody > tr')]"
CHOSEN = "document.querySelector('#explore tr.chosen')"


@pytest.fixture(scope="module")
def path(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("opened") / "report.html"
    write_report(small, path, seconds=5)
    return path


@pytest.fixture(scope="module")
def page(browser, path):
    return browser.open(path)


def decided(candidate, threshold):
    part = candidate.run.splits["test"]
    p = candidate.run.predictor.probabilities(part.scores)
    return Labels.from_dense(p >= threshold), part.labels


def shown_confusions(page):
    """Of the opened label: what is predicted instead -> rows."""
    page.rest()
    found = page.ask(
        "[...document.querySelectorAll('.opened .two:not(.wide) > :first-child .confusions"
        " > tbody > tr')].map((r) => [...r.children].map((c) => c.textContent))"
    )
    return {name: float(rows) for name, rows in found}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True])
def test_a_label_opens_where_it_was_pressed(browser, path, width, dark):
    page = browser.open(path, width=width, dark=dark)
    name = page.ask(f"{LINE}[4].querySelector('bdi').textContent")
    place = "document.querySelector('#explore tbody [aria-expanded={}] bdi')"
    page.click(name)
    page.rest()
    assert page.ask(f"{CHOSEN}.querySelector('bdi').textContent") == name
    assert page.ask(f"{CHOSEN}.nextElementSibling.querySelector('#threshold') !== null")
    top = page.ask(f"{place.format('true')}.getBoundingClientRect().top")
    assert 0 < top < 900  # it is still looked at
    seen = page.ask(
        "(() => { const r = document.querySelector('.opened').getBoundingClientRect();"
        " return [r.left, r.right]; })()"
    )
    assert 0 <= seen[0] < seen[1] <= width
    before = page.ask("document.querySelector('#threshold').getBoundingClientRect().top")
    page.slide(3)
    page.rest()
    after = page.ask("document.querySelector('#threshold').getBoundingClientRect().top")
    assert after == pytest.approx(before, abs=1.5)  # the slider stays under the pointer
    page.click("All labels")
    assert page.ask("document.querySelector('#all-labels #threshold') !== null")
    assert page.ask("document.documentElement.scrollWidth") <= width
    assert page.problems() == []


@pytest.mark.parametrize("at", [60, 127, 200])
def test_what_a_label_is_taken_for_is_what_python_counts(page, small, at):
    page.choose("spa")
    page.press("All labels")
    page.rest()
    page.slide(at)
    table = metrics.confusion(*decided(small.candidate("spa"), GRID[at]))
    for label in (1, 4):
        page.pick_label(small.names[label])
        found = shown_confusions(page)
        columns = [*small.names, "nothing"]
        wanted = {columns[j]: float(v) for j, v in enumerate(table[label].tolist()) if v}
        listed = {name: rows for name, rows in found.items() if not name.endswith(" others")}
        assert listed == {name: pytest.approx(wanted[name], abs=0.051) for name in listed}
        assert sum(found.values()) == pytest.approx(sum(wanted.values()), abs=0.5)
        missed = int(table[label].sum().round())
        assert f"Missed: {missed} row" in page.ask(
            "document.querySelector('.opened .two.wide').textContent"
        )


def test_pairs_of_labels_taken_for_each_other_follow_the_slider(page, small):
    page.press("All labels")
    seen = set()
    for at in (80, 180):
        page.slide(at)
        page.rest()
        page.rest()
        table = metrics.confusion(*decided(small.candidate("spa"), GRID[at]))
        first = page.ask(
            "[...document.querySelectorAll('#confusions tbody tr')].slice(0, 1)"
            ".flatMap((r) => [...r.children].map((c) => c.textContent))"
        )
        top = float(table.max())
        assert float(first[2]) == pytest.approx(top, abs=0.051)
        column = [*small.names, "nothing"].index(first[1])
        assert float(table[small.names.index(first[0]), column]) == pytest.approx(top)
        seen.add(first[2])
    assert len(seen) == 2


def test_mistakes_follow_the_slider_and_go_by_label_and_kind(page, small):
    page.choose("spa")
    page.slide(127)
    page.rest()
    page.rest()
    said, labels = decided(small.candidate("spa"), GRID[127])
    said, on = said.dense() == 1, labels.dense() == 1
    count = "Number(document.querySelector('#worst .pager span').textContent.split(' of ')[1])"
    assert page.ask(count) == int((said != on).any(1).sum())
    page.press("False positives")
    assert page.ask(count) == int((said & ~on).any(1).sum())
    page.put("#error-label", small.names[1])
    assert page.ask(count) == int((said & ~on)[:, 1].sum())
    page.put("#error-label", "")
    page.press("Any")


def test_the_labels_that_need_attention_come_first(page, small):
    page.choose("bce")
    page.slide(253)  # nothing is predicted any more
    page.rest()
    page.rest()
    page.press("Those that need attention first")
    worries = page.ask(f"{LINE}.map((r) => (r.querySelector('.worries') ? 1 : 0))")
    assert worries == sorted(worries, reverse=True)
    assert sum(worries) > 3
    assert f"of {len(small.names)} labels need attention" in page.ask(
        "document.querySelector('#attention').textContent"
    )
    page.press("As saved")


def test_the_copied_rule_follows_candidate_and_slider(page):
    page.choose("spa")
    page.press("Copy thresholds as JSON")
    page.rest()
    page.slide(40)
    page.choose("asl")
    page.rest()
    held = json.loads(page.ask("document.querySelector('#panel textarea').value"))
    shown = page.ask("document.querySelector('#threshold-value').textContent")
    assert len(set(held["settings"]["threshold"])) > 1  # asl's own, not spa's moved one
    assert "one per label" in shown
    assert "best" not in page.ask("document.querySelector('#commands').textContent")
    assert "copy it again" in page.ask("document.querySelector('.said').textContent")


def test_the_address_holds_the_view_and_gives_it_back(browser, path, small):
    page = browser.open(path)
    page.choose("asl")
    page.slide(90)
    page.pick_label("knife")
    page.slide(40)
    page.put("#compare-1", "hill", "change")
    page.rest()
    page.rest()
    view = page.ask("location.hash")
    shown = page.readings()
    assert {"candidate=asl", "label=knife"} <= set(view[1:].split("&"))
    page.press("All labels")
    page.rest()
    page.choose("spa")
    page.press("As saved")
    page.rest()
    page.rest()
    assert "candidate" not in page.ask("location.hash")
    other = browser.open(path)
    other.ask(f"location.hash = {json.dumps(view)}")
    other.rest()
    assert other.readings() == shown
    assert other.ask("document.querySelector('#candidate').value") == "asl"
    assert other.ask("document.querySelector('#compare-1').value") == "hill"
    assert other.ask(f"{CHOSEN}.querySelector('bdi').textContent") == "knife"
    assert other.problems() == []


@pytest.mark.parametrize("hash", ["#label=nobody&candidate=x&t=abc&compare=a", "#t:fork=0.3&at=no"])
def test_an_address_that_names_nothing_here_does_no_harm(browser, path, hash):
    page = browser.open(path)
    page.ask(f"location.hash = {json.dumps(hash)}")
    page.rest()
    assert page.problems() == []
    assert page.ask("document.querySelector('#candidate').value") == "spa"


def test_two_candidates_stand_side_by_side(page, small):
    page.choose("spa")
    page.press("As saved")
    page.put("#compare-0", "spa", "change")
    page.put("#compare-1", "bce", "change")
    page.rest()
    page.rest()
    right = []
    for key in ("spa", "bce"):
        run = small.candidate(key).run
        part = run.splits["test"]
        said = run.rule(run.predictor.probabilities(part.scores)).dense(torch.bool)
        right.append((said == (part.labels.dense() == 1)).all(1))
        shown = metrics.build("f1-micro")(Labels.from_dense(said), part.labels)
        cell = "[...document.querySelectorAll('#compare tbody tr')][2].children[%d].textContent"
        assert float(page.ask(cell % len(right))) == pytest.approx(shown, abs=5.1e-4)
    words = page.ask("document.querySelector('#compare').textContent")
    alone = [int((right[i] & ~right[1 - i]).sum()) for i in (0, 1)]
    assert f"spa alone gets {alone[0]} rows wholly right, bce alone {alone[1]}" in words


def test_every_candidate_has_its_line_in_the_forest(page, small):
    drawn = page.ask(
        "[...document.querySelectorAll('.forest > .name')].map((e) => [e.textContent,"
        " e.nextElementSibling.nextElementSibling.textContent])"
    )
    assert {name for name, _ in drawn} == {each.key for each in small.candidates}
    best = next(row for row in small.candidate("spa").summary if row.metric == "f1-macro")
    words = dict(drawn)["spa"]
    assert words.startswith(f"+{best.delta:.3f} [+")
    assert dict(drawn)["bce"] == "baseline"


def test_an_opened_label_is_printed_whole(browser, path):
    page = browser.open(path, width=720)
    page.pick_label("knife")
    page.send("Emulation.setEmulatedMedia", media="print")
    page.rest()
    assert page.ask("document.documentElement.scrollWidth") <= 720
    assert page.ask("document.querySelector('.opened').getBoundingClientRect().height") > 300
