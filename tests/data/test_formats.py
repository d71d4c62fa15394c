"""Every format, written by someone else where someone else writes it."""

import gzip
import json

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from labelset import Labels
from labelset.data import SparseRows, load

NAN = float("nan")
RNG = np.random.default_rng(1)
X = np.round(RNG.normal(size=(12, 5)), 3).astype(np.float32)
Y = (RNG.random((12, 4)) > 0.6).astype(int)
SPLIT = np.array([0] * 7 + [1] * 2 + [2] * 3)


def check(data, features=X, labels=Y):
    dense = data.features.dense() if isinstance(data.features, SparseRows) else data.features
    assert np.allclose(dense, features, equal_nan=True)
    assert data.labels == Labels.from_dense(labels)
    return data


# ---- npz and npy ---------------------------------------------------------------------------------


def test_npz_dense(tmp_path):
    card = json.dumps({"source": "a field", "licence": "free"})
    names = ["a", "b", "c", "d"]
    np.savez(tmp_path / "d.npz", X=X, Y=Y, split=SPLIT, label_names=names, card=card)
    data = check(load(tmp_path / "d.npz"))
    assert data.sizes() == (7, 2, 3)
    assert data.names == names
    assert data.card["about"]["licence"] == "free"


def test_npz_csr_with_unknowns(tmp_path):
    x, y = scipy.sparse.csr_matrix(X), scipy.sparse.csr_matrix(Y)
    free = scipy.sparse.csr_matrix((1 - Y) * (RNG.random(Y.shape) > 0.5))
    arrays = {
        **{f"X_{k}": getattr(x, k) for k in ("indptr", "indices", "data", "shape")},
        **{f"Y_{k}": getattr(y, k) for k in ("indptr", "indices", "shape")},
        **{f"U_{k}": getattr(free, k) for k in ("indptr", "indices")},
    }
    np.savez(tmp_path / "s.npz", **arrays)
    want = np.where(free.toarray() > 0, NAN, Y)
    assert isinstance(check(load(tmp_path / "s.npz"), labels=want).features, SparseRows)
    del arrays["X_data"]
    np.savez(tmp_path / "ones.npz", **arrays)
    check(load(tmp_path / "ones.npz"), features=X != 0, labels=want)


def test_npz_scaled_bytes_images_and_embeddings(tmp_path):
    small = RNG.integers(0, 16, (12, 5), dtype=np.uint8)
    np.savez(tmp_path / "u.npz", X=small, X_scale=np.float32(1 / 15), Y=Y)
    check(load(tmp_path / "u.npz"), features=small / 15)
    pictures = RNG.integers(0, 256, (12, 6, 7), dtype=np.uint8)
    np.savez(tmp_path / "p.npz", X=pictures, Y=Y)
    data = load(tmp_path / "p.npz")
    assert data.features is None
    assert data.images.dtype == torch.uint8
    assert np.array_equal(data.images[:, 0], pictures)
    np.savez(tmp_path / "p.npz", X=pictures, Y=Y, X_scale=np.float32(1 / 255))
    assert np.allclose(load(tmp_path / "p.npz").images[:, 0], pictures / 255)
    embedded = RNG.integers(-128, 128, (12, 5), dtype=np.int8)
    np.savez(tmp_path / "e.npz", E=embedded, scale=np.float32(0.01))
    np.save(tmp_path / "y.npy", Y)
    check(load(tmp_path / "e.npz", labels=tmp_path / "y.npy"), features=embedded * 0.01)


def test_npz_other_labels_under_another_key(tmp_path):
    np.savez(tmp_path / "k.npz", X=X, Y=Y, Yleft=1 - Y)
    check(load(tmp_path / "k.npz", label_key="Yleft"), labels=1 - Y)
    with pytest.raises(ValueError, match="holds neither Yright nor Yright_indptr; it holds X, Y"):
        load(tmp_path / "k.npz", label_key="Yright")


