"""Bad files: always one line, which names the file and, in text, the line."""

import csv
import errno
import gzip
import io
import json
import tempfile
import tokenize
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from labelset.data import inspect, load, reader
from labelset.data.reading import reading

ARFF = "@relation x\n@attribute a numeric\n@attribute b {0,1}\n@attribute l {0,1}\n@data\n1,0,1\n"
CSV = "a,b,l\n1,2,1\n"
ROW = '{"text": "a", "labels": [0]}\n'
LONG = gzip.compress(b"a,l\n" + b"1,0\n" * 5000)

TEXT = [
    # svmlight
    ("x.svm", "", "holds no rows"),
    ("x.svm", "0 1:1\n1 5:0.2 7:x\n", "line 2: expected a value, got 'x'"),
    ("x.svm", "0 1:1\n1 5:0.2 7\n", "line 2: expected feature:value, got '7'"),
    ("x.svm", "0 1:1\n1 5:0.2:3 4\n", "line 2: expected feature:value, got '5:0.2:3'"),
    ("x.svm", "0 1:1\n1 5: :3\n", "line 2: expected feature:value, got '5:'"),
    ("x.svm", "0 1:1\n1 5_0:1\n", "line 2: expected feature:value, got '5_0:1'"),
    ("x.svm", "0 1:1\n1 5:1 5:2\n", "line 2: feature 5 appears twice"),
    ("x.svm", "0 1:1\n1,1 5:1\n", "line 2: label 1 appears twice"),
    ("x.svm", "0 1:1\n-1 5:1\n", "line 2: label numbers must not be negative, got -1"),
    ("x.svm", "0 1:1\n1.5 5:1\n", "line 2: expected a label number, got '1.5'"),
    ("x.svm", "0 1:1\n1 5:inf\n", "line 2: values must be finite in float32, got inf"),
    ("x.svm", "0 1:1\n1 5:1e300\n", "line 2: values must be finite"),
    ("x.svm", "0 1:1\n1 99999999999999999999:1\n", "line 2: feature numbers must be at most"),
    ("x.svm", "0 1:1\n2000000000 1:1\n", "there is label number 2000000000, which"),
    (
        "x.svm",
        "0 1:1\n0 2000000000:1\n",
        "there is feature number 2000000000, which .* n_features=2",
    ),
    ("x.txt", "1 2000000000 1\n0 5:1\n", "there is feature number 1999999999, which is taken"),
    ("x.txt", "3 5 3\n0 0:1\n1 3:1\n", "its first line says 3 rows, 2 follow"),
    ("x.txt", "2 5 3\n0,4 0:1\n1 3:1\n", "line 2: label numbers must be at most 3, got 4"),
    ("x.txt", "2 5 3\n0 0:1\n1,3 3:1\n", "line 3: label numbers must lie in 0..2"),
    ("x.txt", "2 5 3\n0 0:1\n1 5:1\n", "line 3: feature numbers must lie in 0..4"),
    # ARFF
    ("x.arff", "", "is empty"),
    ("x.arff", "hello\n", "line 1: expected @relation, @attribute or @data, got 'hello'"),
    ("x.arff", "@relation r\n@attribute a numeric\n", "line 2: the file ends before @data"),
    ("x.arff", "@attribute a\n@data\n", "line 1: expected @attribute NAME TYPE"),
    ("x.arff", "@attribute a {0,1\n@data\n", "line 1: the values of attribute 'a' do not end"),
    ("x.arff", "@attribute a fancy\n@data\n", "line 1: attribute 'a' has type 'fancy'"),
    ("x.arff", ARFF[:-6], "holds no rows"),
    ("x.arff", ARFF + "1,0\n", "line 7: expected 3 cells, got 2"),
    ("x.arff", ARFF + "x,0,1\n", "line 7: attribute 'a': expected a number, got 'x'"),
    ("x.arff", ARFF + "1_0,0,1\n", "line 7: attribute 'a': expected a number, got '1_0'"),
    ("x.arff", ARFF + "1,2,1\n", "line 7: attribute 'b': expected one of 0, 1, got '?2"),
    ("x.arff", ARFF + "1,?,7\n", "line 7: attribute 'l': expected one of 0, 1, got '7'"),
    ("x.arff", ARFF + "1e60,0,1\n", "line 7: attribute 'a' must be finite in float32"),
    ("x.arff", ARFF + "1,0,'1\n", "line 7: cannot read .* a quote is not closed"),
    ("x.arff", ARFF + "{0 1}\n", "line 7: sparse and dense rows in one file"),
    ("x.arff", ARFF[:-6] + "{0 1\n", "line 6: a sparse row does not end with }"),
    ("x.arff", ARFF[:-6] + "{3 1}\n", "line 6: expected an attribute number in 0..2, got '3'"),
    ("x.arff", ARFF[:-6] + "{0 1,0 2}\n", "line 6: an attribute appears twice"),
    ("x.arff", ARFF[:-6] + "{0 1 1,2}\n", "line 6: attribute 'a': expected a number, got '1 1'"),
    ("x.arff", ARFF[:-6] + "{+0 1}\n", "line 6: expected an attribute number in 0..2, got .+0"),
    ("x.arff", ARFF[:-6] + "{0 1_0}\n", "line 6: attribute 'a': expected a number, got '1_0'"),
    ("x.arff", ARFF[:-6] + "{0 1,1 2}\n", "line 6: attribute 'b': expected one of 0, 1, got '?2"),
    ("x.arff", ARFF[:-6] + "{0}\n", "line 6: attribute 'a': expected a number, got ''"),
    ("x.arff", ARFF.replace("l {0,1}", "l {1,0}")[:-6] + "{0 1}\n", "leave out '1', not 0"),
    ("x.arff", ARFF.replace("b {", "a {"), "column 'a' appears twice"),
    # CSV
    ("x.csv", "", "is empty"),
    ("x.csv", "\n\n", "is empty"),
    ("x.csv", "a,b,l\n", "holds no rows"),
    ("x.csv", CSV + "1,2\n", "line 3: expected 3 cells, got 2"),
    ("x.csv", CSV + "oops,2,1\n", "line 3: column 'a' must hold numbers, got 'oops'"),
    ("x.csv", CSV + "1,2,maybe\n", "line 3: column 'l': a label must be 0 or 1 .* got 'maybe'"),
    ("x.csv", CSV + "1,2,2\n", "line 3: column 'l': a label must be 0 or 1"),
    ("x.csv", CSV + "2020_01,2,1\n", "line 3: column 'a' must hold numbers, got '2020_01'"),
    ("x.csv", CSV + "1,2,0_1\n", "line 3: column 'l': a label must be 0 or 1"),
    ("x.csv", CSV + "1,inf,1\n", "line 3: column 'b' must be finite"),
    ("x.csv", CSV + '1,"2,1\n', "line 3: a quote that opens in this row is never closed"),
    ("x.csv", "a,a,l\n1,2,1\n", "column 'a' appears twice, at 0 and 1"),
    # jsonl
    ("x.jsonl", "", "holds no rows"),
    ("x.jsonl", ROW + '{"text": "b"}\n', "line 2: lacks `labels`, line 1 has it"),
    ("x.jsonl", ROW + '{"text": 3, "labels": []}\n', "line 2: the text must be a string, got int"),
    ("x.jsonl", ROW + '{"text": "b", "labels": [-1]}\n', "line 2: label numbers must lie in 0..0"),
    ("x.jsonl", ROW + '{"text": "b", "labels": [0.5]}\n', "line 2: .* got float 0.5"),
    ("x.jsonl", ROW + '{"text": "b", "labels": [0, 0]}\n', "line 2: label 0 appears twice"),
    ("x.jsonl", ROW + "{oops}\n", "line 2: not JSON"),
    ("x.jsonl", "[" * 100_000, "line 1: not JSON"),
    ("x.jsonl", '{"labels": [999999999999]}\n', "line 1: label numbers must lie in"),
    ("x.jsonl", '{"header": true, "label_names": ["a", "a"]}\n' + ROW, "'a' appears twice"),
    ("x.jsonl", '{"labels": [0], "split": 7}\n', "line 1: split must be train, valid or test"),
    ("x.jsonl", '{"labels": [0], "features": [1]}\n{"labels": [0], "features": [1, 2]}', "line 2"),
    # others
    ("x.toml", "data = \n", "Invalid value"),
    ("x.toml", "labels = 3\n", "names no file with train rows"),
    ("x.xyz", "1", "cannot read .xyz files"),
]


