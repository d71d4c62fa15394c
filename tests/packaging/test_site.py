"""The site of the documentation builds without a warning, and its links lead somewhere."""

import importlib
import inspect
import json
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = pytest.mark.slow
for package in ("sphinx", "myst_parser", "furo"):
    pytest.importorskip(package)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, folder / "docs", ignore=shutil.ignore_patterns("api"))
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "docs", "html"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert "left out" not in built.stdout, built.stdout
    return folder / "html"


def test_links_and_pictures_lead_somewhere(site):
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    lost = []
    for path, text in pages.items():
        for target in re.findall(r'(?:href|src)="([^"]+)"', text):
            name, _, anchor = unquote(unescape(target)).partition("#")
            if re.match(r"[a-z]+:|//", name):
                continue
            there = (path.parent / name.partition("?")[0]).resolve() if name else path
            if not there.is_file() or (anchor and f'id="{anchor}"' not in there.read_text()):
                lost.append(f"{path.relative_to(site)}: {target}")
    assert lost == []


def test_every_page_is_there_and_reached(site):
    menu = (site / "index.html").read_text(encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix(".html").as_posix()
        assert (site / name).is_file()
        if page.parent == DOCS and page.stem != "index":
            assert f'href="{name}"' in menu, f"{page.name}: give it a link in docs/index.md"


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("imbalance", "imbalance"),
        ("class weights", "imbalance"),
        ("predicts nothing", "predicts-nothing"),
        ("threshold", "decisions"),
        ("which loss", "which-loss"),
        ("grouped data", "groups"),
        ("missing labels", "missing-labels"),
        ("over-sampling", "imbalance"),
    ],
)
def test_the_search_finds(site, words, page):
    """By the words of its titles, which the search of the site puts first; it drops stopwords."""
    from sphinx.search.en import SearchEnglish

    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text[text.index("{") : text.rindex("}") + 1])
    english = SearchEnglish({})
    number = index["docnames"].index(page)
    asked = [word for word in re.findall(r"\w+", words) if word not in english.stopwords]
    assert asked
    for word in asked:
        there = index["titleterms"].get(english.stem(word), [])
        assert number in ([there] if isinstance(there, int) else there), word


def test_the_search_has_its_own_order(site):
    text = (site / "_static" / "language_data.js").read_text(encoding="utf-8")
    assert (DOCS / "static" / "scorer.js").read_text(encoding="utf-8").strip() in text


def test_formulas_are_set(site):
    text = (site / "losses" / "spa.html").read_text(encoding="utf-8")
    (table,) = re.findall(r'<table class="formula">.*?</table>', text, flags=re.S)
    assert table.count("<tr>") == 4
    assert "spa.svg" in text
    assert "<mfrac>" in text
    assert "softplus(-k+" not in text
    shown = (site / "api" / "labelset.html").read_text(encoding="utf-8")
    assert "<math" in shown


@pytest.mark.parametrize("name", ["labelset", "labelset.losses", "labelset.metrics"])
def test_the_reference_has_every_public_name(site, name):
    page = (site / "api" / f"{name}.html").read_text(encoding="utf-8")
    module = importlib.import_module(name)
    names = [n for n in module.__all__ if not inspect.ismodule(getattr(module, n))]
    assert [n for n in names if f'<span class="pre">{n}</span>' not in page] == []
