"""The docs are what the code says, and what the pages show runs."""

import contextlib
import csv
import io
import re
import runpy
import shlex
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch

import labelset
from labelset import metrics
from labelset.cli import main, make_parser

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "make_pages.py"))
MADE, same_but_rounding = SCRIPT["files"](), SCRIPT["same_but_rounding"]


@pytest.mark.parametrize("path", MADE)
def test_no_page_is_stale(path):
    file = ROOT / "docs" / path
    assert file.exists(), f"{path} is missing: run `make docs`"
    assert same_but_rounding(file.read_text(), MADE[path]), f"{path} is stale: run `make docs`"


def test_no_page_is_left_over():
    folders = (ROOT / "docs" / name for name in ("losses", "gallery"))
    on_disk = {str(p.relative_to(ROOT / "docs")) for each in folders for p in each.iterdir()}
    assert on_disk <= set(MADE)


@pytest.mark.parametrize("path", [path for path in MADE if path.endswith(".svg")])
def test_pictures_are_well_formed(path):
    root = ElementTree.fromstring(MADE[path])
    least = 0 if path.startswith("gallery") else 4
    assert len(root.findall(".//{http://www.w3.org/2000/svg}*")) > 10
    assert len(root.findall(".//{http://www.w3.org/2000/svg}path")) >= least
    assert "nan" not in MADE[path]


def test_only_the_last_digit_may_differ():
    assert same_but_rounding("a 0.1234 b", "a 0.1235 b")
    assert not same_but_rounding("a 0.1234 b", "a 0.1237 b")
    assert not same_but_rounding("a 0.1234 b", "a 0.1234 c")
    assert not same_but_rounding("a 1 b", "a 0.1 b")


def test_the_gallery_shows_every_picture_that_it_makes():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert {*re.findall(r"\]\((gallery/.*?)\)", page)} == {*SCRIPT["gallery"]()}


PAGES = sorted(
    str(path.relative_to(ROOT))
    for folder in (".", "docs", "docs/losses", "examples")
    for path in (ROOT / folder).glob("*.md")
)
MINUTE = {*("docs/compare.md", "docs/from-autogluon.md", "docs/label-names.md", "docs/tutorial.md")}
"""Pages that search for a model."""
NEEDS = {
    "docs/from-autogluon.md": "sklearn",
    "docs/gallery.md": "matplotlib",
    "docs/keras.md": "keras",
    "docs/lightning.md": "torchmetrics",
    "docs/notebooks.md": "matplotlib",
    "docs/study.md": "labelset_studies",
    "docs/transformers.md": "transformers",
}


def blocks(page, kind):
    """Those that begin with ```kind and nothing else: ```python no-run is only shown."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.S | re.M)


def marked(page):
    return pytest.param(page, marks=[pytest.mark.slow] if page in MINUTE else [])


def test_every_example_file_is_what_its_script_writes():
    made = runpy.run_path(str(ROOT / "examples" / "tickets.py"))["rows"]()
    with (ROOT / "examples" / "tickets.csv").open(newline="", encoding="utf-8") as file:
        assert [tuple(row) for row in csv.reader(file)][1:] == made


RUN_ELSEWHERE = ("docs/sklearn.md",)  # in tests/sklearn/test_page.py


@pytest.mark.parametrize(
    "page",
    [marked(page) for page in PAGES if blocks(page, "python") and page not in RUN_ELSEWHERE],
)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    pytest.importorskip(NEEDS.get(page, "torch"))
    shutil.copy(ROOT / "examples" / "tickets.csv", tmp_path)
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


@pytest.mark.slow
def test_the_tutorial_does_what_it_says(tmp_path, monkeypatch):
    page = "docs/tutorial.md"
    shutil.copy(ROOT / "examples" / "tickets.csv", tmp_path)
    new = next(block for block in blocks(page, "text") if block.startswith("id,text\n"))
    (tmp_path / "new.csv").write_text(new)
    monkeypatch.chdir(tmp_path)
    said = {}
    for _, *argv in commands(page):
        heard = io.StringIO()
        with contextlib.redirect_stdout(heard):
            status = main(argv)
        said[" ".join(argv[:2])] = heard.getvalue()
        assert status == 0, (argv, heard.getvalue())
    assert "label_column=topics" in said["data inspect"]
    assert (tmp_path / "run" / "report.html").is_file()
    with (tmp_path / "predicted.csv").open(newline="") as file:
        rows = {row["id"]: row["labels"].split("|") for row in csv.DictReader(file)}
    assert rows == {"N1": ["damaged", "refund"], "N2": ["app", "login"]}


def test_the_results_of_the_readme_are_those_that_were_measured():
    with (ROOT / "benchmarks" / "quality.csv").open(newline="") as file:
        measured = list(csv.DictReader(file))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = re.search(r"<!-- results.*?-->\n(.*?)<!--", text, flags=re.S)[1].splitlines()[2:]
    assert len(table) == len({row["data"] for row in measured})
    for line in table:
        name, *shown = (cell.strip().replace("*", "") for cell in line.strip("|").split("|"))
        ours = next(r for r in measured if (r["data"], r["who"]) == (name, "labelset"))
        others = [r for r in measured if r["data"] == name and r["who"] != "labelset"]
        for at, metric in enumerate(("f1-micro", "map@class")):
            best = max(r[metric] for r in others if r[metric])
            assert shown[2 * at : 2 * at + 2] == [best, ours[metric]], name
        assert int(shown[4]) == int(float(ours["seconds"]) + 0.5)


def test_links_between_pages_lead_somewhere():
    for page in (ROOT / name for name in PAGES):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_page_of_metrics_names_them_all():
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert [name for name in metrics.names() if f"`{name}`" not in page] == []
