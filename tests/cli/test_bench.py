"""`labelset bench`: what it prints, what it writes, and how it fails."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

from labelset.bench import COLUMNS, read_rows
from labelset.cli import main


@pytest.fixture(autouse=True)
def _small_copy(monkeypatch):
    monkeypatch.setattr("labelset.bench.timing.COPIED", {"cpu": 2**23})


def bench(*more):
    few = ["--losses", "bce", "mse", "--impl", "eager", "auto", "--limit", "0.01"]
    return main(["bench", *few, "--shapes", "4x6", "--device", "cpu", *map(str, more)])


def test_a_table_a_csv_and_a_plot(tmp_path, capsys):
    out, svg = tmp_path / "b.csv", tmp_path / "b.svg"
    assert bench("--out", out, "--plot", svg) == 0
    printed = capsys.readouterr().out
    rows = read_rows(out)
    assert len(rows) == 2 * 2 * 2  # losses, implementations, dtypes
    assert {row.dtype for row in rows} == {"float32", "bfloat16"}
    assert {row.implementation for row in rows} == {"eager", "auto"}
    assert len([line for line in printed.splitlines() if "4x6" in line]) == len(rows)
    assert str(out) in printed
    assert "auto on cpu: C loops" in printed
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")


def test_json_has_every_column(capsys):
    assert bench("--json", "--dtypes", "float32", "--labels", "sparse", "--density", "0.5") == 0
    found = json.loads(capsys.readouterr().out)
    assert [list(row) for row in found] == [list(COLUMNS)] * 4
    assert {row["label_kind"] for row in found} == {"sparse"}
    assert {row["density"] for row in found} == {0.5}
    assert all(row["p20_ms"] <= row["p50_ms"] <= row["p80_ms"] for row in found)


def test_rows_are_added_to_a_csv(tmp_path, capsys):
    out = tmp_path / "b.csv"
    assert bench("--out", out, "--dtypes", "float32") == 0
    assert bench("--out", out, "--dtypes", "float32", "bfloat16", "--add") == 0
    assert len(read_rows(out)) == 8
    assert bench("--out", out, "--dtypes", "float32") == 0
    assert len(read_rows(out)) == 4  # without --add the file is new


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (["--losses", "bcce"], "did you mean 'bce'"),
        (["--impl", "egar"], "did you mean 'eager'"),
        (["--shapes", "80"], "512x80"),
        (["--shapes", "0x3"], "at least 1"),
        (["--device", "tpu"], "tpu"),
        (["--device", "meta"], "cpu or cuda"),
        (["--device", "cuda:99"], "no such GPU"),
        (["--density", "1.5"], "--density"),
        (["--density", "nan"], "--density"),
        (["--limit", "0"], "--limit"),
        (["--seed", "-1"], "--seed"),
        (["--add"], "--out"),
        (["--out", "no/such/folder/b.csv"], "cannot write"),
        (["--plot", "no/such/folder/b.svg"], "cannot write"),
    ],
)
def test_bad_arguments_are_one_line_and_status_two(wrong, says, capsys):
    assert bench(*wrong) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err.count("\n") == 1
    assert says in seen.err


@pytest.mark.parametrize("wrong", [["--dtypes", "int8"], ["--labels", "soft"], ["--limit", "x"]])
def test_wrong_usage_is_status_two(wrong, capsys):
    with pytest.raises(SystemExit) as stop:
        bench(*wrong)
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_foreign_csv_is_left_alone(tmp_path, capsys):
    out = tmp_path / "b.csv"
    out.write_text("my,own\n1,2\n")
    assert bench("--out", out, "--add") == 2
    assert out.read_text() == "my,own\n1,2\n"
    assert "new file" in capsys.readouterr().err


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["bench", "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    options = "losses impl all shapes dtypes device labels density limit seed out add plot json"
    assert [o for o in options.split() if f"--{o}" not in text] == []
