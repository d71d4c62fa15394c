"""Rows that belong together, and rows in the order of time, from files to splits."""

import json

import numpy as np
import pytest
import torch

from labelset.cli import main
from labelset.data import Dataset, ensure_split, load, split_by_time, together
from labelset.data.guess import guess


def rows(count=60):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 2)).round(3)
    return x, (x > 0.4).astype(int), rng.integers(0, 12, count)


def written(folder, ending="csv"):
    x, y, patient = rows()
    table = [
        {
            "who": f"p{p}",
            "on": f"20{10 + i // 10}-03-0{1 + i % 9}",
            "x": a,
            "z": b,
            "fork": f,
            "cup": c,
        }
        for i, (p, (a, b), (f, c)) in enumerate(zip(patient, x, y.tolist(), strict=True))
    ]
    path = folder / f"a.{ending}"
    if ending == "csv":
        lines = [",".join(table[0]), *(",".join(map(str, row.values())) for row in table)]
        path.write_text("\n".join(lines))
    elif ending == "jsonl":
        path.write_text("\n".join(json.dumps({k: _plain(v) for k, v in r.items()}) for r in table))
    else:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(table), path)
    return path


def _plain(value):
    return value if isinstance(value, str | int) else float(value)


KEYS = {"label_columns": ["fork", "cup"], "group_column": "who", "time_column": "on"}


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_groups_and_times_of_a_file_are_no_features(tmp_path, ending):
    made = load(written(tmp_path, ending), **KEYS)
    _, _, patient = rows()
    assert made.features.shape == (60, 2)
    same = made.groups[:, None] == made.groups
    assert torch.equal(same, torch.from_numpy(patient[:, None] == patient))
    assert made.times[0] == (np.datetime64("2010-03-01") - np.datetime64("1970-01-01")).astype(int)
    some = made.rows([3, 5])
    assert torch.equal(some.groups, made.groups[[3, 5]])
    assert torch.equal(some.times, made.times[[3, 5]])
    assert made.schema.columns == ["x", "z"]


def test_a_data_set_without_groups_is_known_as_before():
    x, y, patient = rows()
    plain, grouped = Dataset.from_arrays(x, y), Dataset.from_arrays(x, y, groups=patient)
    assert plain.fingerprint() == Dataset.from_arrays(x, y).fingerprint() != grouped.fingerprint()


def test_a_group_is_in_one_part():
    x, y, patient = rows()
    made = ensure_split(Dataset.from_arrays(x, y, groups=patient))
    for group in range(12):
        assert len(made.split[made.groups == group].unique()) == 1
    assert min(made.sizes()) > 0


def test_equal_inputs_and_groups_hold_together_by_way_of_others():
    made = Dataset.from_arrays([[1.0], [2.0], [2.0], [3.0]], [[1]] * 4, groups=["a", "a", "b", "c"])
    assert together(made).tolist() == [0, 0, 0, 1]


def test_a_given_split_that_parts_groups_is_refused():
    x, y, patient = rows()
    made = Dataset.from_arrays(x, y, groups=patient, split=[0] * 40 + [2] * 20)
    with pytest.raises(ValueError, match="groups have rows in more than one part of the split"):
        ensure_split(made)


def test_the_newest_rows_come_last():
    x, y, _ = rows()
    times = np.random.default_rng(1).permutation(60)
    made = ensure_split(Dataset.from_arrays(x, y, times=times), (0.8, 0.0, 0.2))
    assert made.sizes() == (38, 10, 12)
    ends = [(times[made.split == part].min(), times[made.split == part].max()) for part in range(3)]
    assert ends[0][1] < ends[1][0]
    assert ends[1][1] < ends[2][0]
    assert "split in the order of time: 38 train, 10 valid, 12 test rows" in made.card["notes"]
    with pytest.raises(ValueError, match="the data have a split, and times would make another"):
        ensure_split(made)


def test_equal_times_and_groups_are_not_parted():
    years = [2019] * 10 + [2020] * 3 + [2021] * 7
    part = split_by_time(years, (0.6, 0.2, 0.2))
    assert part.tolist() == [0] * 10 + [1] * 3 + [2] * 7
    groups = [0] + [1] * 9 + [2] * 3 + [3] * 6 + [0]  # the first row is of a group that came back
    assert (
        split_by_time(years, (0.6, 0.2, 0.2), groups).tolist() == [2] + [0] * 9 + [1] * 3 + [2] * 7
    )
    with pytest.raises(ValueError, match="3 parts in the order of time need as many different"):
        split_by_time([1, 2, 2], (0.6, 0.2, 0.2))


