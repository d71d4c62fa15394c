"""One law: the same rows get the same predictions, whatever file they come in."""

import bz2
import csv
import gzip
import io
import json
import lzma
import shutil
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from labelset.cli import main
from labelset.data import load
from labelset.data.reading import kind_of
from labelset.model import SavedModel

N = 240
COLUMNS = ["a", "b", "c"]


def numbers():
    return np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32).round(3)


def truth(x):
    return (np.stack([x[:, 0] > 0, x[:, 1] + x[:, 2] > 0.3], axis=1)).astype(int)


# ---- writers: (path, names of the columns, their cells by name) ----------------------------------


def opened(path, mode="wt", **how):
    """A file to write to, packed as its ending says."""
    pack = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}.get(path.suffix.lower(), open)
    if path.suffix == ".zst":
        return io.TextIOWrapper(pyarrow.CompressedOutputStream(str(path), "zstd"), **how)
    return pack(path, mode, **how)


def write_csv(path, names, table, separator=","):
    with opened(path, newline="", encoding="utf-8") as file:
        rows = csv.writer(file, delimiter=separator)
        rows.writerow(names)
        rows.writerows(zip(*(table[name] for name in names), strict=True))


def write_tsv(path, names, table):
    write_csv(path, names, table, "\t")


def write_semicolons(path, names, table):
    write_csv(path, names, table, ";")


def write_jsonl(path, names, table):
    with opened(path, encoding="utf-8") as file:
        for at in range(len(table[names[0]])):
            cells = {name: table[name][at] for name in names}
            plain = {k: v.item() if hasattr(v, "item") else v for k, v in cells.items()}
            file.write(json.dumps(plain) + "\n")


def write_parquet(path, names, table):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table({name: list(table[name]) for name in names}), path)


def write_arrow(path, names, table):
    from pyarrow import feather

    columns = pyarrow.table({name: list(table[name]) for name in names})
    feather.write_feather(columns, path, compression="uncompressed")


def write_arff(path, names, table):
    with opened(path, encoding="utf-8") as file:
        file.write("@relation r\n")
        file.writelines(
            f"@attribute {n} {'string' if isinstance(table[n][0], str) else 'numeric'}\n"
            for n in names
        )
        file.write("@data\n")
        for at in range(len(table[names[0]])):
            file.write(",".join(str(table[name][at]) for name in names) + "\n")


def write_npz(path, names, table):
    x = np.stack([np.asarray(table[name], dtype=np.float32) for name in names], axis=1)
    np.savez_compressed(path, X=x, feature_names=names)


BY_NAME = {
    "n.csv": write_csv,
    "n.CSV": write_csv,
    "n.csv.gz": write_csv,
    "n.CSV.GZ": write_csv,
    "n.csv.bz2": write_csv,
    "n.CSV.XZ": write_csv,
    "n.csv.zst": write_csv,
    "n.tsv": write_tsv,
    "n.tsv.gz": write_tsv,
    "n.tsv.zst": write_tsv,
    "semicolons.csv": write_semicolons,
    "n.parquet": write_parquet,
    "n.pq": write_parquet,
    "n.arrow": write_arrow,
    "n.feather": write_arrow,
    "n.jsonl": write_jsonl,
    "n.jsonl.gz": write_jsonl,
    "n.jsonl.xz": write_jsonl,
    "n.ndjson": write_jsonl,
    "n.arff": write_arff,
    "n.arff.gz": write_arff,
    "n.arff.bz2": write_arff,
    "n.npz": write_npz,
}