def test_npy_pairs_and_the_mark_of_unknown(tmp_path):
    np.save(tmp_path / "x.npy", X.astype(">f8"))
    np.save(tmp_path / "y.npy", np.where(Y == 0, -1, Y))
    want = np.where(Y == 0, NAN, Y)
    check(load(tmp_path / "x.npy", labels=tmp_path / "y.npy", unknown=-1), labels=want)
    np.save(tmp_path / "s.npy", SPLIT)
    data = load(tmp_path / "x.npy", labels=tmp_path / "y.npy", unknown=-1, split=tmp_path / "s.npy")
    assert data.sizes() == (7, 2, 3)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_scipys_own_files(tmp_path, form):
    scipy.sparse.save_npz(tmp_path / "x.npz", scipy.sparse.csr_matrix(X).asformat(form))
    scipy.sparse.save_npz(tmp_path / "y.npz", scipy.sparse.csr_matrix(Y).asformat(form))
    data = load(tmp_path / "x.npz", labels=tmp_path / "y.npz")
    assert isinstance(check(data).features, SparseRows)


# ---- svmlight ------------------------------------------------------------------------------------


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("name", ["a.svm", "a.svm.gz"])
def test_svmlight_written_by_sklearn(tmp_path, zero_based, name):
    plain = tmp_path / "plain"
    x, y = X.copy(), Y.copy()
    x[0, 0] = x[1, 4] = 1.5  # so that the first and last feature occur
    y[0, 0] = y[1, 3] = 1
    dump_svmlight_file(x, y, str(plain), zero_based=zero_based, multilabel=True)
    text = plain.read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    data = load(tmp_path / name)
    check(data, features=x, labels=y)
    theirs, lists = load_svmlight_file(str(plain), multilabel=True)
    assert np.allclose(data.features.dense(), theirs.toarray())
    ours = [data.labels[i].indices.tolist() for i in range(12)]
    assert ours == [[int(label) for label in row] for row in lists]
    assert any(f"features count from {0 if zero_based else 1}" in n for n in data.card["notes"])


def test_svmlight_bases_can_be_forced(tmp_path):
    (tmp_path / "f.svm").write_text("1 1:2 3:4\n2 2:1\n")
    guessed = load(tmp_path / "f.svm")
    assert guessed.features.shape == (2, 3)
    assert guessed.labels.n == 2
    forced = load(tmp_path / "f.svm", base=0, label_base=0, n_features=6, labels=5)
    assert forced.features.dense().tolist() == [[0, 2, 0, 4, 0, 0], [0, 0, 1, 0, 0, 0]]
    assert forced.labels.dense().tolist() == [[0, 1, 0, 0, 0], [0, 0, 1, 0, 0]]


def test_extreme_classification_files(tmp_path):
    (tmp_path / "x.txt").write_text("4 6 9\n1,8 1:0.5 4:1\n 0:2\n\n3 5:1\n")
    data = load(tmp_path / "x.txt")
    assert data.features.shape == (4, 6)
    assert data.labels == Labels.from_lists([[1, 8], [], [], [3]], n=9)
    assert data.features.dense()[1].tolist() == [2, 0, 0, 0, 0, 0]
    (tmp_path / "one.txt").write_text("2 3 2\n1,2 1:1 3:1\n2 2:1\n")
    assert load(tmp_path / "one.txt").labels == Labels.from_lists([[0, 1], [1]], n=2)


def test_svmlight_comments_blank_lines_and_crlf(tmp_path):
    text = "\ufeff# a comment\r\n0,2 1:1 # why\r\n\r\n1 2:1\r\n\r\n\r\n"
    (tmp_path / "c.svm").write_text(text, newline="")
    assert load(tmp_path / "c.svm").labels == Labels.from_lists([[0, 2], [1]], n=3)


