"""Reasons on the command line: as JSON, CSV and lines to read, and what labels have learnt."""

import csv
import json

import numpy as np
import pytest

from labelset.cli import main

TEXTS = ("rain at sea", "sun on | sand", "rain and wind", "\x1b[31mred sun", "wind at sea", "sun")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model of texts that name their labels, one of them in colours."""
    folder = tmp_path_factory.mktemp("explained")
    with (folder / "rows.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "text", "tags"])
        for at in range(60):
            text = f"{TEXTS[at % 6]} n{at}"
            rows.writerow([f"r{at}", text, "|".join(w for w in ("rain", "sun") if w in text)])
    given = ["--data", "label_column=tags", "--data", "id_column=id", "--epochs", "3"]
    given += ["--data", "text_column=text"]
    out = ["--quiet", "--out", str(folder / "run")]
    assert main(["train", str(folder / "rows.csv"), *given, *out]) == 0
    return folder / "run"


def said(run, capsys, *more):
    capsys.readouterr()
    assert main(["predict", str(run), str(run.parent / "rows.csv"), *more]) == 0
    return capsys.readouterr().out


def test_reasons_are_a_field_of_each_row_and_add_up(run, capsys):
    plain = [json.loads(line) for line in said(run, capsys).splitlines()]
    rows = [json.loads(line) for line in said(run, capsys, "--explain", "3").splitlines()]
    assert [{k: v for k, v in row.items() if k != "why"} for row in rows] == plain
    for row in rows:
        assert [reason["label"] for reason in row["why"]] == row["names"]
        for reason in row["why"]:
            assert 1 <= len(reason["terms"]) <= 3
            total = reason["base"] + sum(v for _, v in reason["terms"]) + reason["rest"]
            assert total == pytest.approx(reason["score"], abs=1e-4)
    (rain,) = rows[0]["why"]
    assert rain["label"] == "rain"
    assert '"rain"' in dict(map(tuple, rain["terms"]))


def test_reasons_are_a_column_of_a_table(run, capsys, tmp_path):
    out = tmp_path / "p.csv"
    said(run, capsys, "--explain", "1", "--to", "csv", "--out", str(out))
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [*rows[0]] == ["row", "id", "labels", "probabilities", "why"]
    assert rows[0]["why"].lstrip("'").count(" = ") == len(rows[0]["labels"].split("|"))
    assert '"' in rows[0]["why"]
    assert {row["why"] for row in rows if not row["labels"]} <= {""}


def test_lines_to_read_move_no_cursor(run, capsys, monkeypatch):
    text = said(run, capsys, "--explain", "--to", "text")
    assert text.startswith("row 0, r0\n  rain, probability ")
    assert "(base)" in text
    assert "\x1b" not in text
    assert "  no label\n" in text
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert said(run, capsys, "--explain") == text  # what a terminal gets


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["ROWS", "--explain", "0"], "--explain must be"),
        (["ROWS", "--explain", "--to", "npz"], "--to npz is no text to print: give --out FILE"),
        (["test", "--explain"], "--explain needs rows to read"),
    ],
)
def test_what_cannot_be_explained_is_said_in_a_line(run, capsys, more, words):
    rows = str(run.parent / "rows.csv")
    assert main(["predict", str(run), *[rows if word == "ROWS" else word for word in more]]) == 2
    assert words in capsys.readouterr().err


def test_the_largest_weights_are_printed(run, capsys):
    assert main(["weights", str(run), "--label", "rain", "--top", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["label", "weight"]
    assert lines[1].startswith("rain ")
    assert len(lines) == 6
    assert main(["weights", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["label"] for each in found] == ["rain", "sun"]
    sizes = [abs(value) for _, value in found[0]["terms"]]
    assert sizes == sorted(sizes, reverse=True)
    assert np.isfinite(sizes).all()
    assert main(["weights", str(run), "--label", "rian"]) == 2
    assert "did you mean 'rain'" in capsys.readouterr().err