@pytest.mark.parametrize(("name", "text", "message"), TEXT, ids=range(len(TEXT)))
def test_bad_text_files(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    table = name.endswith(("csv", "arff"))
    refused(tmp_path / name, message, **({"labels": 1} if table else {}))


def refused(path, message, **flags):
    with pytest.raises(ValueError, match=message) as caught:
        load(path, **flags)
    assert str(caught.value).startswith(str(path)), caught.value
    assert "\n" not in str(caught.value)


BYTES = [
    ("x.csv", b"a,l\n1,1\n\xe9,1\n", "line 3: damaged or not a .csv file in UTF-8"),
    ("x.csv", "a,l\n1,1\n".encode("utf-16"), "is UTF-16 text; save the file as UTF-8"),
    ("x.csv.gz", LONG[: len(LONG) // 2], "damaged or not a .csv file"),
    ("x.csv.gz", LONG[:5], "damaged or not a .csv file"),
    ("x.svm.gz", b"0 1:1\n", "damaged or not a .svm file"),
    ("x.arff", b"\x00\x01\xff", "line 1: "),
    ("x.npz", b"", "damaged or not a .npz file"),
    ("x.npz", b"PK\x03\x04", "damaged or not a .npz file"),
    ("x.npy", b"", "damaged or not a .npy file"),
    ("x.npy.gz", b"\x1f\x8b", "not read compressed; unpack it first"),
    ("x.parquet.zst", b"\x28\xb5\x2f\xfd", "not read compressed; unpack it first"),
    ("x.csv.xz", b"not xz", "damaged or not a .csv file"),
    ("x.csv.zst", b"not zst", "damaged or not a .csv file"),
    ("x.npy", b"\x93NUMPY\x01\x00", "x.npy: "),
]


@pytest.mark.parametrize(("name", "content", "message"), BYTES, ids=range(len(BYTES)))
def test_bad_bytes(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    refused(tmp_path / name, message, labels=1)


WIDE = {"csv": "a,l\n1,1\n", "jsonl": ROW, "arff": ARFF, "svm": "0 1:1\n1 2:1\n"}


@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize(
    "code", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
)
def test_wide_characters_are_named_with_a_remedy(tmp_path, kind, code):
    (tmp_path / f"x.{kind}").write_bytes(WIDE[kind].encode(code))
    want = "UTF-" + code[4:].replace("-", "").upper()
    refused(tmp_path / f"x.{kind}", rf"line 1: is UTF-{code[4:6]} text; .*iconv -f {want} -t UTF-8")


EYE = np.eye(3)
CSR = {"Y_indptr": [0, 1, 2, 3], "Y_indices": [0, 1, 2], "Y_shape": [3, 3]}
ARRAYS = [
    ({"X": EYE}, "holds no labels"),
    ({"X": EYE, "Y": EYE[:2]}, "holds 3 and 2 rows of inputs and labels"),
    ({"X": EYE, "Y": 2 * EYE}, r"labels must lie in \[0, 1\]"),
    ({"X": np.where(EYE, np.inf, 0), "Y": EYE}, "got inf at row 0, feature 0"),
    ({"X": EYE, "Y": EYE, "label_names": ["a", "b"]}, "has 2 names for 3 labels"),
    ({"X": EYE, "Y": EYE, "label_names": ["a", "b", "b"]}, "'b' appears twice, at 1 and 2"),
    ({"X": EYE, "Y": EYE, "split": [0, 1, 5]}, "row 2: split must be"),
    ({"X": EYE, "Y": EYE, "split": [0, 1]}, "2 rows of split"),
    ({"X": EYE.astype(complex), "Y": EYE}, "features must be numbers, got complex128"),
    ({"X": EYE[0], "Y": EYE}, r"features must be 2-D .* got shape \(3,\)"),
    ({"X": EYE, **CSR, "Y_indices": [0, 1, 5]}, "label numbers must lie in 0..2"),
    ({"X": EYE, **CSR, "Y_indptr": [0, 1, 2, 9]}, "indptr must run from 0 to 3"),
    ({"X": EYE, **CSR, "Y_shape": [4, 3]}, "Y_shape says 4 rows, Y_indptr 3"),
    (
        {"X_indptr": [0, 1, 2, 3], "X_indices": [0, 1, 7], "X_shape": [3, 3], "Y": EYE},
        "got 7 in row",
    ),
    ({"X_indptr": [0, 1, 2, 3], "X_indices": [0.0, 1, 2], "X_shape": [3, 3], "Y": EYE}, "whole"),
    ({"X_indptr": [0, 1, 2, 3], "Y": EYE}, "X_indptr without X_indices"),
    ({"X_indptr": [0, 1, 2, 3], "X_indices": [0, 1, 2], "Y": EYE}, "add X_shape"),
    (
        {**{f"X{key[1:]}": v for key, v in CSR.items()}, "X_shape": [3, 10**9], "Y": EYE},
        "there is feature number 999999999, which is taken for a mistake; .* n_features=1000000000",
    ),
    ({"format": np.array(b"dia"), "shape": np.array([3, 3])}, "scipy matrix in dia form"),
]


@pytest.mark.parametrize(("arrays", "message"), ARRAYS, ids=range(len(ARRAYS)))
def test_bad_arrays(tmp_path, arrays, message):
    np.savez(tmp_path / "x.npz", **arrays)
    refused(tmp_path / "x.npz", message)


@pytest.mark.parametrize("cell", ['["a", "b"', "['a', 'b", '["a" "b]', '[{"name": "a"}, {"name"}]'])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_broken_list_is_no_name(tmp_path, cell, kind):
    rows, path = {"x": [1.0, 2.0], "tags": ['["a"]', cell]}, tmp_path / f"x.{kind}"
    if kind == "parquet":
        parquet.write_table(pa.table(rows), path)
    elif kind == "jsonl":
        lines = [
            json.dumps({"x": x, "labels": tags}) for x, tags in zip(*rows.values(), strict=True)
        ]
        path.write_text("\n".join(lines))
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([rows.keys(), *zip(*rows.values(), strict=True)])
    named = {} if kind == "jsonl" else {"label_column": "tags"}
    refused(path, "line [23]: `labels` starts like a list, which is not closed", **named)


def test_pickles_are_refused(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.array([{}, 1], dtype=object), Y=EYE)
    refused(tmp_path / "x.npz", "X holds Python objects; save numbers")
    np.save(tmp_path / "x.npy", np.array([{}, 1], dtype=object))
    refused(tmp_path / "x.npy", "holds Python objects", labels=str(tmp_path / "x.npy"))


@given(st.data())
def test_damaged_npz_files_never_crash(data):
    buffer = io.BytesIO()
    np.savez(buffer, X=EYE, **CSR)
    raw = bytearray(buffer.getvalue())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    survives("x.npz", bytes(raw[: data.draw(st.integers(1, len(raw)))]))


@given(st.sampled_from(["csv", "svm", "arff", "jsonl"]), st.data())
def test_damaged_text_files_never_crash(kind, data):
    whole = {"csv": CSV, "svm": "2 5 3\n0,1 0:1\n2 4:2\n", "arff": ARFF, "jsonl": ROW + ROW}[kind]
    at = data.draw(st.integers(0, len(whole)))
    inserted = data.draw(st.text(alphabet="0123456789.,:{}[]'\"%@#?-| \n\r\t\0eé_ax", max_size=8))
    cut = data.draw(st.integers(0, 5))
    survives(f"x.{kind}", (whole[:at] + inserted + whole[at + cut :]).encode())


def survives(name, content):
    """Read or refused, in one line that names the file; and what is read can be inspected."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        said = str(path)
        try:
            found = load(path, labels=1) if name.endswith(("csv", "arff")) else load(path)
            assert str(inspect(found))
        except ValueError as error:
            said = str(error)
        assert said.startswith(str(path))
        assert "\n" not in said


def test_large_numbers_in_small_files_take_no_memory(tmp_path):
    (tmp_path / "x.svm").write_text("0 2000000000:1\n1 5:1\n")
    tracemalloc.start()
    data = load(tmp_path / "x.svm", n_features=2_000_000_000)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
    assert data.features.width == 2_000_000_000


def named_differently(kind):
    """An error of a class that nobody here knows."""
    return type("Strange", (kind,), {})("std::words of a library")


LIBRARY = [
    *(named_differently(kind) for kind in (Exception, ValueError, TypeError, AttributeError)),
    *(
        tokenize.TokenError("EOF", (2, 0)),
        csv.Error("new-line"),
        SyntaxError("invalid"),
        KeyError(1),
    ),
    UnicodeDecodeError("utf-8", b"\xa2", 0, 1, "invalid start byte"),
    *(OSError(22, "Invalid argument"), RuntimeError("bad_alloc"), RecursionError("too deep")),
]


@pytest.mark.parametrize("error", LIBRARY, ids=repr)
@pytest.mark.parametrize("path", [Path("x.npz"), Path("-")])
def test_no_words_of_a_library_reach_the_user(path, error):
    due = "standard input: damaged or not such a file" if str(path) == "-" else "x.npz: damaged or"
    with pytest.raises(ValueError, match=f"^{due}.*; .* it again$") as caught, reading(path):
        raise error
    assert str(error) not in str(caught.value)


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "is full"), PermissionError(13, "is full")]
)
def test_what_the_disk_says_is_told(error):
    with pytest.raises(ValueError, match=r"x.csv: .* read \(is full\)"), reading(Path("x.csv")):
        raise error


def test_mistakes_of_our_own_are_not_called_damage(tmp_path, monkeypatch):
    monkeypatch.delattr(reader, "_schema")
    (tmp_path / "x.csv").write_text(CSV)
    with pytest.raises(NameError):
        load(tmp_path / "x.csv", labels=1)


def test_names_that_nobody_knows():
    with pytest.raises(ValueError, match=r"digit: no such file .*did you mean 'digits'"):
        load("digit")
    with pytest.raises(
        TypeError, match="'digits' has no hyperparameter 'sed': did you mean 'seed'"
    ):
        load("digits", sed=1)