def test_train_and_test_files_are_numbered_alike(tmp_path):
    (tmp_path / "tr.svm").write_text("2 1:1\n1 4:1\n")
    (tmp_path / "te.svm").write_text("0 1:1 7:2\n")  # label 0 and feature 7 occur only here
    data = load(tmp_path / "tr.svm", test=tmp_path / "te.svm")
    assert data.features.shape == (3, 7)
    assert data.labels == Labels.from_lists([[2], [1], [0]], n=3)
    assert data.split.tolist() == [0, 0, 2]


# ---- ARFF ----------------------------------------------------------------------------------------

HEAD = """% a comment
@RELATION 'toy: -C {count}'

@ATTRIBUTE "first one" NUMERIC
@attribute colour {{red, 'dark green', blue}}
@attribute flag {{0,1}}
@attribute 'it\\'s' {{0, 1}}
@attribute l2 {{no,yes}}
@DATA
"""
DENSE = "1.5, 'dark green', 1, 1, no\n?,blue,0,?,YES\n% between\n-2,red,0,0,?\n\n"
FEATURES = [[1.5, 1, 0, 1], [NAN, 0, 1, 0], [-2, 0, 0, 0]]
LABELS = [[1, 0], [NAN, 1], [0, NAN]]


def test_dense_arff(tmp_path):
    path = tmp_path / "d.arff"
    path.write_text(HEAD.format(count=-2) + DENSE.replace("YES", "yes"))
    data = check(load(path), features=FEATURES, labels=LABELS)
    assert data.names == ["it's", "l2"]
    assert "at the end" in data.card["notes"][0]
    check(load(path, labels=2), features=FEATURES, labels=LABELS)
    check(load(path, labels=-2, labels_at="end"), features=FEATURES, labels=LABELS)
    check(load(path, label_columns=["it's", "l*"]), features=FEATURES, labels=LABELS)


def test_sparse_arff_with_mulans_xml(tmp_path):
    rows = "{0 1.5, 1 'dark green', 2 1,3 1}\n{1 blue, 4 yes}\n{0 -2}\n{ }\n"
    (tmp_path / "s.arff").write_text(HEAD.format(count=0) + rows)
    xml = '<?xml version="1.0"?><labels xmlns="http://mulan.sourceforge.net/labels">'
    xml += '<label name="l2"><label name="it\'s"/></label></labels>'
    (tmp_path / "s.xml").write_text(xml)
    data = load(tmp_path / "s.arff", labels=tmp_path / "s.xml")
    assert data.names == ["l2", "it's"]
    want = [[1.5, 1, 0, 1], [0, 0, 1, 0], [-2, 0, 0, 0], [0, 0, 0, 0]]
    check(data, features=want, labels=[[0, 1], [1, 0], [0, 0], [0, 0]])
    assert isinstance(data.features, SparseRows)


def test_sparse_arff_of_numbers(tmp_path):
    head = "@relation r\n@attribute x real\n@attribute y real\n@attribute l {0,1}\n@data\n"
    rows = "{0 1.5,2 1}\n{ 1  -2e1 , 0 ?}\n{}\n{2 0, 1 3}\n"
    (tmp_path / "n.arff").write_text(head + rows)
    want = [[1.5, 0], [np.nan, -20], [0, 0], [0, 3]]
    check(load(tmp_path / "n.arff", labels=1), features=want, labels=[[1], [0], [0], [0]])


def test_mulans_train_and_test_files(tmp_path):
    head = "@relation r\n@attribute x real\n@attribute l {0,1}\n@data\n"
    (tmp_path / "tr.arff").write_text(head + "1,1\n2,0\n")
    (tmp_path / "te.arff").write_text(head + "3,1\n")
    (tmp_path / "l.xml").write_text('<labels><label name="l"/></labels>')
    data = load(tmp_path / "tr.arff", test=tmp_path / "te.arff", labels=tmp_path / "l.xml")
    check(data, [[1], [2], [3]], [[1], [0], [1]])
    assert data.split.tolist() == [0, 0, 2]
    (tmp_path / "te.arff").write_text(head.replace(" x ", " z ") + "3,1\n")
    with pytest.raises(ValueError, match=r"te\.arff: its attributes are not those of .*tr\.arff"):
        load(tmp_path / "tr.arff", test=tmp_path / "te.arff", labels=tmp_path / "l.xml")


