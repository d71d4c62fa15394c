"""Some seconds of the fuzzer, the same cases each time; and it notices what it looks for."""

import io
import random
import shutil
import time
from unittest.mock import ANY

import broken as breaking
import fuzz
import numpy as np
import pytest

from labelset import data


@pytest.mark.slow
def test_broken_files_are_refused_in_words_or_read():
    assert fuzz.fuzz(seed=0, cases=150) == []


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory):
    return fuzz.Fuzzer(tmp_path_factory.mktemp("fuzz"), seed=0)


def case(fuzzer):
    """Prediction of a file of which one row was touched."""
    work = fuzzer.folder / "case"
    work.mkdir(exist_ok=True)
    path, out = work / "n.csv", work / "out"
    out.unlink(missing_ok=True)
    lines = fuzzer.files["n.csv"].split(b"\n")
    lines[3] = lines[4]
    broken = breaking.Broken(b"\n".join(lines), "a row", {2}, whole=False)
    path.write_bytes(broken.content)
    argv = ["predict", str(fuzzer.runs["n.csv"]), str(path), "--out", str(out)]
    return fuzz.Case(argv, path, broken, out, fuzzer._reference("n.csv", "n.csv"))


def test_what_is_right_has_no_faults(fuzzer):
    assert list(fuzzer.faults(case(fuzzer))) == []


def swapped(part):
    part.features[:, [0, 1]] = part.features[:, [1, 0]]


def raised(error):
    def bug(_):
        raise error

    return bug


def left_open(fuzzer):
    def bug(_):
        (fuzzer.folder / "case" / ".out.1.part").write_bytes(b"{")
        raise ValueError("n.csv is bad")

    return bug


GREEDY = []


@pytest.mark.parametrize(
    ("bug", "says"),
    [
        (swapped, "was not touched"),
        (raised(KeyError("a")), "KeyError"),
        (raised(ValueError("[Errno 22] Invalid argument")), "bare message"),
        (raised(ValueError("a cell is bad")), "does not name the file"),
        (left_open, "half a file"),
        (lambda _: time.sleep(9), "more than"),
        (lambda _: GREEDY.append(np.ones(40 << 20)), "MB more"),
    ],
)
def test_what_is_wrong_is_noticed(fuzzer, bug, says, monkeypatch):
    broken, right = case(fuzzer), data.stream
    if says == "more than":
        monkeypatch.setattr(fuzz, "SECONDS", 3)
    monkeypatch.setattr(fuzz, "MORE", 100 << 20)
    bug = bug(fuzzer) if bug is left_open else bug

    def wrong(*args, **flags):
        for part in right(*args, **flags):
            bug(part)
            yield part

    monkeypatch.setattr(data, "stream", wrong)
    found = list(fuzzer.faults(broken))
    GREEDY.clear()
    for left in fuzzer.folder.rglob("*.part"):
        left.unlink()
    assert any(says in fault for fault in found), found


def test_a_changed_run_that_answers_otherwise_is_noticed(fuzzer, tmp_path, monkeypatch):
    run = tmp_path / "run"
    shutil.copytree(fuzzer.runs["n.npz"], run)
    argv = ["predict", str(run), str(fuzzer.folder / "n.npz")]
    due = fuzzer.called(argv)[2].encode()
    head = run / "best" / "head.safetensors"
    head.write_bytes(head.read_bytes()[:-4] + b"\0\0\0A")  # 8.0
    changed = fuzz.Case(argv, run, breaking.Broken(b"", "a weight"), due=due)
    assert list(fuzzer.faults(changed)) == []
    monkeypatch.setattr("labelset.model.folder.file_sum", lambda _: ANY)  # equals any checksum
    assert any("another answer" in fault for fault in fuzzer.faults(changed))


@pytest.mark.parametrize("name", breaking.valid())
def test_damage_of_any_codec_or_container_is_one_line(name, tmp_path, monkeypatch):
    """Whatever library stumbles: the file is named, and the library's words are not heard."""
    content, path = breaking.valid()[name], tmp_path / name
    ending = name.removesuffix(".gz").rpartition(".")[2]
    kind = {"svm": "svmlight", "feather": "arrow", "tsv": "csv"}.get(ending, ending)
    for seed in range(24):
        draw = random.Random(f"{name} {seed}")
        way = draw.choice(
            [breaking.flipped, breaking.truncated, breaking.cut_out, breaking.doubled]
        )
        broken = way(content, draw).content
        path.write_bytes(broken)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(broken), encoding="utf-8"))
        assert refused_well(path, f"{path}: ", {})
        assert refused_well("-", "standard input: ", {"format": kind})


def refused_well(source, due, flags):
    """Whether it is read, or refused in a line that starts so and has no words of a library."""
    try:
        for _ in data.stream(source, **flags):
            pass
    except ValueError as error:
        return str(error).startswith(due) and not fuzz.BARE.search(str(error))
    return True


@pytest.mark.parametrize("name", breaking.valid())
def test_every_break_breaks(name):
    """Each way to break a file changes it, for most numbers drawn."""
    content = breaking.valid()[name]
    for way in set(breaking.BREAKS[name.rpartition(".")[2]]):
        made = [way(content, random.Random(seed)) for seed in range(20)]
        assert sum(broken.content != content for broken in made) > 8, way.__name__
