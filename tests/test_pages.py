"""The docs are what the code says, and what the pages show runs."""

import re
import runpy
import shlex
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch

import labelset
from labelset import metrics
from labelset.cli import make_parser

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "make_pages.py"))
MADE, same_but_rounding = SCRIPT["files"](), SCRIPT["same_but_rounding"]


@pytest.mark.parametrize("path", MADE)
def test_no_page_is_stale(path):
    file = ROOT / "docs" / path
    assert file.exists(), f"{path} is missing: run `make docs`"
    assert same_but_rounding(file.read_text(), MADE[path]), f"{path} is stale: run `make docs`"


def test_no_page_is_left_over():
    on_disk = {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs" / "losses").iterdir()}
    assert on_disk <= set(MADE)


@pytest.mark.parametrize("path", [path for path in MADE if path.endswith(".svg")])
def test_pictures_are_well_formed(path):
    root = ElementTree.fromstring(MADE[path])
    assert len(root.findall(".//{http://www.w3.org/2000/svg}path")) > 4
    assert "nan" not in MADE[path]


def test_only_the_last_digit_may_differ():
    assert same_but_rounding("a 0.1234 b", "a 0.1235 b")
    assert not same_but_rounding("a 0.1234 b", "a 0.1237 b")
    assert not same_but_rounding("a 0.1234 b", "a 0.1234 c")
    assert not same_but_rounding("a 1 b", "a 0.1 b")


PAGES = sorted(
    str(path.relative_to(ROOT))
    for folder in (".", "docs", "docs/losses", "examples")
    for path in (ROOT / folder).glob("*.md")
)
NEEDS = {
    "docs/keras.md": "keras",
    "docs/lightning.md": "torchmetrics",
    "docs/sklearn.md": "sklearn",
    "docs/study.md": "labelset_studies",
    "docs/transformers.md": "transformers",
}


def blocks(page, kind):
    """Those that begin with ```kind and nothing else: ```python no-run is only shown."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.S | re.M)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_python_blocks_run(page, tmp_path, monkeypatch):
    pytest.importorskip(NEEDS.get(page, "torch"))
    monkeypatch.chdir(tmp_path)
    space = {}
    if page.startswith("docs/losses/"):  # these say how to call it, on the logits one has
        logits, labels = torch.tensor([[1.0, -2.0], [0.5, 3.0]]), torch.tensor([[1, 0], [0, 1]])
        space = {"labelset": labelset, "logits": logits, "labels": labels}
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), space)


def commands(page):
    """The lines of a page that are commands of labelset."""
    lines = "".join(blocks(page, "sh") + blocks(page, "")).replace("\\\n", " ").splitlines()
    lines = [re.sub(r"^torchrun .* -m (?=labelset)", "", line) for line in lines]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("labelset ")]


# those of docs/cli.md are run, in tests/cli/test_conventions.py
@pytest.mark.parametrize("page", [p for p in PAGES if commands(p) and p != "docs/cli.md"])
def test_commands_are_ones_that_there_are(page):
    for _, *argv in commands(page):
        assert make_parser().parse_args(argv).run, argv


def test_links_between_pages_lead_somewhere():
    for page in (ROOT / name for name in PAGES):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_page_of_metrics_names_them_all():
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert [name for name in metrics.names() if f"`{name}`" not in page] == []
