"""Static figures: well-formed, complete, and of the right numbers."""

import importlib.util
from xml.etree import ElementTree

import pytest
from sklearn.metrics import precision_score, recall_score

from labelset.charts import Bars, Dot
from labelset.report import write_figures
from labelset.report.figures import figures
from labelset.report.payload import GRID

NAMES = ["candidates", "precision-recall", "reliability", "scores", "labels-per-row", "training"]


def test_every_figure_is_written_as_svg(small, tmp_path):
    written = write_figures(small, tmp_path / "new" / "figures", png_too=False)
    assert [path.name for path in written] == [f"{name}.svg" for name in NAMES]
    for path in written:
        assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_precision_and_recall_are_those_of_scikit_learn(small):
    line = figures(small)["precision-recall"].marks[1]
    part = small.candidates[1].run.splits["test"]
    p = small.candidates[1].run.predictor.probabilities(part.scores).double().flatten().numpy()
    y = part.labels.dense().flatten().numpy()
    for at in (0, 60, 127):
        said = p >= float(GRID[at])
        recall, precision = line.points[at + 1]
        assert recall == pytest.approx(recall_score(y, said))
        assert precision == pytest.approx(precision_score(y, said))


def test_differences_are_marked_where_they_are_sure(small):
    dots = [mark for mark in figures(small)["candidates"].marks if isinstance(mark, Dot)]
    assert [dot.hollow for dot in dots] == [False, True, False]
    assert [dot.colour for dot in dots] == [1, 0, 0]


def test_shares_add_up(small):
    shown = figures(small)
    for mark in (*shown["labels-per-row"].marks, *shown["scores"].marks):
        assert isinstance(mark, Bars)
        assert abs(sum(tall for *_, tall in mark.bars)) == pytest.approx(1.0)


def test_png_only_with_matplotlib(small, tmp_path):
    if importlib.util.find_spec("matplotlib") is None:
        with pytest.raises(ValueError, match="need matplotlib"):
            write_figures(small, tmp_path, png_too=True)
        assert not list(tmp_path.iterdir())
        return
    written = write_figures(small, tmp_path, png_too=True)
    pictures = [path for path in written if path.suffix == ".png"]
    assert len(pictures) == len(NAMES)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)
