"""Memory holds a batch, not the file: the growth of the peak, measured in a process of its own.

Each process first does its work on a small file of the same kind, which already takes several
blocks, and then on one whose content, decoded, is several times what memory may grow by.
"""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

WIDTH = 1000
MB = 1 << 20
RETURNED = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}
"""What is freed goes back to the system at once, so that only what is held counts."""

WORK = """
import json
import os
import sys
from pathlib import Path

import torch

from labelset import encode, heads
from labelset.artefact import Run
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
    kind = {"features": "features", "tfidf": "texts", "conv": "images"}[coder.name]
    about = {"kind": kind, "text": flags.get("text_column")}
    if kind == "features":
        names = data.card["about"].get("feature_names")
        about |= {"width": data.features.shape[1], "columns": names}
    run = Run(names=["a", "b", "c"], head=head, encoder=coder, about={"reading": about})
    run.save("run")


def predicting(path):
    given = [f"--data={k}={v}" for k, v in {"memory": 1, **told(path)}.items()]
    assert main(["predict", "run", path, "--out", "p.jsonl", *given]) == 0
    return sum(1 for _ in open("p.jsonl"))


torch.set_num_threads(1)
works = [globals()[name] for name in sys.argv[1].split(",")]
for small, large, rows, flags in json.loads(sys.argv[2]):
    if os.fork():  # each in a process of its own, in which nothing has been freed before
        assert os.wait()[1] == 0
        continue
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


def grown(folder, what, tasks):
    """Megabytes by which the peak grew, for each task, after each kind of work."""
    (folder / "work.py").write_text(WORK)
    command = [sys.executable, "work.py", what, json.dumps(tasks)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=os.environ | RETURNED
    )
    assert done.returncode == 0, done.stderr[-2000:]
    words = [line.partition(" ") for line in done.stdout.splitlines()]
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
    starts = np.arange(rows + 1) * each
    np.savez(
        path,
        X_indptr=starts,
        X_indices=columns,
        X_data=values,
        X_shape=[rows, WIDTH],
        Y=labels(rows),
    )


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


def arff(path, rows):
    with path.open("w") as file:
        file.write("@relation x\n")
        file.writelines(f"@attribute f{i} numeric\n" for i in range(WIDTH))
        file.write("@attribute l0 {0,1}\n@attribute l1 {0,1}\n@attribute l2 {0,1}\n@data\n")
        cells = ",".join(f"0.{i % 89 + 1}" for i in range(WIDTH - 1))
        file.writelines(f"{row},{cells},1,0,0\n" for row in range(rows))


def arff_sparse(path, rows):
    with path.open("w") as file:
        file.write("@relation x\n")
        file.writelines(f"@attribute f{i} numeric\n" for i in range(WIDTH))
        file.write("@attribute l0 {0,1}\n@attribute l1 {0,1}\n@attribute l2 {0,1}\n@data\n")
        cells = ",".join(f"{i} 0.{i % 89 + 1}" for i in range(0, WIDTH, 5))
        file.writelines(f"{{{cells},{WIDTH + row % 3} 1}}\n" for row in range(rows))


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
    with file.ParquetWriter(path, arrow.schema(kinds)) as writer:
        for start in range(0, rows, 10_000):
            some = min(10_000, rows - start)
            columns = [*dense(some // 10 + 1).reshape(-1, WIDTH // 10)[:some].T, *labels(some).T]
            writer.write_table(arrow.table(dict(zip(kinds, columns, strict=True))))


WORDS = " ".join(f"word{i}" for i in range(1000))


def texts(path, rows):
    with path.open("w") as file:
        for row in range(rows):
            file.write(json.dumps({"text": f"{row} {WORDS}", "labels": [row % 3]}) + "\n")


def vectors(path, rows):
    cells = [i % 89 / 8 for i in range(WIDTH - 1)]
    with path.open("w") as file:
        for row in range(rows):
            file.write(json.dumps({"features": [row, *cells], "labels": [row % 3]}) + "\n")


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
    "npy": ("npy", npy, DENSE, 64, {"labels": "?_y.npy"}),
    "npz": ("npz", npz, DENSE, 64, {}),
    "npz-compressed": ("npz", npz_compressed, DENSE, 32, {}),
    "npz-sparse": ("npz", npz_sparse, SPARSE, 48, {}),
    "scipy-csc": ("npz", csc, SPARSE, 16, {"labels": "?_y.npy"}),
    "svmlight": ("svm", svmlight, SPARSE, 10, {}),
    "extreme": ("txt", extreme, SPARSE, 10, {}),
    "arff": ("arff", arff, DENSE, 24, {"labels": 3}),
    "arff-sparse": ("arff", arff_sparse, SPARSE, 12, {"labels": 3}),
    "csv": ("csv", table, DENSE, 20, {"labels": 3}),
    "parquet": ("parquet", parquet, DENSE // 10, 48, {"labels": 3}),
    "jsonl-texts": ("jsonl", texts, TEXT, 16, {}),
    "jsonl-features": ("jsonl", vectors, DENSE, 20, {}),
    "csv-texts": ("csv", cells_of_text, TEXT, 16, {"text_column": "body", "label_column": "tags"}),
    "pictures": ("d", pictures, 128 * 128 * 3, 48, {}),
}
only_on_linux = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the peak is read from /proc"
)


def task(folder, kind, less, size):
    """A small file of several blocks, one of so many decoded MB, its rows, and the flags."""
    ending, write, each, _, flags = KINDS[kind]
    rows = size * MB // each
    small, large = folder / f"{kind}.small.{ending}", folder / f"{kind}.large.{ending}"
    write(small, less * MB // each)
    write(large, rows)
    return str(small), str(large), rows, flags


def some(names, each):
    """The names in groups, whose processes share the time it takes to import everything."""
    return [
        pytest.param(names[i : i + each], id=" ".join(names[i : i + each]))
        for i in range(0, len(names), each)
    ]


@only_on_linux
@pytest.mark.parametrize("kinds", some([*KINDS], 5))
def test_reading_and_predicting_are_bounded(tmp_path, kinds):
    sizes = {kind: KINDS[kind][3] for kind in kinds}
    tasks = [task(tmp_path, kind, 6, size) for kind, size in sizes.items()]
    found = grown(tmp_path, "reading,predicting", tasks)
    for (kind, size), grew in zip(sizes.items(), found, strict=True):
        assert max(grew) < size / 3, kind


TRAINED = {"npz": 96, "npz-sparse": 72, "csv-texts": 48, "pictures": 64}


@only_on_linux
@pytest.mark.parametrize("kinds", some([*TRAINED], 2))
def test_training_is_bounded(tmp_path, kinds):
    found = grown(tmp_path, "training", [task(tmp_path, kind, 16, TRAINED[kind]) for kind in kinds])
    for kind, (grew,) in zip(kinds, found, strict=True):
        assert grew < TRAINED[kind] / 3, kind


# ---- many short rows: what a row costs besides its input ----------------------------------------

SHORT = """
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import torch

