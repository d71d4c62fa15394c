"""Rows on disk are the rows that would be in memory."""

import csv
import gzip
import json
import pickle
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy import sparse

from labelset.data import (
    Dataset,
    SparseRows,
    StoredRows,
    StoredSparse,
    StoredTexts,
    ensure_split,
    inspect,
    load,
    stream,
)
from labelset.data.store import Spool, blocks, spooled
from labelset.train import Settings, train

ROWS = 9001  # more than two blocks
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 12)).astype(np.float32).round(3)
X[RNG.random(X.shape) < 0.01] = np.nan
S = np.where(RNG.random((ROWS, 40)) < 0.1, RNG.integers(1, 5, (ROWS, 40)), 0).astype(np.float32)
S[:, 7] += 1  # an empty line would be no row
Y = RNG.random((ROWS, 4)) < 0.3
PARTS = RNG.integers(0, 3, ROWS)
TEXTS = [f"row {i} é \ud800"[: 4 + i % 20] for i in range(ROWS)]
NAMES = ["a", "b", "c", "d"]


def npz(folder):
    np.savez(
        folder / "x.npz", X=X, Y=Y, split=PARTS, texts=np.array([f"t{i}" for i in range(ROWS)])
    )
    return folder / "x.npz", {}, X


def npz_fortran(folder):
    wide = np.asfortranarray(X.astype(">f8"))
    np.savez_compressed(folder / "x.npz", X=wide, Y=np.where(Y, 1.0, 0.0))
    return folder / "x.npz", {}, X


def npz_scaled(folder):
    np.savez(folder / "x.npz", E=np.nan_to_num(X * 10).astype(np.int8), scale=0.5, Y=Y)
    return folder / "x.npz", {}, np.nan_to_num(X * 10).astype(np.int8) * np.float32(0.5)


def npz_csr(folder):
    m = sparse.csr_array(S)
    parts = {"X_indptr": m.indptr, "X_indices": m.indices, "X_data": m.data, "X_shape": m.shape}
    np.savez(folder / "x.npz", **parts, Y=Y)
    return folder / "x.npz", {}, S


def scipy_in(kind):
    def write(folder):
        sparse.save_npz(folder / "x.npz", sparse.coo_array(S).asformat(kind))
        np.save(folder / "y.npy", Y)
        return folder / "x.npz", {"labels": str(folder / "y.npy")}, S

    return write


def npy(folder):
    np.save(folder / "x.npy", X.astype(np.float64))
    np.save(folder / "y.npy", Y)
    return folder / "x.npy", {"labels": str(folder / "y.npy")}, X


def npy_of_pictures(folder):
    pictures = RNG.integers(0, 255, (ROWS, 6, 5, 3)).astype(np.uint8)
    np.save(folder / "x.npy", pictures)
    np.save(folder / "y.npy", Y)
    return folder / "x.npy", {"labels": str(folder / "y.npy")}, pictures.transpose(0, 3, 1, 2)


def svmlight(folder):
    with gzip.open(folder / "x.svm.gz", "wt") as file:
        for x, y in zip(S, Y, strict=True):
            pairs = " ".join(f"{j + 1}:{x[j]:g}" for j in x.nonzero()[0])
            file.write(f"{','.join(str(j + 1) for j in y.nonzero()[0])} {pairs}\n")
    return folder / "x.svm.gz", {"n_features": 40, "labels": 4}, S


def extreme(folder):
    with (folder / "x.txt").open("w") as file:
        file.write(f"{ROWS} 40 4\n")
        for x, y in zip(S, Y, strict=True):
            pairs = " ".join(f"{j}:{x[j]:g}" for j in x.nonzero()[0])
            file.write(f"{','.join(map(str, y.nonzero()[0]))} {pairs}\n")
    return folder / "x.txt", {}, S


def cells(x):
    return ["?" if np.isnan(v) else f"{v:g}" for v in x]


def arff(folder):
    with (folder / "x.arff").open("w") as file:
        file.write("@relation x\n" + "".join(f"@attribute f{i} numeric\n" for i in range(12)))
        file.write("".join(f"@attribute {n} {{0,1}}\n" for n in NAMES) + "@data\n")
        for x, y in zip(X, Y, strict=True):
            file.write(",".join([*cells(x), *map(str, y.astype(int))]) + "\n")
    return folder / "x.arff", {"labels": 4}, X


