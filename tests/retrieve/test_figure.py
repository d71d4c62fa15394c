"""The figure: well-formed, one line per model, within the page."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from labelset.retrieve import curves, evaluate

SVG = "{http://www.w3.org/2000/svg}"


def table(noise, queries=20, n=7):
    rng = np.random.default_rng(0)
    probs = rng.random((80, n))
    y = rng.random((80, n)) < probs
    return evaluate(np.clip(probs + noise * rng.normal(size=probs.shape), 0, 1), y, queries=queries)


def test_lines_bands_and_names():
    svg = curves({"good <&>": table(0.0), "worse": table(0.5)}, title="a & b")
    root = ET.fromstring(svg)
    width, height = map(float, root.get("viewBox").split()[2:])
    paths = [p for p in root.iter(SVG + "path") if p.get("stroke-width") == "2"]
    bands = [p for p in root.iter(SVG + "path") if "opacity" in p.get("style", "")]
    assert len(paths) == len(bands) == 2
    assert len(list(root.iter(SVG + "circle"))) == 2 * 5
    texts = [t.text for t in root.iter(SVG + "text")]
    assert {"good <&>", "worse", "a & b", "1", "5"} <= set(texts)
    for path in [*paths, *bands]:
        numbers = [float(v) for v in re.findall(r"[\d.]+", path.get("d"))]
        assert all(0 <= x <= width for x in numbers[::2])
        assert all(0 <= y <= height for y in numbers[1::2])
    for path, band in zip(paths, bands, strict=True):  # drawn on the way there, and back
        middle, edge = (re.findall(r"[\d.]+", p.get("d"))[1::2] for p in (path, band))
        line, lower = list(map(float, middle)), list(map(float, edge[:5]))
        upper = list(map(float, edge[5:]))[::-1]
        assert all(a < b < c for a, b, c in zip(upper[1:], line[1:], lower[1:], strict=True))
    first, second = ([float(v) for v in re.findall(r"[\d.]+", p.get("d"))][1::2] for p in paths)
    assert all(a < b for a, b in zip(first, second, strict=True))  # the better one is higher up


def test_one_length_many_models_and_none():
    one = evaluate([[0.5], [0.7]], [[0], [1]])
    root = ET.fromstring(curves({f"model {i}": one for i in range(9)}))
    lines = [p for p in root.iter(SVG + "path") if p.get("stroke-width") == "2"]
    looks = {(p.get("stroke"), p.get("stroke-dasharray")) for p in lines}
    assert len(looks) == 9
    empty = evaluate([[0.5], [0.7]], [[0], [0]])
    assert ET.fromstring(curves({"some": one, "none": empty})) is not None
    with pytest.raises(ValueError, match="at least one evaluation"):
        curves({"none": empty})
    with pytest.raises(ValueError, match="at least one evaluation"):
        curves({})
