"""Many short rows: what a row costs in memory besides its input, in a process of its own."""

import json
import sys
from pathlib import Path

import pytest

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
FEW, MANY = 20_000, 500_000  # what an allocator keeps at hand, some MB, must not count


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


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
@pytest.mark.slow
def test_a_short_row_takes_few_bytes(tmp_path, printed_by):
    tasks = []
    for kind, (write, flags) in SHORT_KINDS.items():
        files = [tmp_path / f"{rows}.{kind}" for rows in (FEW, MANY)]
        for path, rows in zip(files, (FEW, MANY), strict=True):
            write(path, rows)
        tasks.append((*map(str, files), flags))
    found = map(json.loads, printed_by([sys.executable, "-c", SHORT, json.dumps(tasks)]))
    for kind, (loading, everything) in zip(SHORT_KINDS, found, strict=True):
        assert loading < 70, kind
        assert everything < 220, kind
