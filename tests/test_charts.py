"""Panels as SVG: names are text, ticks reach, no name covers another, each one is drawn once."""

from xml.etree import ElementTree

import numpy as np
import pytest

from labelset.charts import Dot, Line, Panel, round_ticks, spread, svg

SVG = "{http://www.w3.org/2000/svg}"


def test_names_in_figures_are_text():
    panel = Panel("<script>&\x07", "x", "y", [Line([(0.0, 0.0), (1.0, 1.0)], 0, "</text>$x$")])
    root = ElementTree.fromstring(svg([panel], "a"))
    assert "</text>$x$" in [text.text for text in root.iter(SVG + "text")]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-0.03, 0.08), (5, 5), (0, 1e-9), (1, 12345)])
def test_ticks_reach_both_ends(low, high):
    ticks = [value for value, _ in round_ticks(low, high)]
    assert ticks[0] <= low + 1e-12
    assert ticks[-1] >= high - 1e-12
    assert 2 <= len(ticks) <= 7


def test_labels_do_not_cover_each_other():
    for places in ([60.0, 60.0, 60.0], [310.0, 317.0, 318.0], [60.0, 61.0, 200.0]):
        moved = spread(dict(zip("abc", places, strict=True)), 318)
        order = sorted(moved.values())
        assert min(np.diff(order)) >= 15 - 1e-9
        assert min(order) >= 60
        assert max(order) <= 318


def test_the_legend_names_each_mark_once_and_in_order():
    marks = [Line([(0, 0), (1, 1)], i, f"line {i}") for i in range(9)]
    root = ElementTree.fromstring(svg([Panel(f"p{i}", "x", "y", marks) for i in range(5)], "t"))
    texts = [text.text for text in root.iter(SVG + "text")]
    assert [text for text in texts if text.startswith("line")] == [m.name for m in marks]
    lines = [p for p in root.iter(SVG + "path") if p.get("stroke-width") == "2"]
    assert len({(p.get("stroke"), p.get("stroke-dasharray")) for p in lines}) == 9
    width, height = map(float, root.get("viewBox").split()[2:])
    assert all(0 < float(t.get("x", 1)) < width for t in root.iter(SVG + "text"))
    assert all(0 < float(t.get("y", 1)) < height for t in root.iter(SVG + "text"))


def test_what_lies_outside_of_a_panel_is_left_out():
    line = Line([(0, 0.2), (0.5, 0.9), (1, 1.1)])
    for y in ((0.0, 1.0), (1.0, 0.0)):
        root = ElementTree.fromstring(svg([Panel("p", "x", "y", [line, Dot(1, 1)], y=y)], "t"))
        (drawn,) = (p for p in root.iter(SVG + "path") if p.get("stroke-width") == "2")
        assert drawn.get("d").count("L") == 1