def arff_sparse(folder):
    with (folder / "x.arff").open("w") as file:
        file.write("@relation x\n" + "".join(f"@attribute f{i} numeric\n" for i in range(40)))
        file.write("".join(f"@attribute {n} {{0,1}}\n" for n in NAMES) + "@data\n")
        for x, y in zip(S, Y, strict=True):
            pairs = [f"{j} {x[j]:g}" for j in x.nonzero()[0]] + [
                f"{40 + j} 1" for j in y.nonzero()[0]
            ]
            file.write("{" + ", ".join(pairs) + "}\n")
    return folder / "x.arff", {"labels": 4}, S


def table(folder):
    with (folder / "x.csv").open("w") as file:
        file.write(",".join([*(f"f{i}" for i in range(12)), "tags", "part"]) + "\n")
        for x, y, part in zip(X, Y, PARTS, strict=True):
            tags = "|".join(n for n, on in zip(NAMES, y, strict=True) if on)
            file.write(",".join([*cells(x), tags, str(part)]) + "\n")
    return folder / "x.csv", {"label_column": "tags", "split_column": "part"}, X


def parquet(folder):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as file

    columns = {f"f{i}": X[:, i].astype(np.float64) for i in range(12)}
    lists = [[n for n, on in zip(NAMES, y, strict=True) if on] for y in Y]
    file.write_table(
        arrow.table(columns | {"tags": lists}), folder / "x.parquet", row_group_size=999
    )
    return folder / "x.parquet", {"label_column": "tags"}, X


def jsonl(folder):
    with (folder / "x.jsonl").open("w") as file:
        file.write(json.dumps({"header": True, "label_names": NAMES}) + "\n")
        for x, y, text in zip(X, Y, TEXTS, strict=True):
            item = {"features": np.nan_to_num(x).tolist(), "text": text}
            file.write(json.dumps(item | {"labels": y.nonzero()[0].tolist()}) + "\n")
    return folder / "x.jsonl", {}, np.nan_to_num(X)