from labelset.data import ensure_split, inspect, load


def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def worked(path, flags):
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again at what is held now
    data = load(path, memory=1, **flags)
    loaded = peak()
    inspect(data)
    data.fingerprint()
    made = ensure_split(replace(data, split=None))
    assert sum(made.sizes()) == len(made)
    return len(data), loaded, peak()


torch.set_num_threads(1)
for small, large, flags in json.loads(sys.argv[1]):
    if os.fork():  # each in a process of its own, in which nothing has been freed before
        assert os.wait()[1] == 0
        continue
    worked(small, flags)  # what is needed once, however many rows there are
    _, *before = worked(small, flags)
    rows, *after = worked(large, flags)
    grew = [(there - here) / rows for here, there in zip(before, after, strict=True)]
    print(json.dumps(grew), flush=True)
    os._exit(0)
"""
PARTS = ("train", "valid", "test")
FEW, MANY = 20_000, 120_000


def short_jsonl(path, rows):
    line = '{"id": "row%d", "text": "a b %d", "labels": ["x%d", "y%d"], "split": "%s"}\n'
    with path.open("w") as file:
        file.writelines(line % (i, i % 99_991, i % 50, i % 7, PARTS[i % 3]) for i in range(rows))


def short_csv(path, rows):
    with path.open("w") as file:
        file.write("name,body,tags,part\n")
        line = "row%d,a b %d,x%d|y%d,%s\n"
        file.writelines(line % (i, i % 99_991, i % 50, i % 7, PARTS[i % 3]) for i in range(rows))


def short_parquet(path, rows):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as file

    held = {
        "name": [f"row{i}" for i in range(rows)],
        "body": [f"a b {i % 99_991}" for i in range(rows)],
        "tags": [[f"x{i % 50}", f"y{i % 7}"] for i in range(rows)],
        "part": [PARTS[i % 3] for i in range(rows)],
    }
    file.write_table(arrow.table(held), path, row_group_size=10_000)


def short_svmlight(path, rows):
    with path.open("w") as file:
        line = "%d,%d %d:0.5 %d:1\n"
        each = ((i % 50, 50 + i % 7, i % 9991 + 1, 10_000 + i % 7) for i in range(rows))
        file.writelines(line % numbers for numbers in each)


def short_arff(path, rows):
    kinds = ("name string", "part {train,valid,test}", "f numeric", "a {0,1}", "b {0,1}")
    with path.open("w") as file:
        file.write("@relation x\n")
        file.writelines(f"@attribute {kind}\n" for kind in kinds)
        file.write("@data\n")
        file.writelines(f"row{i},{PARTS[i % 3]},{i % 99_991},{i % 2},1\n" for i in range(rows))


COLUMNS = {
    "text_column": "body",
    "label_column": "tags",
    "id_column": "name",
    "split_column": "part",
}
SHORT_KINDS = {
    "jsonl": (short_jsonl, {}),
    "csv": (short_csv, COLUMNS),
    "parquet": (short_parquet, COLUMNS),
    "svm": (short_svmlight, {}),
    "arff": (short_arff, {"labels": 2, "id_column": "name", "split_column": "part"}),
}


@only_on_linux
def test_a_short_row_takes_few_bytes(tmp_path):
    tasks = []
    for kind, (write, flags) in SHORT_KINDS.items():
        files = [tmp_path / f"{rows}.{kind}" for rows in (FEW, MANY)]
        for path, rows in zip(files, (FEW, MANY), strict=True):
            write(path, rows)
        tasks.append((*map(str, files), flags))
    command = [sys.executable, "-c", SHORT, json.dumps(tasks)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | RETURNED)
    assert done.returncode == 0, done.stderr[-2000:]
    found = map(json.loads, done.stdout.splitlines())
    for kind, (loading, everything) in zip(SHORT_KINDS, found, strict=True):
        assert loading < 70, kind
        assert everything < 220, kind