def test_mekas_labels_come_first(tmp_path):
    text = "@relation 'x: -C 2 -S 0'\n@attribute a {0,1}\n@attribute b {0,1}\n@attribute c real\n"
    (tmp_path / "m.arff").write_text(text + "@data\n1,0,0.5\n0,1,1\n")
    for flags in ({}, {"labels": 2}, {"labels": 2, "labels_at": "start"}):
        data = load(tmp_path / "m.arff", **flags)
        check(data, features=[[0.5], [1]], labels=[[1, 0], [0, 1]])
        assert data.names == ["a", "b"]
    assert load(tmp_path / "m.arff", labels=1).names == ["c"]  # told otherwise: the last one


def test_dense_and_sparse_arff_agree(tmp_path):
    head = "@relation r\n" + "".join(f"@attribute x{i} numeric\n" for i in range(5))
    head += "".join(f"@attribute y{i} {{0,1}}\n" for i in range(4)) + "@data\n"
    table = np.concatenate([X, Y], axis=1)
    dense = "".join(",".join(f"{v:g}" for v in row) + "\n" for row in table)
    sparse = "".join(
        "{" + ", ".join(f"{i} {v:g}" for i, v in enumerate(row) if v) + "}\n" for row in table
    )
    (tmp_path / "d.arff").write_text(head + dense)
    (tmp_path / "s.arff").write_text(head + sparse)
    check(load(tmp_path / "d.arff", labels=4))
    check(load(tmp_path / "s.arff", labels=4))


def test_strings_in_arff_are_texts_if_told(tmp_path):
    text = "@relation r\n@attribute t string\n@attribute x real\n@attribute l {0,1}\n@data\n"
    (tmp_path / "t.arff").write_text(text + "'a, b',1,1\n\"it's\",2,0\n")
    data = load(tmp_path / "t.arff", labels=1, text_column="t", feature_columns=["x"])
    assert data.texts == ["a, b", "it's"]
    check(data, features=[[1], [2]], labels=[[1], [0]])
    assert load(tmp_path / "t.arff", labels=1).card["notes"] == ["columns left out: t"]


# ---- CSV -----------------------------------------------------------------------------------------


def test_csv_with_label_columns(tmp_path):
    path = tmp_path / "t.csv"
    rows = ['id,a,"b, b",y:one,y:zwölf,part', "r1,1,2.5,1,0,train", "r2,,nan,?,yes,dev"]
    path.write_bytes("\ufeff".encode() + "\r\n".join([*rows, "r3,-1,1e3,0.25,,test", ""]).encode())
    data = load(path, label_columns=["y:*"], id_column="id", split_column="part")
    check(data, [[1, 2.5], [NAN, NAN], [-1, 1000]], [[1, 0], [NAN, 1], [0.25, NAN]])
    assert data.names == ["y:one", "y:zwölf"]
    assert data.ids == ["r1", "r2", "r3"]
    assert data.split.tolist() == [0, 1, 2]


def test_csv_by_number_of_columns(tmp_path):
    (tmp_path / "n.csv").write_text("a,b,c\n1,0,1\n0,1,5\n")
    check(load(tmp_path / "n.csv", labels=2, labels_at="start"), [[1], [5]], [[1, 0], [0, 1]])
    data = load(tmp_path / "n.csv", label_columns=["b"], ignore_columns=["c"])
    check(data, [[1], [0]], [[0], [1]])
    assert data.card["notes"] == ["columns left out: c"]


