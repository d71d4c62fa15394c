"""What the page says of a comparison, of seeds and rows, and of it all in short."""

import json

import numpy as np
import pytest

from labelset_studies import read_table, write_page
from labelset_studies._about import tell_rows
from labelset_studies._deciding import deciding, interval, told
from labelset_studies._difference import Difference
from labelset_studies._figure import figure
from labelset_studies._read import Results
from labelset_studies._summary import summary
from labelset_studies._verdict import Comparison, Sentence, sentence_verdict

TABLE = """
claim = 5
title = "t"
source = "s"
metrics = ["raw map@class", "raw map@sample", "link ace"]
rank = ["map@class", "ace"]

[[candidates]]
name = "bce"

[[candidates]]
name = "asl"

[[candidates]]
name = "hill"

[[expect]]
says = "asl beats bce and hill"
better = "asl"
than = ["bce", "hill"]
metrics = ["raw map@class", "raw map@sample"]

[[expect]]
says = "asl is within 0.005 of bce"
better = "asl"
than = "bce"
metrics = "raw map@class"
within = 0.005
extra = true
"""
ABOUT = {"budget": "long", "seconds": 1.0, "cells": 3, "runs": []}


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.toml"
    path.write_text(TABLE)
    return read_table(path)


def comparison(delta, low, high, verdict, other="bce", metric="raw map@class", data="d", says=0):
    sentence = ("asl beats bce and hill", "asl is within 0.005 of bce")[says]
    found = Difference(0.5 + delta, 0.5, delta, low, high)
    names = ("asl", metric, other, metric)
    return Comparison(5, "table", sentence, data, 0.0, *names, found, verdict)


def results(table, values=None, comparisons=(), **about):
    return Results([table], values or {}, [], {}, list(comparisons), ABOUT | about)


def values(table, numbers, seeds=2):
    """Candidate -> data set -> value of map@class; ace is 1 less that."""
    found = {}
    for name, by_set in numbers.items():
        for data, value in by_set.items():
            found[table.name, data, name, "raw map@class"] = [value] * seeds
            found[table.name, data, name, "link ace"] = [1 - value] * seeds
    return found


def test_the_comparison_that_contradicts_is_told_not_the_widest():
    wide = comparison(0.0, -0.4, 0.4, "open", "hill")
    clear = comparison(-0.02, -0.03, -0.01, "contradicted", "bce")
    assert deciding([wide, clear]) is clear
    assert deciding([clear, wide]) is clear
    clearer = comparison(-0.05, -0.2, -0.04, "contradicted", "hill")
    assert deciding([clear, clearer]) is clearer
    sure, less = (comparison(0.1, low, 0.2, "holds") for low in (0.05, 0.01))
    assert deciding([sure, wide]) is wide
    assert deciding([sure, less]) is less


def test_the_other_and_the_metric_are_named_where_they_vary(table):
    many = [
        comparison(0.1, 0.05, 0.2, "holds", other, metric)
        for other in ("bce", "hill")
        for metric in ("raw map@class", "raw map@sample")
    ]
    many[2] = comparison(-0.1, -0.2, -0.05, "contradicted", "hill", "raw map@sample")
    sentence = sentence_verdict(table.expect[0], many)
    compares, found = told(results(table, comparisons=many), sentence)
    assert compares == "asl against each, by each metric"
    assert found == {"d": "-0.100 [-0.200, -0.050] (hill, `raw map@sample`)"}
    one = [comparison(0.1, 0.05, 0.2, "holds", says=1)]
    sentence = sentence_verdict(table.expect[1], one)
    compares, found = told(results(table, comparisons=one), sentence)
    assert compares == "asl against bce, `raw map@class`"
    assert found == {"d": "+0.100 [+0.050, +0.200]"}


def test_open_for_want_of_numbers_is_said(table):
    some = [comparison(0.1, 0.05, 0.2, "holds", "bce")]
    sentence = sentence_verdict(table.expect[0], some)
    assert sentence.open == ("d",)
    assert "not trained" in told(results(table, comparisons=some), sentence)[1]["d"]


@pytest.mark.parametrize(
    ("numbers", "margin", "text"),
    [
        ((-0.0002, -0.0003, -0.0001), 0.0, "-0.0002 [-0.0003, -0.0001]"),
        ((-0.02, -0.03, -0.00004), 0.0, "-0.02000 [-0.03000, -0.00004]"),
        ((-2e-7, -1e-5, -1e-9), 0.0, "-2e-07 [-0.000010, -1e-09]"),
        ((0.0, 0.0, 0.0), 0.0, "+0.000 [+0.000, +0.000]"),
        ((-0.001, -0.0049, 0.002), 0.005, "-0.0010 [-0.0049, +0.0020]"),
        ((-0.001, -0.0049, 0.002), 0.0, "-0.001 [-0.005, +0.002]"),
        ((1234.0, 1200.0, 1300.0), 0.0, "+1,234 [+1,200, +1,300]"),
        ((0.1, float("nan"), float("nan")), 0.0, "+0.100 [+nan, +nan]"),
    ],
)
def test_no_number_is_rounded_onto_what_decides(numbers, margin, text):
    assert interval(comparison(*numbers, "open"), margin) == text


def test_lower_is_better_is_turned():
    one = comparison(-0.2, -0.3, -0.1, "holds", metric="link ace")
    assert interval(one) == "+0.200 [+0.100, +0.300]"
    nothing = comparison(0.0, 0.0, 0.0, "holds", metric="link ace")
    assert interval(nothing) == "+0.000 [+0.000, +0.000]"  # no -0


