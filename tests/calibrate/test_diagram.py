"""Reliability diagrams: sound XML, escaped text, bands where they belong."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from labelset.calibrate import diagram
from labelset.metrics import reliability

SVG = "{http://www.w3.org/2000/svg}"


def curve(seed=0, rows=500, **how):
    r = np.random.default_rng(seed)
    p = r.random((rows, 3))
    return reliability(p, r.random(p.shape) < p**2, **how)


def paths(root, what):
    """The numbers along each path that has such an attribute, as (x, y)."""
    look = {p: (p.get("stroke"), p.get("style", "")[-11:]) for p in root.iter(f"{SVG}path")}
    kept = [re.findall(r"[\d.]+", p.get("d")) for p in look if what in look[p]]
    return [np.array(numbers, float).reshape(-1, 2) for numbers in kept]


def test_points_and_bands_are_where_they_belong():
    c = curve()
    root = ET.fromstring(diagram({"link": c}, "Reliability"))
    ((low_end, high_end),) = paths(root, "#999999")  # the diagonal, from (0, 0) to (1, 1)
    left, top, side = low_end[0], high_end[1], high_end[0] - low_end[0]
    assert side == low_end[1] - high_end[1] > 300
    circles = root.findall(f"{SVG}circle")
    assert len(circles) == 15
    for circle, p, f in zip(circles, c.confidence.tolist(), c.frequency.tolist(), strict=True):
        assert float(circle.get("cx")) == pytest.approx(left + side * p, abs=0.06)
        assert float(circle.get("cy")) == pytest.approx(top + side * (1 - f), abs=0.06)
    (corners,) = paths(root, "opacity:.16")
    low, high = 1 - (corners[:15, 1] - top) / side, 1 - (corners[15:, 1] - top) / side
    n, f, z = c.count.numpy(), c.frequency.numpy(), 1.959964
    centre = (f + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(f * (1 - f) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    np.testing.assert_allclose(low, centre - half, atol=3e-4)
    np.testing.assert_allclose(high[::-1], centre + half, atol=3e-4)


def test_text_is_escaped():
    svg = diagram({'<b> & "c"': curve()}, "a < b & c")
    text = " ".join(t.text for t in ET.fromstring(svg).iter(f"{SVG}text"))
    assert "a < b & c" in text
    assert '<b> & "c": ACE' in text


def test_empty_bins_single_entries_and_other_bins():
    few = reliability([[0.1, 0.95]], [[0, 1]])
    mass = curve(binning="mass")
    for curves in ({"few": few}, {"few": few, "mass": mass, "width": curve(1)}):
        svg = diagram(curves, "Corners")
        assert "nan" not in svg
        assert "inf" not in svg
        root = ET.fromstring(svg)
        width, height = (float(root.get(side)) for side in ("width", "height"))
        for bar in root.findall(f"{SVG}rect"):
            assert 0 <= float(bar.get("x", 0)) <= width
            assert 0 <= float(bar.get("y", 0)) <= height


def test_what_cannot_be_drawn_is_told():
    with pytest.raises(ValueError, match="at least one curve"):
        diagram({}, "Nothing")
    with pytest.raises(ValueError, match="one pooled curve"):
        diagram({"each": curve(per_label=True)}, "Each")
