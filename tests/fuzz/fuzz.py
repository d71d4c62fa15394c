"""Broken files and odd arguments through the command line; `make fuzz SECONDS=300`.

A case starts from a valid file of some format, scores or a folder that training left, breaks one
thing in it, and asks a verb about it. It must end well, or with exit status 2 and one clean line
that names the file; in neither case with a traceback, a bare message of a library, half an output
file, too much time or too much memory. Where a file with one changed line is still read, all other
rows must get the answer that they had; a run with a changed file must give its answer or none.

A case follows from its seed and number alone: `python tests/fuzz/fuzz.py --seed 7 --only 123` runs
that one again, and the files of failures stay in build/fuzz.
"""

from __future__ import annotations

import argparse
import contextlib
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
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from broken import (
    ANY,
    BREAKS,
    JSON,
    ROWS,
    Broken,
    array,
    arrays,
    flipped,
    gone,
    npy_head,
    of_numpy,
    table,
    valid,
)
from folders import blended, halted, resealed, resume

KEPT = Path(__file__).parents[2] / "build" / "fuzz"
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
    due: bytes | None = None
    """What is printed and written where nothing is broken."""


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
            status, text, _ = self.called(
                ["train", str(source), *words, "--epochs", "15", "--quiet", "--out", str(run)]
            )
            assert status == 0, text
            self.runs[name] = run
        self.answers: dict[tuple[str, str], bytes] = {}
        self.references: dict[tuple[str, str], list[str]] = {}

    @cached_property
    def folders(self) -> dict[str, Path]:
        """All that training left."""
        rows, blend, half = (self.folder / name for name in ("n.npz", "blend", "halted"))
        made = {"blend": blended(rows, self.runs["n.npz"], blend)}
        return self.runs | made | {"halted": halted(rows, half, self.called)}

    def called(self, argv: list[str], stdin: bytes | None = None) -> tuple[int, str, str]:
        """Exit status, what was said, and what was printed."""
        said, printed, given = io.StringIO(), io.StringIO(), sys.stdin
        if stdin is not None:
            sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
                status = self.main(argv)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        finally:
            sys.stdin = given
        return status, said.getvalue(), printed.getvalue()

    def case(self, number: int) -> Case:
        """The case of that number; its files are written."""
        draw = random.Random(f"{self.seed}-{number}")
        work = self.folder / "case"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        chances = {"inspect": 30, "predict": 45, "train": 12, "compare": 1, "run": 12}
        chances |= {"folder": 15, "scores": 8}
        verb = draw.choices(list(chances), list(chances.values()))[0]
        if verb == "run":
            return Case(self._about_a_run(draw, work), None, None)
        if verb in ("folder", "scores"):
            return (self._folder if verb == "folder" else self._scores)(draw, work)
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
            status, said, _ = self.called(
                ["predict", str(self.runs[kind]), str(path), "--out", str(out)]
            )
            assert status == 0, said
            lines = self.references[kind, name] = out.read_text().splitlines()
            assert (
                len({line.partition("labels")[2] for line in lines}) > ROWS / 2
            )  # tells rows apart
        return self.references[kind, name]

    def _folder(self, draw: random.Random, work: Path) -> Case:
        """A verb about a folder in which one file is broken."""
        name, run = draw.choice(list(self.folders)), work / "run"
        argvs = {
            "evaluate": ["evaluate", str(run), "--json"],
            "predict": ["predict", str(run), str(self.folder / "n.npz")],
            "decide": ["decide", str(run), "--json"],
            "calibrate": ["calibrate", str(run), "--json"],
            "doctor": ["doctor", str(run), "--json"],
            "query": ["query", str(run), "tag:u" if name == "n.csv" else "0"],
        }
        if name in self.runs:
            argvs["predict"][2] = str(self.folder / name)
        if name == "halted":
            argvs = {"resume": resume(self.folder / "n.npz", run)}
        verb = draw.choice(list(argvs))
        out = run / "best" / "head.safetensors" if verb == "resume" else None
        if (name, verb) not in self.answers:
            shutil.copytree(self.folders[name], run)
            status, said, printed = self.called(argvs[verb])
            assert status in (0, 1), said
            self.answers[name, verb] = printed.encode() + (out.read_bytes() if out else b"")
            shutil.rmtree(run)
        shutil.copytree(self.folders[name], run)
        path = draw.choice(sorted(p for p in run.rglob("*") if p.is_file() and p.stat().st_size))
        broken = draw.choice([*ANY, flipped, gone])(path.read_bytes(), draw)
        broken.what += f" of {name}/{path.relative_to(run)}"
        path.write_bytes(broken.content)
        due: bytes | None = self.answers[name, verb]
        if draw.random() < 0.5:
            resealed(run)
            due = None
        return Case(argvs[verb], run, broken, out, due=due)

    def _scores(self, draw: random.Random, work: Path) -> Case:
        """Scores, or labels, of somebody else's model, of which one file is broken."""
        held = arrays(table())
        scores = (held["X"][:, :2] * 3).astype(draw.choice(["f4", "f8", "f2"]))
        files = {"v.npy": scores, "v.npz": {"scores": scores}, "y.npy": held["Y"]}
        files |= {"y.npz": {"Y": held["Y"], "label_names": np.array(["u", "v"])}}
        names = {
            "scores": draw.choice(["v.npy", "v.npz"]),
            "labels": draw.choice(["y.npy", "y.npz"]),
        }
        for name in names.values():
            content = files[name]
            whole = content if isinstance(content, dict) else {"X": content}
            (work / name).write_bytes(of_numpy(whole, name))
        path = work / names[draw.choice(list(names))]
        more = npy_head if path.suffix == ".npy" else array
        broken = draw.choice([*ANY, more])(path.read_bytes(), draw)
        path.write_bytes(broken.content)
        both, out = [str(work / name) for name in names.values()], work / "out"
        if draw.random() < 0.4 and path.name == names["scores"]:
            argv = ["predict", str(self.runs["n.npz"]), str(path), "--scores", "--out", str(out)]
            return Case(argv, path, broken, out)
        return Case(["pack", str(out), "--valid", *both], path, broken, out)

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
            status, said, printed = self.called(case.argv, content)
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
        yield from self.judged(case, status, said, printed)

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
        said, printed = (text.decode(errors="replace") for text in (done.stderr, done.stdout))
        yield from self.judged(case, done.returncode, said, printed)

    def judged(self, case: Case, status: int, said: str, printed: str) -> Iterator[str]:
        """By its exit status, by what it said, and by what was printed."""
        found = case.argv[0] == "doctor" and status == 1
        if status not in (0, 2) and not found:
            yield f"exit status {status}: {said[-300:]}"
        bare = BARE.search(said)
        if bare:
            yield f"a bare message: ...{said[max(0, bare.start() - 200) : bare.end() + 80]}"
        now, before = (self.folder / name for name in ("case", "halted"))
        left = {path.name for path in now.rglob("*.part")}
        left -= {path.name for path in before.rglob("*.part")}  # what a kill had left already
        if left:
            yield f"half a file is left: {sorted(left)}"
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
        elif case.due is not None:
            written = case.out.read_bytes() if case.out else b""
            if printed.encode() + written != case.due:
                yield f"another answer than before it was broken: {printed[-300:]}"
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
        (shutil.copytree if case.path.is_dir() else shutil.copy)(case.path, folder / case.path.name)
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