def test_what_nobody_claimed_is_not_reproduced_but_holds():
    def words(*sets):
        return [Sentence(6, "t", "s", extra, *sets).told for extra in (False, True)]

    assert words(("a",), (), ()) == ["reproduced", "holds"]
    assert words((), ("a",), ()) == ["not reproduced", "does not hold"]
    assert words((), (), ("a",)) == ["inconclusive", "open"]


def test_in_short(table):
    numbers = {
        "bce": {"x": 0.5, "y": 0.7},
        "asl": {"x": 0.6, "y": 0.6},
        "hill": {"x": 0.8, "y": 0.8},
    }
    many = [comparison(-0.1, -0.2, -0.05, "contradicted", data=data) for data in "xy"]
    many.append(comparison(0.1, 0.05, 0.2, "holds", data="x", says=1))
    text = "\n".join(summary(results(table, values(table, numbers), many)))
    assert "| 5 | **not reproduced** | 0 | 1 | 0 | asl beats bce and hill: *not repr" in text
    assert "*not reproduced*, 0 / 0 / 2 |" in text
    assert (
        "over 2 data sets (x, y), means over 2 seeds. First by most metrics, 2 of 2: hill." in text
    )
    first = "hill (mean rank 1.0, mean 0.800) of 3; next bce (mean rank 2.5, mean 0.600)"
    assert f"- `map@class`: {first}, worse than the first on 2 of 2 data sets\n" in text
    assert "- `ace`: hill, `link` (mean rank 1.0, mean 0.200) of 3" in text
    numbers["asl"] = {"x": 0.9, "y": 0.75}
    text = "\n".join(summary(results(table, values(table, numbers), many)))
    own = "bce (mean rank 3.0, mean 0.600) in place 3, worse than the first on 2 of 2 data sets"
    assert f"; {own}\n" in text


def test_main_sentences_are_those_marked(tmp_path):
    path = tmp_path / "table.toml"
    path.write_text(TABLE + "main = true\n")  # of the last one, which is beyond the paper
    table = read_table(path)
    many = [comparison(-0.1, -0.2, -0.05, "contradicted", says=says) for says in (0, 1)]
    text = "\n".join(summary(results(table, values(table, {"bce": {"d": 0.5}}), many)))
    assert "| asl is within 0.005 of bce: *does not hold*, 0 / 0 / 1 |" in text


def test_seeds_rows_and_repeated_sets_are_told(table, tmp_path):
    held = values(table, {"bce": {"x (r = 0.5)": 0.5, "x (r = 1)": 0.4, "y (r = 1)": 0.3}}, seeds=5)
    page = tmp_path / "page.md"
    write_page(results(table, held, rows={"x": 1234}), page)
    text = page.read_text()
    assert "`raw map@class`, higher is better; means over 5 seeds:" in text
    assert "Test rows: x 1,234.\n" in text
    assert "every pair of data set and r, 3 in all, of 2 data sets" in text
    held[table.name, "x (r = 1)", "asl", "raw map@class"] = [0.1, 0.2]
    write_page(results(table, held), page)
    text = page.read_text()
    seeds = "means over seeds (x (r = 0.5) 5, x (r = 1) 2 to 5, y (r = 1) 5)"
    assert f"`raw map@class`, higher is better; {seeds}:" in text
    assert "Test rows" not in text


def test_the_summary_has_a_place_of_its_own(table, tmp_path):
    page = tmp_path / "page.md"
    marks = "<!-- study: {} -->"
    inner = [marks.format(name) for name in ("summary", "end of summary", "begin", "end")]
    page.write_text("# Mine\n{}\nearlier\n{}\nwords\n{}\nearlier\n{}\nend\n".format(*inner))
    found = results(
        table, values(table, {"bce": {"d": 0.5}}), [comparison(0.1, 0.05, 0.2, "holds")]
    )
    write_page(found, page)
    text = page.read_text()
    assert "earlier" not in text
    top, middle = text.split("words")
    assert "| claim | verdict |" in top
    assert "| claim | verdict |" not in middle
    write_page(found, page)
    assert page.read_text() == text


def test_rows_are_counted_where_data_are_at_hand(tmp_path):
    def write(tested):
        split = np.repeat([0, 1, 2], [20, 10, tested])
        x, y = np.zeros((30 + tested, 2), "float32"), np.ones((30 + tested, 2), "uint8")
        np.savez(tmp_path / "d.npz", X=x, Y=y, split=split)
        tell_rows(path, {"d", "e", "absent"}, tmp_path)
        return json.loads(path.read_text())["rows"]

    path = tmp_path / "about.json"
    path.write_text(json.dumps(ABOUT | {"rows": {"e": 7}}))
    assert write(20) == {"d": 20, "e": 7}
    assert write(25) == {"d": 25, "e": 7}  # the data are others now
    (tmp_path / "d.npz").unlink()
    tell_rows(path, {"d"}, tmp_path)
    assert json.loads(path.read_text())["rows"] == {"d": 25, "e": 7}


def test_an_axis_by_logarithms_tells_the_numbers_themselves(tmp_path):
    path = tmp_path / "swept.toml"
    path.write_text(
        'claim = 5\ntitle = "t"\nsource = "s"\nmetrics = ["raw map@class"]\n'
        'figure = { x = "batch", log2 = true, metrics = ["raw map@class"] }\n'
        '[[candidates]]\nname = "bce"\nvary = { "training.batch" = [16, 128, 1024] }\n'
    )
    table = read_table(path)
    values = {(table.name, "d", c.name, "raw map@class"): [0.5] for c in table.candidates}
    (svg,) = figure(Results([table], values, [], {}, [], {}), table)
    assert [f">{mark}<" in svg for mark in (16, 128, 1024)] == [True] * 3