KINDS = {
    "npz": npz,
    "npz-fortran": npz_fortran,
    "npz-scaled": npz_scaled,
    "npz-csr": npz_csr,
    **{f"scipy-{kind}": scipy_in(kind) for kind in ("csr", "csc", "coo")},
    "npy": npy,
    "npy-pictures": npy_of_pictures,
    "svmlight": svmlight,
    "extreme": extreme,
    "arff": arff,
    "arff-sparse": arff_sparse,
    "csv": table,
    "parquet": parquet,
    "jsonl": jsonl,
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_on_disk_are_those_in_memory(tmp_path, kind):
    path, flags, wanted = KINDS[kind](tmp_path)
    here, there = load(path, **flags), load(path, memory=0, **flags)
    assert there.on_disk
    assert not here.on_disk
    held = there.features if there.features is not None else there.images
    rows = torch.tensor([ROWS - 1, 0, 5000, 5000, 17])
    assert np.array_equal(in_full(held[:]), wanted, equal_nan=True)
    assert np.array_equal(in_full(held[rows]), wanted[rows], equal_nan=True)
    assert np.array_equal(there.labels.dense().numpy(), Y)
    assert there.labels == here.labels
    assert there.names == here.names
    assert there.fingerprint() == here.fingerprint()
    assert inspect(there).as_json() == inspect(here).as_json()
    assert repr(there) == repr(here)
    chosen = (Y[:, 0] & (np.arange(ROWS) % 7 > 0)).nonzero()[0]
    assert there.rows(chosen).on_disk
    assert there.rows(chosen).fingerprint() == here.rows(chosen).fingerprint()
    assert there.rows(chosen).in_memory().fingerprint() == here.rows(chosen).fingerprint()


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_holds_the_same_rows(tmp_path, kind):
    path, flags, wanted = KINDS[kind](tmp_path)
    flags.pop("labels", None) if str(flags.get("labels")).endswith("y.npy") else None
    for memory in (0, 64):
        parts = list(stream(path, rows=1000, memory=memory, **flags))
        assert max(map(len, parts)) <= 1000
        assert not any(part.on_disk for part in parts)
        held = [p.features if p.features is not None else p.images for p in parts]
        got = np.concatenate([in_full(x) for x in held])
        assert np.array_equal(got, wanted, equal_nan=True)


def in_full(held):
    return held.dense().numpy() if isinstance(held, SparseRows) else held.numpy()


def long_numbers():
    """(rows, 12) float64: small ones beside times, of which the first block of rows has none, and
    some that are large only once float32 has rounded them."""
    x = RNG.normal(size=(2 * ROWS, 12)) / 3
    x[:, 1] = (1 << 20) - 0.01
    x[-ROWS // 2 :, 0] = 1.7e9 + RNG.integers(0, 400, ROWS // 2 + 1) + 0.1
    x[::7, 2] = np.nan
    return x


LONG = {
    "npz": lambda f, x, y: np.savez(f / "x.npz", X=x, Y=y),
    "compressed": lambda f, x, y: np.savez_compressed(f / "x.npz", X=x, Y=y),
    "fortran": lambda f, x, y: np.savez(f / "x.npz", X=np.asfortranarray(x), Y=y),
    "big-endian": lambda f, x, y: np.savez(f / "x.npz", X=x.astype(">f8"), Y=y),
    "long double": lambda f, x, y: np.savez(f / "x.npz", X=x.astype(np.longdouble), Y=y),
    "csv": lambda f, x, y: np.savetxt(
        f / "x.csv", np.c_[x, y], "%.17g", ",", header=",".join("abcdefghijklmn"), comments=""
    ),
}


@pytest.mark.parametrize("kind", LONG)
def test_small_numbers_beside_large_ones_are_the_same_wherever_read(tmp_path, kind):
    x = long_numbers()
    y = np.stack([x[:, 0] > 0, x[:, 3] > 0], axis=1).astype(np.uint8)
    LONG[kind](tmp_path, x, y)
    (path,) = tmp_path.iterdir()
    flags = {"labels": 2} if kind == "csv" else {}
    here, there = load(path, **flags), load(path, memory=0, **flags)
    own = Dataset.from_arrays(x, y, names=here.names)
    wanted = np.where(np.abs(x) >= 1 << 20, x, x.astype(np.float32))
    for data in (own, here, there):
        assert data.features.dtype == torch.float64
        assert np.array_equal(data.features[:].numpy(), wanted, equal_nan=True)
        assert data.fingerprint() == own.fingerprint()
    assert there.on_disk
    chosen = [2 * ROWS - 1, 5]
    assert np.array_equal(there.features[chosen].numpy(), wanted[chosen], equal_nan=True)


def test_ordinary_numbers_stay_float32_wherever_read(tmp_path):
    x = RNG.normal(size=(ROWS, 5))
    for kind, written in {"c": x, "f": np.asfortranarray(x), "g": x.astype(np.longdouble)}.items():
        np.savez(tmp_path / f"{kind}.npz", X=written, Y=Y)
    own = Dataset.from_arrays(x.astype(np.float32), Y)
    for kind in "cfg":
        for memory in (0, 64):
            data = load(tmp_path / f"{kind}.npz", memory=memory)
            assert data.features.dtype == torch.float32
            assert torch.equal(data.features[:], own.features)
            assert data.fingerprint() == own.fingerprint()


def test_pictures_on_disk(tmp_path):
    for at in range(7):
        Image.new("RGB", (30, 20), (at, 2 * at, 3 * at)).save(tmp_path / f"{at}.png")
    with (tmp_path / "names.csv").open("w") as file:
        csv.writer(file).writerows([["file", "a"], *([f"{at}.png", at % 2] for at in range(7))])
    here, there = load(tmp_path), load(tmp_path, memory=0)
    assert isinstance(there.images, StoredRows)
    assert there.fingerprint() == here.fingerprint()
    assert torch.equal(torch.cat([p.images for p in stream(tmp_path, rows=3)]), here.images)
    assert here.images[3, :, 0, 0].tolist() == [3, 6, 9]


def test_a_stream_of_grey_pictures_with_a_coloured_one_at_the_end(tmp_path):
    for at in range(4):
        Image.new("L" if at < 3 else "RGB", (4, 4)).save(tmp_path / f"{at}.png")
    (tmp_path / "n.csv").write_text("file,a\n" + "".join(f"{at}.png,1\n" for at in range(4)))
    assert [p.images.shape[1] for p in stream(tmp_path, rows=1)] == [3] * 4
    assert [p.images.shape[1] for p in stream(tmp_path, rows=1, image_mode="L")] == [1] * 4


def test_texts_on_disk(tmp_path):
    with (tmp_path / "x.jsonl").open("w") as file:
        file.writelines(json.dumps({"text": t, "labels": [0]}) + "\n" for t in TEXTS)
    here, there = load(tmp_path / "x.jsonl"), load(tmp_path / "x.jsonl", memory=0)
    assert isinstance(there.texts, StoredTexts)
    texts = [t.replace("\ud800", "\ufffd") for t in TEXTS]  # half a character cannot be written
    assert texts != TEXTS
    assert here.texts == texts == list(there.texts) == there.texts[:]
    assert there.texts[-1] == texts[-1]
    assert there.texts[[5, 1]] == [texts[5], texts[1]]
    assert there.fingerprint() == here.fingerprint()
    assert [t for p in stream(tmp_path / "x.jsonl") for t in p.texts] == texts


def test_train_and_test_files_are_stacked_on_disk(tmp_path):
    path, flags, _ = svmlight(tmp_path)
    (tmp_path / "t.svm").write_text("1 1:0.5 40:2\n\n3 2:1\n")
    both = {k: load(path, test=str(tmp_path / "t.svm"), memory=k, **flags) for k in (0, 64)}
    assert isinstance(both[0].features, StoredSparse)
    assert len(both[0]) == ROWS + 2
    assert both[0].fingerprint() == both[64].fingerprint()
    assert both[0].part("test").features[:].dense()[0, [0, 39]].tolist() == [0.5, 2.0]


@pytest.mark.parametrize("kind", ["npz", "npz-csr", "jsonl"])
def test_training_from_disk_gives_the_same_model(tmp_path, kind):
    path, flags, _ = KINDS[kind](tmp_path)
    settings = Settings(epochs=2, monitor=None)
    coder = "tfidf" if kind == "jsonl" else None
    done = [
        train(ensure_split(load(path, memory=m, **flags)), settings, encoder=coder) for m in (0, 64)
    ]
    for part in ("train", "valid", "test"):
        assert torch.allclose(done[0].scores[part], done[1].scores[part], atol=1e-5)


def test_infinite_numbers_are_named_by_their_row_in_the_file(tmp_path):
    bad = X.copy()
    bad[8000, 3] = np.inf
    np.savez(tmp_path / "x.npz", X=bad, Y=Y)
    np.save(tmp_path / "x.npy", bad)
    for file in ("x.npz", "x.npy"):
        for memory in (0, 64):
            with pytest.raises(ValueError, match="got inf at row 8000, feature 3"):
                load(tmp_path / file, memory=memory, labelled=False)
    m = sparse.csr_array(S)
    m.indices[m.indptr[8000]] = 99
    parts = {"X_indptr": m.indptr, "X_indices": m.indices, "X_data": m.data, "X_shape": m.shape}
    np.savez(tmp_path / "s.npz", **parts, Y=Y)
    for memory in (0, 64):
        with pytest.raises(ValueError, match="got 99 in row 8000"):
            load(tmp_path / "s.npz", memory=memory)


def test_damaged_arrays_are_refused_on_disk_too(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.ones((1000, 8)), Y=np.ones((1000, 1)))
    raw = bytearray((tmp_path / "x.npz").read_bytes())
    raw[5000] ^= 1
    (tmp_path / "x.npz").write_bytes(raw)
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-8])
    for file, said in (("x.npz", "damaged"), ("x.npy", "shorter than its head says")):
        with pytest.raises(ValueError, match=said):
            load(tmp_path / file, memory=0, labelled=False)