def test_csv_without_a_header_and_with_another_separator(tmp_path):
    (tmp_path / "n.csv").write_text("1.5;0;1\n2.5;1;0\n")
    check(
        load(tmp_path / "n.csv", header=False, separator=";", labels=2),
        [[1.5], [2.5]],
        [[0, 1], [1, 0]],
    )
    (tmp_path / "n.tsv").write_text("x\ty\n1.5\t1\n")
    check(load(tmp_path / "n.tsv", labels=1), [[1.5]], [[1]])


def test_csv_with_one_column_of_labels(tmp_path):
    text = 'text,tags\n"many\nlines, ""quoted""",red|blue\nnone,\nwho knows,?\n'
    text += "again, blue |blue| grün\n"
    (tmp_path / "t.csv").write_text(text)
    data = load(tmp_path / "t.csv", text_column="text", label_column="tags")
    assert data.names == ["blue", "grün", "red"]
    assert data.texts[0] == 'many\nlines, "quoted"'
    want = [[1, 0, 1], [0, 0, 0], [NAN, NAN, NAN], [1, 1, 0]]
    assert data.labels == Labels.from_dense(want)
    (tmp_path / "b.csv").write_text("x,tags\n1,3 10\n2,2  3\n")
    blanks = load(tmp_path / "b.csv", label_column="tags", delimiter=" ")
    assert blanks.names == ["2", "3", "10"]
    check(blanks, [[1], [2]], [[0, 1, 1], [1, 1, 0]])


def test_names_given_fix_the_order_and_what_may_occur(tmp_path):
    (tmp_path / "t.csv").write_text("x,tags\n1,b\n2,a|c\n")
    (tmp_path / "names.txt").write_text("c\nb\na\nd\n\n")
    data = load(tmp_path / "t.csv", label_column="tags", label_names=str(tmp_path / "names.txt"))
    assert data.names == ["c", "b", "a", "d"]
    assert data.labels == Labels.from_lists([[1], [0, 2]], n=4)
    with pytest.raises(ValueError, match=r"t\.csv: line 3: label 'c' is not among the names"):
        load(tmp_path / "t.csv", label_column="tags", label_names=["a", "b"])


def test_csv_parts_share_their_vocabulary(tmp_path):
    for part, tags in (("a", "x|y"), ("b", "z"), ("c", "y")):
        (tmp_path / f"{part}.csv").write_text(f"f,tags\n1,{tags}\n")
    files = {"valid": tmp_path / "b.csv", "test": tmp_path / "c.csv"}
    data = load(tmp_path / "a.csv", label_column="tags", **files)
    assert data.names == ["x", "y", "z"]
    assert data.labels == Labels.from_lists([[0, 1], [2], [1]], n=3)
    assert data.split.tolist() == [0, 1, 2]


def test_labels_and_texts_from_tables_beside_the_features(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(2))
    (tmp_path / "y.csv").write_text("id,p,q\na,1,0\nb,?,1\n")
    data = load(tmp_path / "x.npy", labels=tmp_path / "y.csv", id_column="id")
    check(data, np.eye(2), [[1, 0], [NAN, 1]])
    assert (data.names, data.ids) == (["p", "q"], ["a", "b"])
    (tmp_path / "t.csv").write_text("body,tags\nhello,a\nyou,b|a\n")
    flags = {"text_column": "body", "label_column": "tags"}
    data = load(tmp_path / "x.npy", texts=tmp_path / "t.csv", labels=tmp_path / "t.csv", **flags)
    check(data, np.eye(2), [[1, 0], [1, 1]])
    assert data.texts == ["hello", "you"]


# ---- jsonl ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "ndjson"])
def test_jsonl(tmp_path, ending):
    header = {"header": True, "card": {"licence": "free"}, "label_names": ["p", "q", "r"]}
    rows = [
        {"id": "a", "split": "train", "labels": [0, 2], "text": "one\nzwei"},
        {"id": "b", "split": "test", "labels": [], "unknown": [1], "text": "😀"},
    ]
    text = "\n".join(json.dumps(row) for row in (header, *rows)) + "\n\n"
    opener = gzip.open if ending.endswith("gz") else open
    with opener(tmp_path / f"t.{ending}", "wt") as file:
        file.write(text)
    data = load(tmp_path / f"t.{ending}")
    assert data.labels == Labels.from_dense([[1, 0, 1], [0, NAN, 0]])
    assert (data.names, data.ids) == (["p", "q", "r"], ["a", "b"])
    assert data.texts == ["one\nzwei", "😀"]
    assert data.split.tolist() == [0, 2]
    assert data.card["about"] == {"licence": "free"}


