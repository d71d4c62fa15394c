"""One file, its own script and nothing else; data is data."""

import base64
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser
from importlib import resources

import pytest
import torch

from labelset.model import SavedModel, Split
from labelset.report import CandidateInput, ReportInput, write_report
from labelset.report.page import SCRIPTS

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;<!--"


class Elements(HTMLParser):
    """Start tags with their attributes, and the text of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.held, self.inside = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag in ("script", "style")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.held.append((self.tags[-1], data))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    part = Split([[1, 0], [0, 1]], [[3.0, 2.5], [-1.0, -3.0]], [EVIL, "\ud800"])
    run = SavedModel(
        names=[EVIL, "b\u202e"], splits={"test": part}, about={EVIL: EVIL, "x": float("nan")}
    )
    given = ReportInput(
        [CandidateInput(EVIL, EVIL, EVIL, run)],
        title=EVIL,
        recommendation=EVIL,
        texts=[EVIL, "\x00"],
        settings={EVIL: {EVIL: EVIL}},
        files={EVIL: EVIL, "also": "javascript:alert(1)"},
    )
    write_report(given, path)
    return path.read_text()


def test_hostile_data_adds_no_element(hostile):
    tags = [tag for tag, _ in Elements(hostile).tags]
    assert tags.count("script") == 2
    assert "img" not in tags
    assert not any(name.startswith("on") for _, attrs in Elements(hostile).tags for name in attrs)


def test_data_comes_back_as_it_was(hostile):
    held = {attrs.get("id"): text for (_, attrs), text in Elements(hostile).held}
    data = json.loads(held["data"])
    assert data["names"][0] == EVIL
    assert data["files"][EVIL] == EVIL


def test_the_policy_allows_only_the_script_and_style_of_the_page(hostile):
    found = Elements(hostile)
    policy = next(a["content"] for tag, a in found.tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "*" not in policy
    for (tag, attrs), text in found.held:
        if attrs.get("type") != "application/json":
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"{tag}-src 'sha256-{digest}'" in policy


def test_nothing_is_fetched(hostile):
    for tag, attrs in Elements(hostile).tags:
        assert "src" not in attrs
        assert tag != "link"
        assert "style" not in attrs
    code = hostile.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|@import|url\(", code)


def test_the_code_of_the_page_never_makes_markup_of_text():
    folder = resources.files("labelset.report") / "browser"
    names = {path.name for path in folder.iterdir()}
    assert names == {"report.css", *(f"{name}.js" for name in SCRIPTS)}
    code = "".join((folder / name).read_text() for name in names)
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "Function(",
    ):
        assert word not in code
    assert "\r" not in code
    assert len(code) < 145_000


def test_a_report_is_there_whole_or_not_at_all(tmp_path, small, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("before")
    monkeypatch.setattr("labelset.report.page.payload", lambda *_: {"title": float("nan")})
    with pytest.raises((ValueError, KeyError)):
        write_report(small, path)
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_empty_rows_and_no_summary(tmp_path):
    part = Split(torch.zeros(3, 2), torch.zeros(3, 2))
    run = SavedModel(names=["a", "b"], splits={"test": part})
    write_report(ReportInput([CandidateInput("a", "bce", "linear", run)]), tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_no_two_scripts_of_the_page_give_something_one_name():
    """They are one script in the page, where the last function of a name would be meant by all."""
    browser = resources.files("labelset.report") / "browser"
    scripts = [file for file in browser.iterdir() if file.name.endswith(".js")]
    top = re.compile(r"^(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)
    named = Counter(name for file in scripts for name in top.findall(file.read_text()))
    assert len(scripts) > 20
    assert [name for name, count in named.items() if count > 1] == []
