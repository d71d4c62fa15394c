"""The docs are what the code says, and what the README shows runs."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from labelset import metrics
from labelset.pages import files, same_but_rounding

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("path", files())
def test_no_page_is_stale(path):
    file = ROOT / "docs" / path
    assert file.exists(), f"{path} is missing: run `make docs`"
    assert same_but_rounding(file.read_text(), files()[path]), f"{path} is stale: run `make docs`"


def test_no_page_is_left_over():
    on_disk = {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs" / "losses").iterdir()}
    assert on_disk <= set(files())


@pytest.mark.parametrize("path", [path for path in files() if path.endswith(".svg")])
def test_pictures_are_well_formed(path):
    root = ElementTree.fromstring(files()[path])
    assert len(root.findall(".//{http://www.w3.org/2000/svg}path")) > 4
    assert "nan" not in files()[path]


def test_only_the_last_digit_may_differ():
    assert same_but_rounding("a 0.1234 b", "a 0.1235 b")
    assert not same_but_rounding("a 0.1234 b", "a 0.1237 b")
    assert not same_but_rounding("a 0.1234 b", "a 0.1234 c")
    assert not same_but_rounding("a 1 b", "a 0.1 b")


PAGES = [
    *("README.md", "CONTRIBUTING.md", "docs/heads.md", "docs/verification.md", "docs/metrics.md"),
    *("docs/calibration.md", "docs/decisions.md", "docs/queries.md", "docs/data.md"),
    *("docs/compare.md", "docs/speed.md", "docs/distributed.md"),
]


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.S)
    assert blocks
    space = {}
    for block in blocks:
        exec(compile(block, page, "exec"), space)


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_page_of_metrics_names_them_all():
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert [name for name in metrics.names() if f"`{name}`" not in page] == []