def test_jsonl_with_names_and_other_keys(tmp_path):
    rows = [
        {"body": "a", "tags": ["x", "y"]},
        {"body": "b", "tags": []},
        {"body": "c", "tags": None},
    ]
    (tmp_path / "n.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    data = load(tmp_path / "n.jsonl", text_column="body", label_column="tags")
    assert data.names == ["x", "y"]
    assert data.labels == Labels.from_dense([[1, 1], [0, 0], [NAN, NAN]])


def test_jsonl_with_features(tmp_path):
    rows = [{"features": [1, 2.5], "labels": "a|b"}, {"features": [0, -1], "labels": "b"}]
    (tmp_path / "f.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    check(load(tmp_path / "f.jsonl"), [[1, 2.5], [0, -1]], [[1, 1], [0, 1]])


def test_features_from_one_file_and_labels_and_texts_from_another(tmp_path):
    np.savez(tmp_path / "e.npz", E=np.array([[2], [4]], dtype=np.int8), scale=np.float32(0.5))
    rows = [{"text": "a", "labels": [0], "split": 0}, {"text": "b", "labels": [1], "split": 2}]
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    data = load(tmp_path / "e.npz", labels=tmp_path / "t.jsonl")
    check(data, [[1], [2]], [[1, 0], [0, 1]])
    assert data.texts == ["a", "b"]
    assert data.split.tolist() == [0, 2]
    (tmp_path / "three.txt").write_text("a\nb\nc\n")
    with pytest.raises(ValueError, match=r"three\.txt: has 3 rows, .*e\.npz has 2"):
        load(tmp_path / "e.npz", labels=tmp_path / "t.jsonl", texts=tmp_path / "three.txt")


# ---- optional packages ---------------------------------------------------------------------------


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table(
        {
            "a": [1.5, None, 3.0],
            "b": pa.array([1, 2, 3], pa.int8()),
            "y1": [True, None, False],
            "y2": [0, 1, 1],
            "tags": [["u", "v"], [], ["v"]],
            "part": ["train", "train", "test"],
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    flags = {"split_column": "part", "ignore_columns": ["tags"]}
    data = load(tmp_path / "t.parquet", label_columns=["y1", "y2"], **flags)
    check(data, [[1.5, 1], [NAN, 2], [3, 3]], [[1, 0], [NAN, 1], [0, 1]])
    assert data.split.tolist() == [0, 0, 2]
    flags = {"split_column": "part", "ignore_columns": ["y*"]}
    data = load(tmp_path / "t.parquet", label_column="tags", **flags)
    check(data, [[1.5, 1], [NAN, 2], [3, 3]], [[1, 1], [0, 0], [0, 1]])
    with pytest.raises(ValueError, match="column 'part' must hold numbers"):
        load(tmp_path / "t.parquet", label_columns=["y1"], ignore_columns=["tags"])
    with pytest.raises(ValueError, match=r"column 'part': a label must be 0 or 1 .* got 'train'"):
        load(tmp_path / "t.parquet", labels=1)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(ValueError, match=r"bad\.parquet: damaged or not a \.parquet file"):
        load(tmp_path / "bad.parquet", labels=1)


def picture(path, size, colour):
    image = pytest.importorskip("PIL.Image")
    image.new("RGB" if isinstance(colour, tuple) else "L", size, colour).save(path)


def test_a_folder_of_pictures(tmp_path):
    for name, colour in (("a.png", (255, 0, 0)), ("b.png", (0, 0, 255)), ("c.png", 7)):
        picture(tmp_path / name, (6, 4), colour)
    (tmp_path / "labels.csv").write_text("file,red,blue\na.png,1,0\nb.png,0,1\nc.png,0,0\n")
    data = load(tmp_path)
    assert data.images.shape == (3, 3, 4, 6)
    assert data.images.dtype == torch.uint8
    assert data.images[:, :, 0, 0].tolist() == [[255, 0, 0], [0, 0, 255], [7, 7, 7]]
    assert data.names == ["red", "blue"]
    assert load(tmp_path, image_size=2).images.shape == (3, 3, 2, 2)
    assert load(tmp_path, image_mode="L").images.shape == (3, 1, 4, 6)
    grey = load(tmp_path / "labels.csv", image_column="file", label_columns=["red"])
    assert grey.names == ["red"]


def test_rows_with_broken_pictures_are_named_and_left_out_where_that_is_asked_for(tmp_path):
    for name in ("a.png", "c.png", "e.png"):
        picture(tmp_path / name, (6, 4), 5)
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes()[:40])
    lines = ["file,y,part", "b.png,1,train", "a.png,1,train", "absent.png,0,train"]
    lines += ["c.png,0,train", "e.png,0,test"]
    (tmp_path / "l.csv").write_text("\n".join(lines))
    keys = {"image_column": "file", "label_columns": ["y"], "split_column": "part"}
    with pytest.raises(ValueError, match=r"row 2: no picture .*absent\.png"):
        load(tmp_path / "l.csv", **keys)
    data = load(tmp_path / "l.csv", drop_broken=True, **keys)
    assert data.images.shape == (3, 1, 4, 6)
    assert data.labels.dense().flatten().tolist() == [1, 0, 0]
    assert data.split.tolist() == [0, 0, 2]
    (note,) = (note for note in data.card["notes"] if "drop_broken" in note)
    assert "2 of 5 rows" in note
    assert "row 0, " in note
    assert "b.png: damaged" in note
    assert "row 2, no picture" in note
    (tmp_path / "l.csv").write_text("file,y\nb.png,1\n")
    with pytest.raises(ValueError, match="no picture of its 1 rows can be read"):
        load(tmp_path / "l.csv", drop_broken=True, **keys | {"split_column": None})


def test_bad_pictures(tmp_path):
    picture(tmp_path / "a.png", (6, 4), 5)
    picture(tmp_path / "b.png", (5, 4), 5)
    (tmp_path / "l.csv").write_text("file,y\na.png,1\nb.png,0\n")
    with pytest.raises(ValueError, match=r"b\.png: is 5 x 4 pixels, .* give image_size"):
        load(tmp_path)
    assert load(tmp_path, image_size=4).images.shape == (2, 1, 4, 4)
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes()[:40])
    with pytest.raises(ValueError, match=r"b\.png: damaged or not a \.png file"):
        load(tmp_path)
    (tmp_path / "b.png").unlink()
    with pytest.raises(ValueError, match=r"row 1: no picture .*b\.png"):
        load(tmp_path)
    (tmp_path / "l2.csv").write_text("file,y\n")
    with pytest.raises(ValueError, match=r"expected one CSV file .* found 2"):
        load(tmp_path)


# ---- tables through pyarrow ----------------------------------------------------------------------


def large_csv(path, rows, odd=None):
    """More than one block; `odd`: (row, the line to write in its place)."""
    lines = [f'{i / 8},"text {i}, ""quoted""",{i % 2},t{i % 3}' for i in range(rows)]
    if odd:
        lines[odd[0]] = odd[1]
    path.write_text("x,body,y,tags\n" + "\n".join(lines) + "\n")
    return path


LARGE = {"text_column": "body", "label_columns": ["y"], "ignore_columns": ["tags"]}


def test_large_csv_reads_like_small(tmp_path):
    data = load(large_csv(tmp_path / "t.csv", 40_000), **LARGE | {"feature_columns": ["x"]})
    assert data.features[:, 0].tolist() == [i / 8 for i in range(40_000)]
    assert data.texts[39_999] == 'text 39999, "quoted"'
    assert data.labels.dense()[:, 0].tolist() == [i % 2 for i in range(40_000)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("oops,a,1,t", "line 30002: column 'x' must hold numbers, got 'oops'"),
        ("1,a,maybe,t", "line 30002: column 'y': a label must be 0 or 1 .* got 'maybe'"),
        ("1,a,1", "line 30002: expected 4 cells, got 3"),
        ("1e300,a,1,t", "line 30002: column 'x' must be finite in float32"),
        ('1,"never closed,1,t', "line 30003: .*, in the row that starts in line 30002"),
    ],
)
def test_the_line_is_named_in_every_block(tmp_path, line, message):
    path = large_csv(tmp_path / "t.csv", 40_000, (30_000, line))
    with pytest.raises(ValueError, match=message):
        load(path, **LARGE | {"feature_columns": ["x"]})


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('NA,5" disk,?,t', '5" disk'),
        ('NA,"two\nlines",?,t', "two\nlines"),
        ("N/a," + "long " * 60_000 + ",?,t", "long " * 60_000),
        (' nan ,"one\rtwo",?,t', "one\rtwo"),
    ],
    ids=["stray-quote", "line-end", "long", "carriage-return"],
)
def test_odd_cells_are_read_in_every_block(tmp_path, line, text):
    path = large_csv(tmp_path / "t.csv", 40_000, (30_000, line))
    data = load(path, **LARGE | {"feature_columns": ["x"]})
    assert data.texts[30_000] == text
    assert data.features[30_000].isnan().all()
    assert data.labels.dense()[30_000].isnan().all()
    assert data.texts[39_999] == 'text 39999, "quoted"'
    assert len(data) == 40_000


