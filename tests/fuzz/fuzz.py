"""Broken files and odd arguments through the command line; `make fuzz SECONDS=300`.

A case starts from a valid file of some format, breaks one thing in it, and asks a verb about it. It
must end well, or with exit status 2 and one clean line that names the file; in neither case with a
traceback, a bare message of a library, half an output file, too much time or too much memory. Where
a file with one changed line is still read, all other rows must get the answer that they had.

A case follows from its seed and number alone: `python tests/fuzz/fuzz.py --seed 7 --only 123` runs
that one again, and the files of failures stay in build/fuzz.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

KEPT = Path(__file__).parents[2] / "build" / "fuzz"
ROWS = 24
SECONDS = 20
"""A case that takes longer hangs."""
MORE = 600 << 20
"""Bytes by which one case may make the process grow."""
MOST = 6 << 30
"""Bytes that a process of its own may have."""
BARE = re.compile(
    r"codec can't|can't allocate|Unable to allocate|<_io\.|object at 0x|Errno|Traceback|KeyError|"
    r"recursion depth|invalid literal for|'NoneType'|_ArrayMemoryError|std::|pyarrow\.|"
    r"Arrow(?:Invalid|Error)|unpack requires|list index|not subscriptable|has no attribute"
)
"""What a library says, and nobody who looks at a file."""


# ---- valid files -------------------------------------------------------------------------------


def table() -> dict[str, list[object]]:
    """Columns of numbers, a text and label columns."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(ROWS, 3)).round(3)
    y = (x[:, :2] > 0).astype(int)
    words = np.array(["red", "green", "blue", "fork", "knife"])
    texts = [" ".join(words[draw.integers(0, 5, 3)]) for _ in range(ROWS)]
    columns: dict[str, list[object]] = {name: x[:, at].tolist() for at, name in enumerate("abc")}
    return columns | {"text": texts, "tag:u": y[:, 0].tolist(), "tag:v": y[:, 1].tolist()}


def of_csv(columns: dict[str, list[object]], mark: str = ",") -> bytes:
    lines = [columns.keys(), *zip(*columns.values(), strict=True)]
    return "".join(mark.join(map(str, cells)) + "\n" for cells in lines).encode()


def of_jsonl(columns: dict[str, list[object]]) -> bytes:
    rows = zip(*columns.values(), strict=True)
    return "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows).encode()


def of_arff(columns: dict[str, list[object]]) -> bytes:
    kinds = {name: "string" if name == "text" else "numeric" for name in columns}
    head = [f"@attribute {name} {kind}" for name, kind in kinds.items()]
    rows = [
        ",".join(f"'{cell}'" if isinstance(cell, str) else str(cell) for cell in row)
        for row in zip(*columns.values(), strict=True)
    ]
    return "\n".join(["@relation r", *head, "@data", *rows, ""]).encode()


def of_svmlight(columns: dict[str, list[object]]) -> bytes:
    lines = []
    for a, b, c, _, u, v in zip(*columns.values(), strict=True):
        on = ",".join(name for name, value in (("0", u), ("1", v)) if value)
        lines.append(f"{on} 0:{a} 1:{b} 2:{c}\n")
    return "".join(lines).encode()


def of_arrow(columns: dict[str, list[object]], name: str) -> bytes:
    import pyarrow
    from pyarrow import feather, parquet

    file, made = io.BytesIO(), pyarrow.table(columns)
    (parquet.write_table if name.endswith("parquet") else feather.write_feather)(made, file)
    return file.getvalue()


def arrays(columns: dict[str, list[object]]) -> dict[str, np.ndarray]:
    x = np.array([columns[name] for name in "abc"], dtype=np.float32).T
    y = np.array([columns["tag:u"], columns["tag:v"]], dtype=np.int8).T
    return {"X": x, "Y": y, "feature_names": np.array(list("abc"))}


def of_numpy(held: dict[str, np.ndarray], name: str) -> bytes:
    file = io.BytesIO()
    if name.endswith("npy"):
        np.save(file, held["X"], allow_pickle=True)
    else:
        (np.savez if name == "n.npz" else np.savez_compressed)(file, **held)
    return file.getvalue()


