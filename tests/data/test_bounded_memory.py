"""Memory holds a batch, not the file: the growth of the peak, measured in a process of its own.

Each process first does its work on a small file of the same kind, which already takes several
blocks, and then on one whose content, decoded, is several times what memory may grow by.
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

WIDTH = 1000
MB = 1 << 20

WORK = """
import json
import os
import sys
from pathlib import Path

import torch
import torch._dynamo  # which every optimiser asks for: once here, not in every process

from labelset import encode, heads
from labelset.model import SavedModel
from labelset.cli import main
from labelset.data import Dataset, ensure_split, inspect, load, stream
from labelset.train import Settings, train


def peak():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024


def forget():
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again at what is held now


def told(path):
    # `?` in a flag stands for the name of the file
    stem = str(Path(path).with_suffix(""))
    return {k: v.replace("?", stem) if isinstance(v, str) else v for k, v in flags.items()}


def reading(path):
    data = load(path, memory=1, **told(path))
    inspect(data)
    data.fingerprint()
    return len(data)


def training(path):
    data = ensure_split(load(path, memory=1, **told(path)))
    train(data, Settings(epochs=2, batch=64, monitor=None), parts=("test",))
    return len(data)


def packed(path):
    data = load(path, memory=1, **told(path))
    coder = encode.as_encoder(None, data).fit(data)
    head = heads.build("linear", features=encode.Encoder.__call__(coder, data).shape[1], labels=3)
    about = {"schema": data.schema.only(coder.reads).as_json()}
    run = SavedModel(names=["a", "b", "c"], head=head, encoder=coder, about=about)
    run.save("run")


def predicting(path):
    given = [f"--data={k}={v}" for k, v in {"memory": 1, **told(path)}.items()]
    assert main(["predict", "run", path, "--out", "p.jsonl", *given]) == 0
    return sum(1 for _ in open("p.jsonl"))


torch.set_num_threads(1)
for what, small, large, rows, flags in json.loads(sys.argv[1]):
    if os.fork():  # each in a process of its own, in which nothing has been freed before
        assert os.wait()[1] == 0
        continue
    works = [globals()[name] for name in what]
    if predicting in works:
        packed(small)
    grew = []
    for work in works:
        forget()
        work(small)
        before = peak()
        got = work(large)
        assert got == rows, (got, rows)
        grew.append(peak() - before)
    print("grew", json.dumps(grew), flush=True)
    os._exit(0)