def test_cells_that_say_nothing_are_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("who,on,x,fork\np1,2024-01-01,1,0\n,2024-01-02,2,1\n")
    with pytest.raises(ValueError, match=r"line 3: column 'who' is empty"):
        load(path, label_columns=["fork"], group_column="who", ignore_columns=["on"])
    path.write_text("on,x,fork\n2024-01-01,1,0\n,2,1\n")
    with pytest.raises(ValueError, match=r"line 3: column 'on' holds no time"):
        load(path, label_columns=["fork"], time_column="on")
    path.write_text("on,x,fork\n2019,1,0\n2020.5,2,1\n")
    assert load(path, label_columns=["fork"], time_column="on").times.tolist() == [2019, 2020.5]
    (tmp_path / "a.svm").write_text("0 1:1\n1 1:2\n")
    with pytest.raises(ValueError, match="has no columns with names, of which group_column"):
        load(tmp_path / "a.svm", group_column="who")


def _pairs(patient):
    return torch.from_numpy(patient[:, None] == patient)


def test_arrays_of_an_npz_file_say_groups_and_times(tmp_path):
    path, (x, y, patient) = tmp_path / "a.npz", rows()
    np.savez(path, X=x, Y=y, who=patient, on=np.arange(60))
    made = load(path, group_column="who", time_column="on")
    assert torch.equal(made.groups[:, None] == made.groups, _pairs(patient))
    assert made.times.tolist() == list(range(60))
    with pytest.raises(ValueError, match="holds no array 'whom': did you mean 'who'"):
        load(path, group_column="whom")
    np.savez(path, X=x, Y=y, who=patient[:7])
    with pytest.raises(ValueError, match="'who' must have an entry for each of 60 rows"):
        load(path, group_column="who")


def test_times_that_a_program_has():
    x, y, _ = rows(3)
    days = np.array(["2024-01-01", "2024-01-03", "2024-01-02"], dtype="datetime64[s]")
    assert Dataset.from_arrays(x, y, times=days).times.diff().tolist() == [2.0, -1.0]
    with pytest.raises(ValueError, match="times must be known for every row, row 1 has none"):
        Dataset.from_arrays(x, y, times=[1.0, np.nan, 2.0])
    with pytest.raises(ValueError, match="times must be numbers or dates"):
        Dataset.from_arrays(x, y, times=["a", "b", "c"])


# ---- labelset data split -------------------------------------------------------------------------


def split(capsys, *argv):
    assert main(["data", "split", *map(str, argv)]) == 0
    return capsys.readouterr().out


def test_a_split_is_printed_written_and_read_again(tmp_path, capsys):
    path, out = written(tmp_path), tmp_path / "parts.txt"
    columns = ("--data", "label_columns=fork,cup", "--data", "ignore_columns=on")
    said = split(capsys, path, *columns, "--group", "who", "--out", out)
    assert "positives  all  train  valid  test" in said
    again = load(path, label_columns=["fork", "cup"], ignore_columns=["on", "who"], split=str(out))
    grouped = load(path, label_columns=["fork", "cup"], ignore_columns=["on"], group_column="who")
    assert torch.equal(again.split, ensure_split(grouped, (0.8, 0.0, 0.2)).split)
    train = again.part("train").labels.T.counts().tolist()
    held = json.loads(split(capsys, path, *columns, "--group", "who", "--json"))
    assert [held["labels"][name]["train"] for name in ("fork", "cup")] == train
    assert sum(held["rows"].values()) == 60


def test_folds_and_the_order_of_time(tmp_path, capsys):
    path, out = written(tmp_path), tmp_path / "folds.txt"
    columns = ("--data", "label_columns=fork,cup", "--data", "ignore_columns=on")
    split(capsys, path, *columns, "--group", "who", "--folds", "3", "--out", out)
    fold = np.array(out.read_text().split())
    _, _, patient = rows()
    assert {*fold} == {"0", "1", "2"}
    assert all(len({*fold[patient == one]}) == 1 for one in range(12))
    said = split(capsys, path, "--data", "label_columns=fork,cup", "--group", "who", "--time", "on")
    assert "note: split in the order of time" in said


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--folds", "3", "--time", "on"], "--folds does not go forward in time"),
        (["--parts", "0.5,half"], "--parts must be three shares such as 0.7,0.1,0.2"),
        (["--out", "parts.csv"], "a list of words is a .txt file"),
        (["--group", "whom"], "no column is called 'whom'"),
    ],
)
def test_what_cannot_be_dealt_is_said(tmp_path, capsys, monkeypatch, argv, said):
    path = written(tmp_path)
    monkeypatch.chdir(tmp_path)
    keys = ["--data", "label_columns=fork,cup", "--data", "ignore_columns=on,who"]
    assert main(["data", "split", str(path), *keys, *argv]) == 2
    assert said in capsys.readouterr().err


def test_a_column_that_looks_like_groups_is_pointed_out():
    table = [[f"p{i % 7}", f"{i / 3}", str(i % 2), str(i // 2 % 2)] for i in range(60)]
    names = ["patient", "x", "label_a", "label_b"]
    assert any("--data group_column=patient" in remark for remark in guess(names, table).remarks)
    said = guess(names, table, said={"group_column": "patient"})
    assert not any("group_column" in remark for remark in said.remarks)