def valid() -> dict[str, bytes]:
    """File name -> content."""
    columns = table()
    files = {
        "n.csv": of_csv(columns),
        "n.tsv": of_csv(columns, "\t"),
        "semi.csv": of_csv(columns, ";"),
    }
    files |= {
        "n.jsonl": of_jsonl(columns),
        "n.arff": of_arff(columns),
        "n.svm": of_svmlight(columns),
    }
    files |= {f"{name}.gz": gzip.compress(files[name]) for name in ("n.csv", "n.jsonl", "n.svm")}
    files |= {name: of_arrow(columns, name) for name in ("n.parquet", "n.feather")}
    return files | {
        name: of_numpy(arrays(columns), name) for name in ("n.npz", "packed.npz", "n.npy")
    }


# ---- breaking one thing ------------------------------------------------------------------------

CELLS = [
    *(b"", b"nan", b"inf", b"-inf", b"1e999", b"1e300", b"1_0", b"0x10", b"--1", b"1,5", b"1.5.2"),
    *(
        b"NA",
        b"?",
        b'"',
        b"'",
        b'""',
        b'"open',
        b"a\nb",
        b"\x00",
        b"\xff\xfe",
        b"\xe9",
        b"\xed\xa0\x80",
    ),
    *(
        "\uff11".encode(),
        "\u2028".encode(),
        b"-1",
        b"99999999999999999999",
        b"true",
        b"null",
        b"[]",
        b"{}",
    ),
    *(b"=1+1", b"|", b"\\", b"\r", b" 1 ", b"1" * 5000, b"x" * 200_000, b"9" * 400),
]
JSON = [
    *("1e999", "NaN", "-1", "null", "[]", "{}", '"x"', "true", "[[1]]", '{"a": 1}', "1" * 400),
    *("[" * 3000 + "]" * 3000, '"\\ud800"', "[1, 2, 3", '{"a": 1, "a": 2}', "99999999999999999999"),
]


@dataclass
class Broken:
    """A file with one thing broken."""

    content: bytes
    what: str
    changed: set[int] = field(default_factory=set)
    """The rows that were touched, where lines were; all of them where `whole`."""
    whole: bool = True


Break = Callable[[bytes, random.Random], Broken]


def flipped(content: bytes, draw: random.Random) -> Broken:
    out = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 8])):
        out[draw.randrange(len(out))] ^= 1 << draw.randrange(8)
    return Broken(bytes(out), "bits flipped")


def truncated(content: bytes, draw: random.Random) -> Broken:
    return Broken(content[: draw.randrange(len(content))], "truncated")


def doubled(content: bytes, draw: random.Random) -> Broken:
    at, size = draw.randrange(len(content)), draw.randrange(1, 200)
    return Broken(content[:at] + content[at : at + size] * 2 + content[at:], "a piece twice")


def cut_out(content: bytes, draw: random.Random) -> Broken:
    at, size = draw.randrange(len(content)), draw.randrange(1, 200)
    return Broken(content[:at] + content[at + size :], "a piece missing")


def inserted(content: bytes, draw: random.Random) -> Broken:
    at = draw.randrange(len(content))
    return Broken(content[:at] + draw.choice(CELLS) + content[at:], "something put in")


def other(content: bytes, draw: random.Random) -> Broken:
    return Broken(
        draw.choice([b"", b"\n", b"\x00" * 64, b"PK\x03\x04", b"\x1f\x8b", b"{", b"a"]),
        "another file",
    )


def head(content: bytes) -> int:
    """Lines before the first row; svmlight has none."""
    end = content.lower().find(b"@data")
    return int(content[:1] == b"a") if end < 0 else content[:end].count(b"\n") + 1


def of_line(content: bytes, lines: list[bytes], number: int, what: str) -> Broken:
    """That line of the content was changed, which is a row, or else stands in the head."""
    row = number - head(content)
    return Broken(b"\n".join(lines), what, {row}, row < 0)