def test_a_line_out_of_range_is_found_again(tmp_path):
    lines = ["0 0:1\n"] * 6000 + ["0 9:1\n"] + ["0 1:1\n"] * 10
    (tmp_path / "x.txt").write_text("6011 9 1\n" + "".join(lines))
    for read in (load, lambda path: list(stream(path))):
        with pytest.raises(ValueError, match=r"line 6002: feature numbers must lie in 0\.\.8"):
            read(tmp_path / "x.txt")


def test_temporary_files_have_no_name_and_go_with_the_data(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "room"))
    (tmp_path / "room").mkdir()
    path, flags, _ = table(tmp_path)
    used = open_files(tmp_path)
    data = load(path, memory=0, **flags)
    assert list((tmp_path / "room").iterdir()) == []
    assert open_files(tmp_path) > used
    part = data.part("test")
    del data
    assert part.features[0].shape == (12,)
    del part
    assert open_files(tmp_path) == used


def open_files(folder):
    held = Path("/proc/self/fd")
    if not held.exists():
        pytest.skip("open files are listed in /proc")
    return sum(
        str(folder / "room") in str(link.readlink()) for link in held.iterdir() if link.is_symlink()
    )


def test_no_room_says_what_to_do(tmp_path, monkeypatch):
    path, flags, _ = table(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match=r"nowhere: cannot keep the rows there .* TMPDIR"):
        load(path, memory=0, **flags)
    assert not load(path, **flags).on_disk


@given(
    st.lists(st.lists(st.integers(-100, 100), max_size=5), max_size=6),
    st.integers(0, 60),
    st.data(),
)
def test_a_spool_gives_back_what_it_got(parts, memory, data):
    spool = Spool(np.int32, memory)
    for part in parts:
        spool.append(np.array(part, dtype=np.int64))
    flat = np.array([x for part in parts for x in part], dtype=np.int32)
    held = spool.done()
    if isinstance(held, np.ndarray):
        assert held.nbytes <= memory
        assert np.array_equal(held, flat)
        return
    assert flat.nbytes > memory
    starts = data.draw(st.lists(st.integers(0, len(flat)), max_size=8))
    runs = [(s, data.draw(st.integers(0, len(flat) - s))) for s in starts]
    got = held.read(np.array([s for s, _ in runs], int), np.array([n for _, n in runs], int))
    assert np.array_equal(
        got, np.concatenate([np.zeros(0, int), *(flat[s : s + n] for s, n in runs)])
    )