"""


def grown(folder, tasks, printed_by):
    """Megabytes by which the peak grew, for each task, after each kind of work."""
    (folder / "work.py").write_text(WORK)
    lines = printed_by([sys.executable, "work.py", json.dumps(tasks)], cwd=folder)
    words = [line.partition(" ") for line in lines]
    return [json.loads(rest) for first, _, rest in words if first == "grew"]


# ---- files: write(path, rows) writes rows of which each holds so many bytes ---------------------


def dense(rows):
    return np.random.default_rng(0).normal(size=(rows, WIDTH)).astype(np.float32)


def labels(rows):
    return (np.arange(rows)[:, None] % 3 == np.arange(3)).astype(np.int8)


def npz(path, rows):
    np.savez(path, X=dense(rows), Y=labels(rows))


def npz_compressed(path, rows):
    np.savez_compressed(path, X=np.asfortranarray(dense(rows)), Y=labels(rows))


def npz_sparse(path, rows):
    each = 200
    columns = np.tile(np.arange(each, dtype=np.int32) * 5, rows)
    values = np.random.default_rng(0).random(rows * each, dtype=np.float32)
    matrix = {"X_indptr": np.arange(rows + 1) * each, "X_indices": columns, "X_data": values}
    np.savez(path, **matrix, X_shape=[rows, WIDTH], Y=labels(rows))


def csc(path, rows):
    from scipy import sparse

    sparse.save_npz(path, sparse.random(rows, WIDTH, 0.2, "csc", np.float32, 0), compressed=False)
    np.save(path.with_name(f"{path.stem}_y.npy"), labels(rows))


def npy(path, rows):
    np.save(path, dense(rows))
    np.save(path.with_name(f"{path.stem}_y.npy"), labels(rows))


def svmlight(path, rows, header=""):
    pairs = " ".join(f"{i}:0.{i % 89 + 1}" for i in range(0, WIDTH, 5))
    with path.open("w") as file:
        file.write(header)
        for row in range(rows):
            file.write(f"{row % 3} {pairs} {row % WIDTH // 5 * 5 + 1}:1\n")


def extreme(path, rows):
    svmlight(path, rows, f"{rows} {WIDTH} 3\n")


def arff(path, rows, lines=None):
    cells = ",".join(f"0.{i % 89 + 1}" for i in range(WIDTH - 1))
    with path.open("w") as file:
        file.write("@relation x\n")
        file.writelines(f"@attribute f{i} numeric\n" for i in range(WIDTH))
        file.write("@attribute l0 {0,1}\n@attribute l1 {0,1}\n@attribute l2 {0,1}\n@data\n")
        file.writelines(lines or (f"{row},{cells},1,0,0\n" for row in range(rows)))


def arff_sparse(path, rows):
    cells = ",".join(f"{i} 0.{i % 89 + 1}" for i in range(0, WIDTH, 5))
    arff(path, rows, (f"{{{cells},{WIDTH + row % 3} 1}}\n" for row in range(rows)))


def table(path, rows):
    cells = ",".join(f"0.{i % 89 + 1}" for i in range(WIDTH - 1))
    with path.open("w") as file:
        file.write(",".join([*(f"f{i}" for i in range(WIDTH)), "l0,l1,l2\n"]))
        file.writelines(f"{row},{cells},1,0,0\n" for row in range(rows))


def parquet(path, rows):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as file

    kinds = {f"f{i}": arrow.float32() for i in range(WIDTH // 10)} | dict.fromkeys(
        ("l0", "l1", "l2"), arrow.int8()
    )
    drawn = dense(1000).reshape(10_000, WIDTH // 10)
    with file.ParquetWriter(path, arrow.schema(kinds)) as writer:
        for start in range(0, rows, 10_000):
            some = min(10_000, rows - start)
            columns = [*drawn[:some].T, *labels(some).T]
            writer.write_table(arrow.table(dict(zip(kinds, columns, strict=True))))


WORDS = " ".join(f"word{i}" for i in range(1000))


def texts(path, rows):
    line = f'{{"text": "%d {WORDS}", "labels": [%d]}}\n'
    with path.open("w") as file:
        file.writelines(line % (row, row % 3) for row in range(rows))


def vectors(path, rows):
    cells = ", ".join(str(i % 89 / 8) for i in range(WIDTH - 1))
    line = f'{{"features": [%d, {cells}], "labels": [%d]}}\n'
    with path.open("w") as file:
        file.writelines(line % (row, row % 3) for row in range(rows))


def cells_of_text(path, rows):
    with path.open("w") as file:
        file.write("body,tags\n")
        file.writelines(f"{row} {WORDS},{'a' if row % 2 else 'b|c'}\n" for row in range(rows))


def pictures(path, rows):
    from PIL import Image

    path.mkdir()
    for at in range(3):
        Image.new("RGB", (128, 128), (at, 80, 200)).save(path / f"{at}.png")
    with (path / "names.csv").open("w") as file:
        out = csv.writer(file)
        out.writerow(["file", "l0", "l1", "l2"])
        out.writerows([f"{row % 3}.png", *labels(3)[row % 3]] for row in range(rows))


# kind: (ending, writer, bytes of a row, decoded MB, flags)
DENSE, SPARSE, TEXT = 4 * WIDTH, 8 * 200, len(WORDS)
KINDS = {
    "npy": ("npy", npy, DENSE, 32, {"labels": "?_y.npy"}),
    "npz": ("npz", npz, DENSE, 32, {}),
    "npz-compressed": ("npz", npz_compressed, DENSE, 32, {}),
    "npz-sparse": ("npz", npz_sparse, SPARSE, 24, {}),
    "scipy-csc": ("npz", csc, SPARSE, 32, {"labels": "?_y.npy"}),
    "svmlight": ("svm", svmlight, SPARSE, 10, {}),
    "extreme": ("txt", extreme, SPARSE, 10, {}),
    "arff": ("arff", arff, DENSE, 24, {"labels": 3}),
    "arff-sparse": ("arff", arff_sparse, SPARSE, 12, {"labels": 3}),
    "csv": ("csv", table, DENSE, 20, {"labels": 3}),
    "parquet": ("parquet", parquet, DENSE // 10, 48, {"labels": 3}),
    "jsonl-texts": ("jsonl", texts, TEXT, 72, {}),
    "jsonl-features": ("jsonl", vectors, DENSE, 20, {}),
    "csv-texts": ("csv", cells_of_text, TEXT, 72, {"text_column": "body", "label_column": "tags"}),
    "pictures": ("d", pictures, 128 * 128 * 3, 72, {}),
}
TRAINED = {"npz": 96, "npz-sparse": 72, "csv-texts": 96, "pictures": 64}
only_on_linux = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the peak is read from /proc"
)


def task(folder, what, kind, less, size):
    """What to do with a small file of several blocks and with one of so many decoded MB."""
    ending, write, each, _, flags = KINDS[kind]
    rows = size * MB // each
    small, large = (folder / f"{what[0]}-{kind}.{of}.{ending}" for of in ("small", "large"))
    write(small, less * MB // each)
    write(large, rows)
    return what, str(small), str(large), rows, flags


@pytest.fixture(scope="module")
def grew(tmp_path_factory, printed_by):
    """By kind of work and file; one process starts all the others, and so imports everything."""
    folder, read = tmp_path_factory.mktemp("bounded"), ("reading", "predicting")
    tasks = [  # the small file reaches what pyarrow's and Python's pools keep for good
        task(folder, read, kind, 24 if size == 72 else 4, size)
        for kind, (*_, size, _) in KINDS.items()
    ]
    tasks += [task(folder, ("training",), kind, 12, size) for kind, size in TRAINED.items()]
    found = grown(folder, tasks, printed_by)
    assert len(found) == len(tasks)
    names = [("reading", kind) for kind in KINDS] + [("training", kind) for kind in TRAINED]
    return dict(zip(names, found, strict=True))


@only_on_linux
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_reading_and_predicting_are_bounded(grew, kind):
    assert max(grew["reading", kind]) < KINDS[kind][3] / 3


@only_on_linux
@pytest.mark.parametrize("kind", TRAINED)
@pytest.mark.slow
def test_training_is_bounded(grew, kind):
    assert max(grew["training", kind]) < TRAINED[kind] / 3