def test_patterns_name_files_that_follow_one_another(tmp_path):
    import gzip

    import pyarrow as pa
    from pyarrow import feather, parquet

    table = pa.table({"x": [1.0, 2.0], "y": pa.array([1, None], pa.int8())})
    for part in "ab":
        parquet.write_table(table, tmp_path / f"{part}.parquet")
        feather.write_feather(table, tmp_path / f"{part}.feather")
        (tmp_path / f"{part}.csv.gz").write_bytes(gzip.compress(b"x,y\n1,1\n2,\n"))
    for ending in ("parquet", "feather", "csv.gz"):
        data = load(str(tmp_path / f"*.{ending}"), labels=1)
        assert data.features[:, 0].tolist() == [1, 2, 1, 2], ending
        assert data.labels.known().tolist() == [[True], [False]] * 2, ending
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(b"z,y\n1,1\n"))
    with pytest.raises(ValueError, match=r"c\.csv\.gz: its columns are not those of .*a\.csv\.gz"):
        load(str(tmp_path / "*.csv.gz"), labels=1)
    with pytest.raises(ValueError, match="no file has a name like this"):
        load(str(tmp_path / "*.tsv"), labels=1)


def test_half_characters_in_json_become_marks(tmp_path):
    lines = [r'"\ud83d\ude00 \ud800 a"', r'"\\ud800"', r'"\udc00\ud83d"']
    rows = "".join(f'{{"text": {line}, "labels": [0]}}\n' for line in lines)
    (tmp_path / "t.jsonl").write_text(rows)
    texts = list(load(tmp_path / "t.jsonl").texts)
    assert texts == ["\U0001f600 \ufffd a", r"\ud800", "\ufffd\ufffd"]


def test_json_lines_that_follow_one_another(tmp_path):
    for part in "ab":
        (tmp_path / f"{part}.jsonl").write_text(f'{{"text": "{part}", "labels": ["{part}"]}}\n')
    data = load(str(tmp_path / "*.jsonl"))
    assert (list(data.texts), data.names) == (["a", "b"], ["a", "b"])