def cell(content: bytes, draw: random.Random) -> Broken:
    """One cell of one line of text."""
    lines = content.split(b"\n")
    number = draw.randrange(len(lines) - 1)
    words = re.split(rb"([,;\t :])", lines[number])
    words[2 * draw.randrange((len(words) + 1) // 2)] = draw.choice(CELLS)
    lines[number] = b"".join(words)
    return of_line(content, lines, number, f"a cell of line {number + 1}")


def ragged(content: bytes, draw: random.Random) -> Broken:
    """A line with a cell more or less."""
    lines = content.split(b"\n")
    number = draw.randrange(len(lines) - 1)
    mark = next((m for m in (b";", b"\t", b",") if m in lines[0]), b" ")
    cells = lines[number].split(mark)
    cells = cells[:-1] if draw.random() < 0.5 else [*cells, b"1"]
    lines[number] = mark.join(cells)
    return of_line(content, lines, number, f"line {number + 1} ragged")


def header(content: bytes, draw: random.Random) -> Broken:
    """The first line."""
    lines = content.split(b"\n")
    mark = next((m for m in (b";", b"\t", b",") if m in lines[0]), b",")
    names = lines[0].split(mark)
    at = draw.randrange(len(names))
    change = draw.choice(["twice", "gone", "blank", "odd", "none", "long"])
    if change == "twice":
        names[at] = names[at - 1]
    elif change == "gone":
        del names[at]
    elif change in ("blank", "odd"):
        names[at] = b"" if change == "blank" else draw.choice(CELLS)
    elif change == "long":
        names *= 50
    lines[0] = mark.join(names)
    return Broken(b"\n".join(lines[change == "none" :]), f"the first line: {change}")


def encoded(content: bytes, draw: random.Random) -> Broken:
    """The same in another encoding, or with other ends of lines."""
    text = content.replace(b"red", "réd".encode()).decode()
    made = {
        "latin-1": lambda: text.encode("latin-1"),
        "utf-16": lambda: text.encode("utf-16"),
        "utf-16-le": lambda: text.encode("utf-16-le"),
        "utf-8-sig": lambda: text.encode("utf-8-sig"),
        "old Macintosh": lambda: text.replace("\n", "\r").encode(),
        "Windows": lambda: text.replace("\n", "\r\n").encode(),
        "empty lines": lambda: text.replace("\n", "\n\n").encode(),
    }
    name = draw.choice(list(made))
    return Broken(made[name](), name)


def json_value(content: bytes, draw: random.Random) -> Broken:
    """One value, or one key, of one object."""
    lines = content.decode().split("\n")
    number = draw.randrange(len(lines) - 1)
    item = json.loads(lines[number])
    key = draw.choice(list(item))
    old = json.dumps(item[key])
    line = lines[number]
    at = line.index(json.dumps(key))
    if draw.random() < 0.3:
        lines[number] = (
            line[:at]
            + draw.choice(['"a"', '"labels"', '"features"', "1"])
            + line[at + len(json.dumps(key)) :]
        )
    else:
        lines[number] = line[:at] + line[at:].replace(old, draw.choice(JSON), 1)
    return Broken("\n".join(lines).encode(), f"a value of line {number + 1}", {number})


def array(content: bytes, draw: random.Random) -> Broken:
    """Arrays of another shape or type, or with odd numbers."""
    held = arrays(table())
    x, y = held["X"], held["Y"]
    made: dict[str, dict[str, object]] = {
        "NaN": {"X": np.where(x > 1, np.nan, x)},
        "infinite": {"X": np.where(x > 1, np.inf, x)},
        "objects": {"X": x.astype(object)},
        "words": {"X": x.astype(str)},
        "complex": {"X": x.astype(complex)},
        "one axis": {"X": x[:, 0]},
        "five axes": {"X": x[:, :, None, None, None]},
        "a row less": {"X": x[1:]},
        "a column less": {"X": x[:, 1:]},
        "no rows": {"X": x[:0]},
        "no columns": {"X": x[:, :0]},
        "a number": {"X": np.float32(3)},
        "big-endian": {"X": x.astype(">f4")},
        "by columns": {"X": np.asfortranarray(x)},
        "labels of 7": {"Y": y * 7},
        "labels of -1": {"Y": -y},
        "words as labels": {"Y": y.astype(str)},
        "split of 9": {"split": np.full(ROWS, 9)},
        "too many names": {"label_names": np.array(list("uvw"))},
        "equal names": {"label_names": np.array(["u", "u"])},
        "a scale of 0": {"X_scale": np.float32(0)},
        "a scale of words": {"X_scale": np.array("two")},
    }
    indptr = np.arange(ROWS + 1, dtype=np.int64)
    sparse = {"X_indptr": indptr, "X_indices": np.arange(ROWS) % 3, "X_shape": np.array([ROWS, 3])}
    change = draw.choice([*made, "negative", "beyond", "falling", "huge", "floats"])
    if change in made:
        return Broken(of_numpy(held | made[change], draw.choice(["n.npz", "p.npz"])), change)
    del held["X"], held["feature_names"]
    if change in ("negative", "beyond"):
        sparse["X_indices"] = sparse["X_indices"] * (-1 if change == "negative" else 10**6)
    elif change == "falling":
        sparse["X_indptr"] = sparse["X_indptr"][::-1].copy()
    elif change == "huge":
        sparse["X_shape"] = np.array([ROWS, 2 * 10**9])
    else:
        sparse = {name: each.astype(float) + 0.5 for name, each in sparse.items()}
    return Broken(of_numpy(held | sparse, "n.npz"), f"sparse arrays: {change}")


def npy_head(content: bytes, draw: random.Random) -> Broken:
    """The head of an array says something else than what follows."""
    head = draw.choice(
        [b"(24000000000, 3)", b"(-24, 3)", b"(24, 3, 1, 1, 1)", b"(24,)", b"24", b"()"]
    )
    made = content.replace(b"(24, 3), ", (head + b", ").ljust(9))
    return Broken(
        made.replace(b"<f4", draw.choice([b"<f4", b"<f8", b"|O8", b"<U9"])), "another head"
    )


def huge(content: bytes, draw: random.Random) -> Broken:
    """Numbers that declare far more than there is."""
    lines = content.split(b"\n")
    number = draw.randrange(len(lines) - 1)
    lines[number] = draw.choice([b"0 2000000000:1", b"2000000000 0:1", b"1 -5:1", b"-1 0:1"])
    if draw.random() < 0.3:
        lines.insert(
            0, draw.choice([b"24 2000000000 2", b"2000000000 3 2", b"-1 3 2", b"24 3 2000000000"])
        )
    return Broken(b"\n".join(lines), "huge or negative numbers", {number}, True)


def zipped(content: bytes, draw: random.Random) -> Broken:
    """Broken within the compression."""
    inner = gzip.decompress(content)
    found = draw.choice([flipped, truncated, inserted, cell, ragged])(inner, draw)
    level = draw.choice([0, 9])
    return Broken(gzip.compress(found.content, level), found.what, found.changed, found.whole)


def twice_zipped(content: bytes, draw: random.Random) -> Broken:
    made = draw.choice(
        [gzip.compress(content), gzip.decompress(content), content + b"rest", content * 2]
    )
    return Broken(made, "compressed otherwise")


ANY: tuple[Break, ...] = (flipped, truncated, doubled, cut_out, inserted, other)
TEXT: tuple[Break, ...] = (cell, cell, cell, ragged, encoded)
BREAKS: dict[str, tuple[Break, ...]] = {
    "csv": (*ANY, *TEXT, ragged, header, header),
    "tsv": (*ANY, *TEXT, ragged, header, header),
    "jsonl": (*ANY, encoded, json_value, json_value, json_value),
    "arff": (*ANY, *TEXT, cell),
    "svm": (*ANY, *TEXT, huge),
    "gz": (flipped, truncated, zipped, zipped, twice_zipped, other),
    "npz": (*ANY, array, array, array, array),
    "npy": (*ANY, npy_head, npy_head),
    "parquet": ANY,
    "feather": ANY,
}


# ---- a case ------------------------------------------------------------------------------------


@dataclass
class Case:
    """A command line, its broken file, and what is known of the answer."""

    argv: list[str]
    path: Path | None
    broken: Broken | None
    out: Path | None = None
    reference: list[str] | None = None
    stdin: bool = False


ODD = [
    *(
        "x",
        "-1",
        "0",
        "nan",
        "",
        "1e9",
        "{}",
        "[]",
        "null",
        "true",
        "=",
        "🍴",
        "a" * 3000,
        "../..",
        "*",
    ),
    *("99999999999999999999", "\u202e", "{" * 500, "[1, 2]"),
]
KEYS = [
    *(
        "label_columns",
        "label_column",
        "delimiter",
        "labels",
        "text_column",
        "id_column",
        "separator",
    ),
    *(
        "unknown",
        "n_features",
        "header",
        "memory",
        "split_column",
        "feature_columns",
        "format",
        "nokey",
    ),
    *(
        "label_names",
        "image_column",
        "index_base",
        "label_key",
        "ignore_columns",
        "features",
        "test",
    ),
]


class Fuzzer:
    """Cases by number, and the folder that they live in."""

    def __init__(self, folder: Path, seed: int) -> None:
        from labelset.cli import main

        signal.signal(signal.SIGALRM, _alarm)
        self.folder, self.seed, self.main = folder, seed, main
        self.files = valid()
        self.runs = {}
        for name, key in {
            "n.csv": 'feature_columns=["a","b","c"]',
            "n.npz": None,
            "n.svm": None,
        }.items():
            source, run = folder / name, folder / f"run-{name}"
            source.write_bytes(self.files[name])
            words = ["--data", key, "--data", 'label_columns=["tag:*"]'] if key else []
            status, text = self.called(
                ["train", str(source), *words, "--epochs", "15", "--quiet", "--out", str(run)]
            )
            assert status == 0, text
            self.runs[name] = run
        self.references: dict[tuple[str, str], list[str]] = {}

    def called(self, argv: list[str], stdin: bytes | None = None) -> tuple[int, str]:
        """Exit status, and what was said; output goes to a file that is not read."""
        said, given = io.StringIO(), sys.stdin
        if stdin is not None:
            sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
                status = self.main(argv)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        finally:
            sys.stdin = given
        return status, said.getvalue()

    def case(self, number: int) -> Case:
        """The case of that number; its files are written."""
        draw = random.Random(f"{self.seed}-{number}")
        work = self.folder / "case"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        verb = draw.choices(["inspect", "predict", "train", "compare", "run"], [30, 45, 12, 1, 12])[
            0
        ]
        if verb == "run":
            return Case(self._about_a_run(draw, work), None, None)
        name = draw.choice(list(self.files))
        broken = draw.choice(BREAKS[name.rpartition(".")[2]])(self.files[name], draw)
        path, out = work / name, work / "out"
        path.write_bytes(broken.content)
        words: list[str] = []
        if draw.random() < 0.3:
            words = [
                "--data",
                f"{draw.choice(KEYS)}={draw.choice([*ODD, 'a', 'text', 'tag:*', ';'])}",
            ]
        if verb == "inspect":
            return Case(
                ["data", "inspect", str(path), *words, *draw.choice([[], ["--json"]])], path, broken
            )
        if verb == "predict":
            return self._predict(draw, name, path, broken, out, words)
        learn = ["--epochs", "1", "--quiet", "--out", str(out)]
        if not words and "csv" in name:
            words = ["--data", 'label_columns=["tag:*"]', "--data", "text_column=text"]
        if verb == "compare":
            learn += ["--losses", "bce", "--seeds", "1"]
        return Case([verb, str(path), *words, *learn], path, broken, out)

    def _predict(
        self,
        draw: random.Random,
        name: str,
        path: Path,
        broken: Broken,
        out: Path,
        words: list[str],
    ) -> Case:
        kind = "n.svm" if "svm" in name else draw.choice(["n.csv", "n.npz"])
        run = self.runs[kind]
        end = ["--out", str(out)]
        stdin = draw.random() < 0.15
        if stdin:
            ending = name.removesuffix(".gz").rpartition(".")[2]
            formats = {"svm": "svmlight", "feather": "parquet"}
            words = [*words, "--format", formats.get(ending, ending)]
        argv = ["predict", str(run), "-" if stdin else str(path), *words, *end]
        reference = None
        if not (words or broken.whole or not broken.changed):
            reference = self._reference(kind, name)
        return Case(argv, path, broken, out, reference, stdin)

    def _reference(self, kind: str, name: str) -> list[str]:
        """The lines that `predict` writes for the file as it was."""
        if (kind, name) not in self.references:
            path, out = self.folder / name, self.folder / "reference.jsonl"
            path.write_bytes(self.files[name])
            status, said = self.called(
                ["predict", str(self.runs[kind]), str(path), "--out", str(out)]
            )
            assert status == 0, said
            lines = self.references[kind, name] = out.read_text().splitlines()
            assert (
                len({line.partition("labels")[2] for line in lines}) > ROWS / 2
            )  # tells rows apart
        return self.references[kind, name]

    def _about_a_run(self, draw: random.Random, work: Path) -> list[str]:
        """Verbs that read a run, with one odd argument."""
        run = work / "run"
        shutil.copytree(self.runs[draw.choice(list(self.runs))], run)
        odd = draw.choice(ODD)
        (work / "odd.json").write_text(
            draw.choice([*JSON, odd]), encoding="utf-8", errors="replace"
        )
        options = {
            "evaluate": ["--on", "--metrics", "--per-label"],
            "decide": ["--rule", "--on", "--set", "--from", "--most"],
            "calibrate": ["--map", "--on", "--set", "--loss", "--diagram"],
            "predict": ["--scores", "--format", "--text", "--data", "--to"],
        }
        verb = draw.choice(list(options))
        option = draw.choice(options[verb])
        named = [
            "per-class",
            "top-k",
            "budget",
            "isotonic",
            "phi",
            "bce",
            "map@class",
            "psp@k",
            "valid",
            "test",
        ]
        value = draw.choice([odd, draw.choice(named), f"{draw.choice(['k', 'per', 'beta'])}={odd}"])
        value = str(work / "odd.json") if option == "--from" else value
        value = str(work / "curve.svg") if option == "--diagram" else value
        rows = [draw.choice(["valid", str(work / "odd.json")])] if verb == "predict" else []
        return [
            verb,
            str(run),
            *rows,
            *([option] if option == "--scores" else [f"{option}={value}"]),
        ]

    # ---- what must hold ------------------------------------------------------------------------

    def faults(self, case: Case) -> Iterator[str]:
        """What is wrong with how the case ends."""
        content = case.broken.content if case.broken and case.stdin else None
        before = peak(anew=True)
        try:
            signal.alarm(SECONDS)
            status, said = self.called(case.argv, content)
        except TooLong:
            yield f"takes more than {SECONDS} seconds"
            return
        except BaseException as error:  # a traceback, to the user
            yield f"{type(error).__name__}: {error}"
            return
        finally:
            signal.alarm(0)
        grown = peak() - before
        if grown > MORE:
            yield f"takes {grown >> 20} MB more"
        yield from self.judged(case, status, said)

    def apart(self, case: Case) -> Iterator[str]:
        """The same in a process of its own, with little memory."""
        limit = (resource.RLIMIT_DATA, (MOST, MOST))
        command = [sys.executable, "-m", "labelset", *case.argv]
        content = case.broken.content if case.broken and case.stdin else b""
        try:
            done = subprocess.run(
                command,
                input=content,
                capture_output=True,
                timeout=6 * SECONDS,
                check=False,
                preexec_fn=lambda: resource.setrlimit(*limit),
            )
        except subprocess.TimeoutExpired:
            yield f"takes more than {6 * SECONDS} seconds in a process of its own"
            return
        yield from self.judged(case, done.returncode, done.stderr.decode(errors="replace"))

    def judged(self, case: Case, status: int, said: str) -> Iterator[str]:
        """By its exit status and by what it said."""
        if status not in (0, 2):
            yield f"exit status {status}: {said[-300:]}"
        bare = BARE.search(said)
        if bare:
            yield f"a bare message: ...{said[max(0, bare.start() - 200) : bare.end() + 80]}"
        left = [path.name for path in (self.folder / "case").rglob("*.part")]
        if left:
            yield f"half a file is left: {left}"
        if status == 2:
            lines = [line for line in said.splitlines() if line.startswith("labelset: ")]
            if len(lines) != 1 or not said.endswith(lines[0] + "\n"):
                yield f"not one clean line: {said[-300:]!r}"
            elif len(lines[0]) > 1500:
                yield f"an endless line: {lines[0][:300]}..."
            elif any(ord(letter) < 32 for letter in lines[0]):
                yield f"unprintable: {lines[0][:300]!r}"
            elif case.path and not self.names(case, lines[0]):
                yield f"does not name the file: {lines[0]}"
            if case.argv[0] == "predict" and case.out and case.out.exists():
                yield "an output file although it failed"
        elif status == 0 and case.argv[0] == "predict" and case.out:
            yield from self.differing(case)

    def names(self, case: Case, line: str) -> bool:
        """Whether the message is about the file, or about an option that was given."""
        said = str(case.path) in line or (case.stdin and "standard input" in line)
        return said or "--data" in case.argv or "--format" in line

    def differing(self, case: Case) -> Iterator[str]:
        """What is written is whole, and rows that were not touched have their answer."""
        assert case.out is not None
        rows = case.out.read_text().splitlines()
        try:
            items = [json.loads(row) for row in rows]
        except ValueError:
            yield "does not write JSON"
            return
        if [item["row"] for item in items] != list(range(len(items))):
            yield "rows are not numbered"
        if case.reference and case.broken and len(rows) == len(case.reference):
            for at, (got, due) in enumerate(zip(rows, case.reference, strict=True)):
                if at not in case.broken.changed and got != due:
                    yield f"row {at} was not touched, and is answered otherwise: {got} for {due}"
                    return


def peak(*, anew: bool = False) -> int:
    """The most bytes that this process has held; `anew`: begin with what it holds now."""
    try:
        if anew:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) << 10
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


class TooLong(BaseException):
    """A case hangs; no program may catch it."""


def _alarm(*_: object) -> None:
    raise TooLong


def keep(case: Case, seed: int, number: int, faults: list[str]) -> str:
    """Keep the files of a failure; how to have it again."""
    folder = KEPT / f"{seed}-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if case.path is not None:
        shutil.copy(case.path, folder)
    what = case.broken.what if case.broken else "arguments"
    lines = [f"seed {seed}, case {number}: {what}", f"labelset {shlex.join(case.argv)}", *faults]
    (folder / "about.txt").write_text("\n".join(lines) + "\n", errors="replace")
    again = f"again: python tests/fuzz/fuzz.py --seed {seed} --only {number}; files in {folder}"
    return "\n  ".join([*lines, again]).encode(errors="replace").decode()


def fuzz(
    seed: int, seconds: float = 1e9, cases: int = 10**9, only: int | None = None, apart: int = 100
) -> list[str]:
    """The failures found; every `apart`-th case runs in a process of its own."""
    found, number = list[str](), 0
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fuzzer = Fuzzer(Path(folder), seed)
        until = time.monotonic() + seconds
        for number in range(cases) if only is None else [only]:
            if time.monotonic() > until:
                break
            case = fuzzer.case(number)
            far = number % apart == apart - 1
            faults = list(fuzzer.apart(case) if far else fuzzer.faults(case))
            if faults:
                found.append(keep(case, seed, number, faults))
                print(found[-1], flush=True)
    print(f"seed {seed}: case {number} was the last, {len(found)} failures")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", type=int, help="this case alone")
    args = parser.parse_args()
    return 1 if fuzz(args.seed, args.seconds, only=args.only) else 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
