"""How long `labelset.data.load` takes for a large file, and how much memory at its peak.

`python benchmarks/reading.py --megabytes 1024 --version NAME >> benchmarks/reading.csv` writes the
files into a temporary folder, reads each in a process of its own, and prints one row for each:
version, kind, megabytes, rows, seconds, seconds of CPU, megabytes by which the peak grew.
PYTHONPATH chooses the version that is measured.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

LOAD = """
import json, sys, time
from labelset.data import load

def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024

path, small, flags = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
load(small, **flags)  # imports everything
before, start, cpu = peak(), time.perf_counter(), time.process_time()
rows = len(load(path, **flags))
spent = time.perf_counter() - start, time.process_time() - cpu
print(json.dumps([rows, *(round(seconds, 1) for seconds in spent), round(peak() - before)]))
"""


def numbers(row: int) -> str:
    """50 features and 2 labels."""
    return (
        ",".join(f"{(row * 7 + i) % 1000 / 8}" for i in range(50)) + f",{row % 2},{row % 3 // 2}\n"
    )


WORDS = [f"word{i}" for i in range(1000)]


def text(row: int) -> str:
    """80 words."""
    start = row * 37 % 900
    return " ".join(WORDS[start : start + 80])


def texts(row: int) -> str:
    """A text in quotes, with quotes, and one or two labels by name."""
    return f'"{text(row)}, ""said"" {row}",{"news|sport" if row % 2 else "arts"}\n'


def objects(row: int) -> str:
    """A text and two labels by number."""
    return json.dumps({"text": f"{text(row)} {row}", "labels": [row % 7, 7 + row % 3]}) + "\n"


KINDS = {
    "csv-numbers": (
        "csv",
        ",".join([*(f"x{i}" for i in range(50)), "a", "b"]) + "\n",
        numbers,
        {"labels": 2},
    ),
    "csv-texts": ("csv", "body,tags\n", texts, {"text_column": "body", "label_column": "tags"}),
    "jsonl-texts": ("jsonl", "", objects, {}),
}


def write(path: Path, kind: str, size: int) -> None:
    """A file of about this many bytes; the same lines come again and again."""
    _, head, line, _ = KINDS[kind]
    block = "".join(line(row) for row in range(4000))
    with path.open("w") as file:
        file.write(head)
        for _ in range(max(1, size // len(block))):
            file.write(block)


def main() -> None:
    """One row for each kind of file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--version", default="now")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    args = parser.parse_args()
    out = csv.writer(sys.stdout, lineterminator="\n")
    for kind in args.kinds:
        ending, *_, flags = KINDS[kind]
        with tempfile.TemporaryDirectory() as folder:
            large, small = (Path(folder) / f"{name}.{ending}" for name in ("large", "small"))
            write(large, kind, args.megabytes << 20)
            write(small, kind, 8 << 20)
            work = [sys.executable, "-c", LOAD, str(large), str(small), json.dumps(flags)]
            done = subprocess.run(work, capture_output=True, text=True, check=False)
            said = json.loads(done.stdout) if done.returncode == 0 else ["failed", "", "", ""]
            out.writerow([args.version, kind, args.megabytes, *said])
            sys.stdout.flush()
            if done.returncode:
                print(done.stderr, file=sys.stderr)


if __name__ == "__main__":
    main()
