"""Numbers, categories, dates and several texts together: one table, the same from every format."""

import csv
import datetime
import io
import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from labelset.data import load, stream

NAMES = ["age", "sex", "seen", "title", "body", "y_a", "y_b"]
ROWS = [
    [30, "f", "2024-03-01", "A title", "and a body", 1, 0],
    [41.5, "m", "1970-01-02T12:00:00", "Another", "", 0, 1],
    [None, "?", None, "Third", "one, with a comma", None, 1],
    [7, "x", "1969-12-31", "Last", "row", 1, 1],
]
FLAGS = {
    "text_column": ["title", "body"],
    "category_columns": ["sex"],
    "date_columns": ["seen"],
    "feature_columns": ["age"],
    "label_columns": ["y_*"],
}
FEATURES = [[30, 1, 0, 0, 19783], [41.5, 0, 1, 0, 1.5], [np.nan] * 5, [7, 0, 0, 1, -1]]
TEXTS = ["A title\nand a body", "Another\n", "Third\none, with a comma", "Last\nrow"]


def text(names, rows):
    out = io.StringIO()
    csv.writer(out).writerows([names, *([("" if x is None else x) for x in row] for row in rows)])
    return out.getvalue()


def as_file(kind, folder, names=tuple(NAMES), rows=ROWS):
    path = folder / f"{'-'.join(names)[:30]}.{kind}"
    cut = [[row[NAMES.index(name)] for name in names] for row in rows]
    table = pa.table({name: [row[at] for row in cut] for at, name in enumerate(names)})
    if kind == "csv":
        path.write_text(text(names, cut))
    elif kind == "jsonl":
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in cut]
        path.write_text("\n".join(lines) + "\n")
    elif kind == "parquet":
        parquet.write_table(table, path)
    elif kind == "feather":
        feather.write_feather(table, path)
    else:
        return table if kind == "table" else pytest.importorskip("pandas") and table.to_pandas()
    return path


KINDS = ["csv", "jsonl", "parquet", "feather", "table", "pandas"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_everything_is_the_same_from_every_format(tmp_path, kind):
    made = load(as_file(kind, tmp_path), **FLAGS)
    assert np.allclose(made.features, FEATURES, equal_nan=True)
    assert list(made.texts) == TEXTS
    assert made.names == ["y_a", "y_b"]
    for other in KINDS:
        names = ["body", "seen", "title", "sex", "age"]  # in another order, without labels
        rows = as_file(other, tmp_path, names)
        (some,) = stream(rows, made.schema)
        assert np.allclose(some.features, FEATURES, equal_nan=True), other
        assert list(some.texts) == TEXTS, other
    new = [[1, "unheard of", "2024-03-01", "a", "b", 0, 0]]
    (some,) = stream(as_file("csv", tmp_path, rows=new), made.schema)
    assert some.features.tolist() == [[1, 0, 0, 0, 19783]]
    with pytest.raises(ValueError, match="is called 'seen'"):
        next(stream(as_file("jsonl", tmp_path, ["age", "sex", "title", "body"]), made.schema))


def test_dates_as_people_write_them(tmp_path):
    def days(cells, **flags):
        (tmp_path / "d.csv").write_text("d,y\n" + "".join(f"{cell},1\n" for cell in cells))
        found = load(tmp_path / "d.csv", date_columns=["d"], label_columns=["y"], **flags)
        return found.features[:, 0].tolist()

    assert days(["1970-01-03", "1970/01/03 12:00", "1970-01-03T00:00:00Z", "1970.01.03"]) == [
        2,
        2.5,
        2,
        2,
    ]
    assert days(["1700000000", "1700000000000"]) == [pytest.approx(19675.92, abs=0.01)] * 2
    assert days(["31/01/1970", "NA"], date_format="%d/%m/%Y")[0] == 30
    with pytest.raises(ValueError, match=r"d\.csv: line 3: column 'd' must hold dates such as"):
        days(["1970-01-03", "someday"])
    table = pa.table({"d": [datetime.date(1970, 1, 3), None], "y": [1, 0]})
    found = load(table, date_columns=["d"], label_columns=["y"])
    assert np.allclose(found.features[:, 0], [2, np.nan], equal_nan=True)


def test_categories_are_those_of_all_files(tmp_path):
    for part, words in (("a", "red\ngreen"), ("b", "blue\nred")):
        rows = "".join(f"{word},1\n" for word in words.split())
        (tmp_path / f"{part}.csv").write_text("colour,y\n" + rows)
    flags = {"category_columns": ["colour"], "label_columns": ["y"]}
    made = load(tmp_path / "a.csv", test=str(tmp_path / "b.csv"), **flags)
    want = [[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert made.features.tolist() == want
    assert load(tmp_path / "*.csv", **flags).features.tolist() == want
    many = "".join(f"w{i},1\n" for i in range(10_001))
    (tmp_path / "m.csv").write_text("colour,y\n" + many)
    with pytest.raises(ValueError, match="more than 10,000 different words"):
        load(tmp_path / "m.csv", **flags)
    reader = pa.table({"colour": ["red"], "y": [1]}).to_reader()
    with pytest.raises(ValueError, match="goes by only once"):
        load(reader, **flags)


def test_json_lines_are_tables(tmp_path):
    rows = [{"b": 2, "a": 1, "y": True, "z": "no"}, {"z": "yes", "y": None, "b": None, "a": 0.5}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = load(tmp_path / "t.jsonl", label_columns=["y", "z"])
    assert np.allclose(made.features, [[2, 1], [np.nan, 0.5]], equal_nan=True)
    assert np.allclose(made.labels.dense(), [[1, 0], [np.nan, 1]], equal_nan=True)
    for bad, what in (
        ('{"a": 1, "a": 2, "labels": [0]}', "line 1: key 'a' appears twice"),
        ('{"a": 1, "labels": [0]}\n{"a": "x", "labels": [0]}', "line 2: `a` must be a number"),
        ('{"a": 1, "labels": [0]}\n{"labels": [0]}', "line 2: no key is called 'a'"),
        ('{"a": 1, "labels": [0]}\n{"a": 1e999, "labels": [0]}', "line 2: key 'a' must be finite"),
        (f'{{"a": 1{"0" * 400}, "labels": [0]}}', "line 1: `a` must be a number"),
    ):
        (tmp_path / "bad.jsonl").write_text(bad)
        with pytest.raises(ValueError, match=what):
            load(tmp_path / "bad.jsonl")


def test_a_row_with_a_header_key_is_a_row(tmp_path):
    rows = [
        {"header": True, "text": "a", "labels": ["x"]},
        {"header": "", "text": "b", "labels": []},
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert load(tmp_path / "t.jsonl").texts == ["a", "b"]