def test_rows_are_chosen_as_in_a_tensor():
    x = torch.arange(60.0).reshape(20, 3)
    held = spooled(blocks(x, 9), 0)
    for index in (slice(3, 9), slice(None, None, 3), [4, -1], x[:, 0] > 30, torch.tensor([7])):
        assert torch.equal(held[index], x[index])
        assert torch.equal(held.chosen(index)[1:], x[index][1:])
    assert torch.equal(held[4], x[4])
    assert held.shape == (20, 3)
    assert held.ndim == 2
    with pytest.raises(IndexError, match="among 20"):
        held[[20]]


def test_what_is_in_memory_stays_so():
    data = Dataset.from_arrays(X, Y)
    assert not data.on_disk
    assert data.in_memory().features is data.features
    assert sum(len(b) for b in data.blocks(1000)) == ROWS
    assert pickle.loads(pickle.dumps(data)).fingerprint() == data.fingerprint()


def test_what_a_file_holds_has_the_fingerprint_of_the_same_arrays(tmp_path):
    path, _, _ = svmlight(tmp_path)
    wanted = Dataset.from_arrays(sparse.csr_array(S), Y).fingerprint()
    assert load(path).fingerprint() == wanted
    assert load(path, memory=0).fingerprint() == wanted


# ---- labels, parts and names of many rows ------------------------------------------------------


def listed(path, rows):
    """Names, numbers, cells of words, unknown ones and rows of which nothing is known."""
    kinds = [["b", 3], "a | b", None, [], ["a", "a"], "?", [10], ["", " b "]]
    with path.open("w") as file:
        for row in range(rows):
            item = {"id": f"row {row}", "text": "x", "labels": kinds[row % len(kinds)]}
            unknown = {"unknown": ["c"]} if row % 5 == 0 else {}
            file.write(json.dumps(item | unknown) + "\n")
    return kinds


def test_listed_labels_are_numbered_alike_in_every_block(tmp_path):
    kinds = listed(tmp_path / "x.jsonl", 9000)  # several blocks
    data = load(tmp_path / "x.jsonl", memory=0)
    assert data.names == ["10", "3", "a", "b", "c"]
    want = torch.zeros(len(kinds), 5)
    want[0, [1, 3]] = want[1, [2, 3]] = want[4, 2] = want[6, 0] = want[7, 3] = 1
    want[[2, 5]] = torch.nan
    want = want.repeat(9000 // len(kinds) + 1, 1)[:9000]
    want[::5, 4] = torch.nan
    assert torch.equal(data.labels.dense().nan_to_num(-1), want.nan_to_num(-1))


def test_names_of_rows_past_memory_lie_on_disk(tmp_path):
    listed(tmp_path / "x.jsonl", 9000)
    held, stored = (load(tmp_path / "x.jsonl", memory=memory) for memory in (64, 0))
    assert isinstance(held.ids, list)
    assert isinstance(stored.ids, StoredTexts)
    assert list(stored.ids) == held.ids
    assert stored.fingerprint() == held.fingerprint()
    assert stored.rows([5, 1]).in_memory().ids == held.rows([5, 1]).ids == ["row 5", "row 1"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([7], "line 9002: label numbers must lie in 0..4, got 7"),
        ([1, 1], "line 9002: label 1 appears twice"),
        ([True], "line 9002: `labels` must list label numbers, or names, got bool True"),
        ({"a": 1}, "line 9002: `labels` must be a list of label numbers, or of names, got dict"),
        ([[1]], "line 9002: `labels` must list label numbers, or names, got list [1]"),
        ([1.0], "line 9002: `labels` must list label numbers, or names, got float 1.0"),
        (None, "line 9002: `labels` must be a list of label numbers"),
    ],
)
def test_the_line_of_a_bad_label_is_named_however_late(tmp_path, bad, message):
    rows = [{"text": "x", "labels": [row % 5]} for row in range(9000)]
    lines = [json.dumps(row) for row in [*rows, {"text": "x", "labels": bad}, *rows]]
    lines.insert(10, "")  # which is no row
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=re.escape(message)):
        load(tmp_path / "x.jsonl", labels=5)