@pytest.fixture(scope="module")
def table():
    x = numbers()
    y = truth(x)
    held = {name: x[:, at] for at, name in enumerate(COLUMNS)}
    return held | {"on": y[:, 0], "off": y[:, 1], "key": [f"r{i}" for i in range(N)]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rows")


def train(folder, source, *keys):
    out = folder / f"run-{source.name}"
    data = [word for key in keys for word in ("--data", key)]
    assert main(["train", str(source), *data, "--epochs", "4", "--out", str(out)]) == 0
    return str(out)


@pytest.fixture(scope="module")
def run(folder, table):
    """Trained on a CSV file between semicolons, with labels before the features."""
    write_semicolons(folder / "t.csv", ["on", "key", "a", "off", "b", "c"], table)
    keys = ("separator=;", "label_columns=on,off", "id_column=key")
    return train(folder, folder / "t.csv", *keys)


@pytest.fixture
def predicted(capsys):
    def of(run, source, *more):
        capsys.readouterr()
        status = main(["predict", run, str(source), *map(str, more)])
        said = capsys.readouterr()
        assert status == 0, said.err
        return said.out

    return of


@pytest.fixture
def refused(capsys):
    def of(run, source, *more):
        capsys.readouterr()
        assert main(["predict", run, str(source), *map(str, more)]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        return said

    return of


def without_ids(text):
    rows = [json.loads(line) for line in text.splitlines()]
    return [{k: v for k, v in row.items() if k != "id"} for row in rows]


def test_the_file_that_a_model_was_trained_on_is_read(run, folder, predicted):
    rows = [json.loads(line) for line in predicted(run, folder / "t.csv").splitlines()]
    assert [row["id"] for row in rows] == [f"r{i}" for i in range(N)]
    assert len({tuple(row["labels"]) for row in rows}) > 2


@pytest.mark.parametrize("name", BY_NAME)
def test_columns_go_by_name_in_every_format(run, folder, table, predicted, refused, name):
    want = without_ids(predicted(run, folder / "t.csv"))
    path, write = folder / name, BY_NAME[name]
    for names in (COLUMNS, ["c", "a", "b"]):
        write(path, names, table)
        assert without_ids(predicted(run, path)) == want
    extra = table | {"z": np.full(N, 7.0, dtype=np.float32)}
    if write is not write_npz:
        write(path, ["z", "off", "c", "key", "b", "on", "a"], extra)
        assert predicted(run, path) == predicted(run, folder / "t.csv")
    write(path, ["a", "c"], table)
    said = refused(run, path)
    assert name in said
    if write is not write_npz:
        assert "'b'" in said
    write(path, ["a", "bb", "c"], table | {"bb": table["b"]})
    said = refused(run, path)
    assert name in said
    assert "is called 'b': did you mean 'bb'" in said


def test_files_without_names_go_by_position(run, folder, table, predicted, refused):
    want = without_ids(predicted(run, folder / "t.csv"))
    x = numbers()
    np.save(folder / "p.npy", x)
    np.savez(folder / "p.npz", X=x)
    np.savez(folder / "q.npz", x)
    with (folder / "p.jsonl").open("w") as file:
        file.writelines(json.dumps({"features": row}) + "\n" for row in x.astype(float).tolist())
    with (folder / "p.svm").open("w") as file:
        for row in x.tolist():
            file.write("0 " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row)) + "\n")
    for name in ("p.npy", "p.npz", "q.npz", "p.jsonl"):
        assert without_ids(predicted(run, folder / name)) == want, name
    assert without_ids(predicted(run, folder / "p.svm", "--data", "base=1")) == want
    np.save(folder / "w.npy", x[:, :2])
    assert "w.npy: has 2 features a row, the model was trained on 3" in refused(
        run, folder / "w.npy"
    )


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_many_files_go_by_name_each(run, folder, table, predicted, refused, write):
    ending = "csv" if write is write_csv else "parquet"
    cut = {name: table[name][: N // 2] for name in COLUMNS}
    rest = {name: table[name][N // 2 :] for name in COLUMNS}
    write(folder / f"glob-1.{ending}", COLUMNS, cut)
    write(folder / f"glob-2.{ending}", ["c", "a", "b"], rest)
    write_csv(folder / "whole.csv", COLUMNS, table)
    files = folder / f"glob-?.{ending}"
    assert predicted(run, files) == predicted(run, folder / "whole.csv")
    for at, names in enumerate((["a", "on"], ["a", "b", "on"]), 1):  # features of nobody's choice
        write(folder / f"glob-{at}.{ending}", names, table)
    with pytest.raises(ValueError, match=r"glob-2.*its columns are not those of .*glob-1"):
        load(files, label_columns="on")
    write(folder / f"glob-1.{ending}", COLUMNS, cut)
    write(folder / f"glob-2.{ending}", ["c", "a"], rest)
    assert f"glob-2.{ending}: no column is called 'b'" in refused(run, files)


def test_arrays_that_hold_no_features_are_named(run, folder, refused):
    np.savez(folder / "other.npz", Z=numbers())
    assert "other.npz: holds no features, which the model reads" in refused(
        run, folder / "other.npz"
    )
    np.save(folder / "objects.npy", numbers().astype(object), allow_pickle=True)
    assert "holds Python objects; save numbers" in refused(run, folder / "objects.npy")
    (folder / "cut.npy").write_bytes(b"\x93NUMPY")
    assert "damaged or not a .npy file" in refused(run, folder / "cut.npy")


def standard_input(monkeypatch, path):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))


@pytest.mark.parametrize("name", BY_NAME)
def test_standard_input_is_read_as_files_are(
    run, folder, table, predicted, refused, monkeypatch, name
):
    write, kind = BY_NAME[name], kind_of(Path(name))
    kind = {"pq": "parquet", "ndjson": "jsonl", "feather": "arrow"}.get(kind, kind)
    path = folder / name
    write(path, ["c", "a", "b"], table)
    standard_input(monkeypatch, path)
    got = predicted(run, "-", "--format", kind)
    assert without_ids(got) == without_ids(predicted(run, path))
    write(path, ["a", "bb", "c"], table | {"bb": table["b"]})
    standard_input(monkeypatch, path)
    said = refused(run, "-", "--format", kind)
    assert "standard input: " in said


def test_npy_on_standard_input(run, folder, predicted, monkeypatch):
    np.save(folder / "i.npy", numbers())
    standard_input(monkeypatch, folder / "i.npy")
    assert predicted(run, "-", "--format", "npy") == predicted(run, folder / "i.npy")


def test_texts_go_by_name_in_every_format(folder, predicted, refused, monkeypatch):
    words = ["red apple", "green apple", "red fork", "green knife", "blue pot"]
    bodies = [f"{words[i % 5]} in shop number {i}" for i in range(100)]
    tags = ["|".join(w for w in ("red", "apple", "knife") if w in body) for body in bodies]
    held = {"key": [f"k{i}" for i in range(100)], "body": bodies, "tags": tags}
    write_semicolons(folder / "texts.csv", ["key", "body", "tags"], held)
    keys = ("separator=;", "text_column=body", "label_column=tags", "id_column=key")
    run = train(folder, folder / "texts.csv", *keys)
    want = predicted(run, folder / "texts.csv")
    assert json.loads(want.splitlines()[3])["id"] == "k3"
    for name, write in BY_NAME.items():
        if write in (write_npz, write_arff):
            continue
        write(folder / f"texts-{name}", ["tags", "body", "key"], held)
        assert predicted(run, folder / f"texts-{name}") == want, name
        write(folder / f"texts-{name}", ["bodi", "key"], held | {"bodi": bodies})
        said = refused(run, folder / f"texts-{name}")
        assert "is called 'body': did you mean 'bodi'" in said
        assert predicted(run, folder / f"texts-{name}", "--text", "bodi") == want
    (folder / "plain.txt").write_text("\n".join(bodies) + "\n")
    assert without_ids(predicted(run, folder / "plain.txt")) == without_ids(want)
    write_jsonl(folder / "null.jsonl", ["body"], {"body": [None, "a"]})
    assert "line 1: the text must be a string" in refused(run, folder / "null.jsonl")


def test_training_and_predicting_refuse_the_same(run, folder, refused, predicted):
    for name, text, what in (
        ("short", "a,b,c\n1,2\n", "line 2: expected 3 cells, got 2"),
        ("long", "a,b,c\n1,2,3,4\n", "line 2: expected 3 cells, got 4"),
        ("under", "a,b,c\n1_0,2,3\n", "must hold numbers, got '1_0'"),
        ("twice", "a,b,c,a\n1,2,3,4\n", "column 'a' appears twice"),
        ("latin", "a,b,c\n1,2,\xe9\n", "line 2"),
        ("quote", 'a,b,c\n1,2,"3\n', "line 2"),
    ):
        path = folder / f"{name}.csv"
        path.write_bytes(text.encode("latin-1"))
        said = refused(run, path)
        assert what in said, said
        assert str(path) in said
        assert main(["train", str(path), "--data", "labels=1", "--out", str(folder / "no")]) == 2
    (folder / "x.csv").write_text("a,b,c\n1,2,3\n")
    assert "no key is called 'separater'" in refused(run, folder / "x.csv", "--data", "separater=,")
    (folder / "y.csv").write_bytes("﻿ a , b,c\n1,NA,3\n".encode())
    assert len(predicted(run, folder / "y.csv").splitlines()) == 1


def test_a_row_with_a_header_of_its_own_is_a_row(run, folder, predicted):
    rows = [{"a": 1, "b": 2, "c": 3, "header": "news"}] * 3
    (folder / "h.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    assert len(predicted(run, folder / "h.jsonl").splitlines()) == 3


def test_the_scale_and_the_digits_of_numbers_are_remembered(folder, predicted, refused):
    g = np.random.default_rng(3)
    x = g.integers(0, 256, size=(N, 4), dtype=np.uint8)
    y = (x[:, :2] > 120).astype(int)
    np.savez(folder / "u.npz", X=x, X_scale=np.float32(1 / 255), Y=y)
    run = train(folder, folder / "u.npz")
    want = predicted(run, folder / "u.npz")
    np.save(folder / "u.npy", x)
    assert predicted(run, folder / "u.npy") == want
    np.save(folder / "uf.npy", x.astype(np.float32) * np.float32(1 / 255))
    assert predicted(run, folder / "uf.npy") == want
    np.save(folder / "raw.npy", x.astype(np.float32))
    assert "trained on uint8 numbers times 0.0039" in refused(run, folder / "raw.npy")
    big = 1.7e9 + g.integers(0, 10_000, size=(N, 2)).astype(float)
    np.savez(folder / "big.npz", X=big, Y=(big > 1.7e9 + 5000).astype(int))
    run = train(folder, folder / "big.npz")
    want = predicted(run, folder / "big.npz")
    assert len({line.partition("names")[2] for line in want.splitlines()}) > 2
    np.save(folder / "big.npy", big)
    with (folder / "big.jsonl").open("w") as file:
        file.writelines(json.dumps({"features": row}) + "\n" for row in big.tolist())
    for name in ("big.npy", "big.jsonl"):
        assert predicted(run, folder / name) == want, name


def test_svmlight_rows_are_numbered_as_in_training(folder, predicted, refused):
    g = np.random.default_rng(5)
    with (folder / "s.svm").open("w") as file:
        for _ in range(100):
            at = np.sort(g.choice(6, size=3, replace=False))
            file.write(f"{int(at[0] == 0)} " + " ".join(f"{j}:1" for j in at) + "\n")
    run = train(folder, folder / "s.svm")
    (folder / "part.svm").write_text("0 1:1 2:1\n0 2:1 4:1\n")  # 0 does not occur
    (folder / "part0.svm").write_text("0 1:1 2:1\n0 2:1 4:1\n0 0:1\n")
    got = predicted(run, folder / "part.svm")
    assert got == "".join(predicted(run, folder / "part0.svm").splitlines(True)[:2])
    (folder / "wide.svm").write_text("0 1:1 9:1\n")
    assert "feature numbers must lie in 0..5" in refused(run, folder / "wide.svm")


def test_words_of_an_arff_file_are_those_of_training(folder, predicted):
    labels = "@attribute l1 {{0,1}}\n@attribute l2 {{0,1}}\n"
    head = "@relation r\n{}\n@attribute x numeric\n" + labels + "@data\n"
    g = np.random.default_rng(6)
    colours = g.choice(["red", "green", "blue"], size=90).tolist()
    x = g.normal(size=90).round(3)
    rows = [f"{c},{v},{int(c == 'red')},{int(v > 0)}\n" for c, v in zip(colours, x, strict=True)]
    (folder / "w.arff").write_text(
        head.format("@attribute colour {green,red,blue}") + "".join(rows)
    )
    run = train(folder, folder / "w.arff", "labels=2")
    want = predicted(run, folder / "w.arff")
    for declared in ("{blue,red,green}", "{red,violet,green,blue}"):
        (folder / "w2.arff").write_text(
            head.format(f"@attribute colour {declared}") + "".join(rows)
        )
        assert predicted(run, folder / "w2.arff") == want


def test_a_folder_of_pictures_is_read_as_in_training(folder, predicted, refused):
    image = pytest.importorskip("PIL.Image")
    g = np.random.default_rng(7)

    def pictures(place, grey, size=8):
        place.mkdir()
        rows = []
        for at in range(40):
            bright = int(g.integers(0, 2))
            block = g.integers(0, 60, size=(size, size, 3)) + 150 * bright
            picture = image.fromarray(block.astype(np.uint8))
            (picture.convert("L") if grey else picture).save(place / f"{at}.png")
            rows.append([f"{at}.png", bright, 1 - bright])
        with (place / "names.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["file", "bright", "dark"], *rows])

    pictures(folder / "colour", grey=False)
    run = train(folder, folder / "colour")
    want = predicted(run, folder / "colour")
    assert len(want.splitlines()) == 40
    shutil.copytree(folder / "colour", folder / "bare")
    (folder / "bare" / "names.csv").write_text(
        "file\n" + "".join(f"{at}.png\n" for at in range(40))
    )
    assert predicted(run, folder / "bare") == want
    (folder / "bare" / "names.csv").unlink()
    (folder / "bare" / "more").mkdir()
    (folder / "bare" / "7.png").rename(folder / "bare" / "more" / "7.png")
    alone = [json.loads(line) for line in predicted(run, folder / "bare").splitlines()]
    due = {f"{at}.png": json.loads(line) for at, line in enumerate(want.splitlines())}
    due["more/7.png"] = due.pop("7.png")
    assert [row["id"] for row in alone] == sorted(due)
    assert all(row["probabilities"] == due[row["id"]]["probabilities"] for row in alone)
    (folder / "bare" / "5.png").write_bytes(b"no picture")
    assert "5.png: damaged" in refused(run, folder / "bare")
    fewer = predicted(run, folder / "bare", "--data", "drop_broken=true").splitlines()
    assert [json.loads(line)["id"] for line in fewer] == sorted({*due} - {"5.png"})
    (folder / "empty").mkdir()
    assert "neither a CSV file nor pictures" in refused(run, folder / "empty")
    pictures(folder / "grey", grey=True)
    assert len(predicted(run, folder / "grey").splitlines()) == 40
    pictures(folder / "large", grey=False, size=9)
    assert "give image_size" in refused(run, folder / "large")
    predicted(run, folder / "large", "--data", "image_size=8")


def test_names_with_bars_can_be_told_apart_and_are_no_formulas(folder, predicted):
    x = numbers()
    y = np.stack([x[:, 0] > 0, x[:, 0] > 0, x[:, 0] <= 0], axis=1)
    labels = ["a|b", "c\\", "=cmd()"]
    ids = np.array([f"+{i}" for i in range(N)])
    np.savez(folder / "bars.npz", X=x, Y=y.astype(int), label_names=labels, ids=ids)
    run = train(folder, folder / "bars.npz")
    rows = list(csv.reader(io.StringIO(predicted(run, folder / "bars.npz", "--to", "csv"))))
    assert rows[0] == ["row", "id", "labels", "probabilities"]
    assert {row[2] for row in rows[1:]} >= {"a\\|b|c\\\\", "'=cmd()"}
    assert rows[1][1] == "'+0"
    assert SavedModel.open(run).names == labels


# ---- other label sets than the rule's ------------------------------------------------------------


def test_top_and_thresholds_take_the_place_of_the_rule(run, folder, table, capsys):
    source = folder / "bounds.csv"
    write_csv(source, ["key", *COLUMNS], table)

    def rows(*more):
        assert main(["predict", run, str(source), *more]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    p = [dict(zip(r["names"], r["probabilities"], strict=True)) for r in rows("--threshold", "0")]
    assert all(set(each) == {"on", "off"} for each in p)
    for row, each in zip(rows("--top", "1"), p, strict=True):
        assert row["names"] == [max(each, key=each.get)]
    for row, each in zip(rows("--top", "2"), p, strict=True):
        assert row["names"] == sorted(each, key=each.get, reverse=True)
    for row, each in zip(rows("--top", "1", "--threshold", "0.6"), p, strict=True):
        best = max(each, key=each.get)
        assert row["names"] == ([best] if each[best] >= 0.6 else [])
    ruled = [{*row["names"]} for row in rows()]
    for row, each, before in zip(rows("--threshold", "off=0.2"), p, ruled, strict=True):
        assert {*row["names"]} - {"off"} == before - {"off"}
        assert ("off" in row["names"]) == (each["off"] >= 0.2)


def written(path):
    """What a file of predictions holds: ids, names of the labels, and their probabilities."""
    if path.suffix == ".parquet":
        rows = parquet.read_table(path).to_pylist()
        return [(row["id"], row["labels"], row["probabilities"]) for row in rows]
    if path.suffix == ".npz":
        held = np.load(path)
        return [
            (str(name), held["names"][on == 1].tolist(), p[on == 1].tolist())
            for name, on, p in zip(held["ids"], held["labels"], held["probabilities"], strict=True)
        ]
    if path.suffix == ".jsonl":
        rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        return [(row["id"], row["names"], row["probabilities"]) for row in rows]
    lines = path.read_text(encoding="utf-8").splitlines()
    cells = csv.DictReader(lines, delimiter="\t" if path.suffix == ".tsv" else ",")
    return [
        (line["id"], *(list(filter(None, line[c].split("|"))) for c in ("labels", "probabilities")))
        for line in cells
    ]


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet", "npz"])
def test_the_ending_of_out_says_what_is_written(run, folder, table, tmp_path, form, capsys):
    source = folder / "ending.csv"
    write_csv(source, ["key", *COLUMNS], table)
    found = {}
    for kind in (form, "jsonl"):
        out = tmp_path / f"p.{kind}"
        assert main(["predict", run, str(source), "--out", str(out)]) == 0
        found[kind] = written(out)
    assert [name for name, *_ in found[form]] == table["key"]
    for (_, names, p), (_, wanted, chances) in zip(found[form], found["jsonl"], strict=True):
        assert names == wanted
        assert [float(value) for value in p] == pytest.approx(chances, abs=1e-6)
    sets = tmp_path / "p.npy"
    assert main(["predict", run, str(source), "--out", str(sets)]) == 0
    assert np.load(sets).sum(1).tolist() == [len(names) for _, names, _ in found[form]]


def test_an_ending_that_nothing_is_written_as_is_an_error(run, folder, table, tmp_path, capsys):
    source, out = folder / "ending.csv", tmp_path / "p.xlsx"
    write_csv(source, ["key", *COLUMNS], table)
    assert main(["predict", run, str(source), "--out", str(out)]) == 2
    assert ".parquet" in capsys.readouterr().err
    assert not out.exists()
    assert main(["predict", run, str(source), "--out", str(out), "--to", "csv"]) == 0
    assert out.read_text().startswith("row,id,labels")
    assert main(["predict", run, str(source), "--out", str(tmp_path / "plain")]) == 0
    assert json.loads((tmp_path / "plain").read_text().splitlines()[0])["id"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--threshold", "of=0.2"], "did you mean 'off'"),
        (["--threshold", "much"], "give a probability, 0.3, or one of a label"),
        (["--threshold", "2"], "give a probability"),
        (["--top", "0"], "--top must be at least 1"),
    ],
)
def test_wrong_bounds_are_said(given, said, run, folder, table, capsys):
    source = folder / "wrong.csv"
    write_csv(source, ["key", *COLUMNS], table)
    assert main(["predict", run, str(source), *given]) == 2
    assert said in capsys.readouterr().err
