"""Where seconds and memory of `labelset compare` go: read, encode, fit, judge, prove, blend, write.

    python benchmarks/answer.py FILE ... [--csv TABLE.csv] [--rivals]

Each file is compared in a process of its own. A phase does not count what is done in another one
within it; what belongs to none is `start` (imports, above all). Megabytes are the most that the
process held during the phase. --rivals: the seconds of scikit-learn's loop of benchmarks/quality.py
as well.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PHASES = ("start", "read", "encode", "fit", "judge", "prove", "blend", "write")


def main() -> None:
    """A line of seconds and one of megabytes for each file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--csv")
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--measured", metavar="TABLE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measured:
        Path(options.measured).write_text(json.dumps(measured(options.files[0])))
        return
    columns = ["data", "what", *PHASES, "all", *(["scikit-learn"] if options.rivals else [])]
    print("".join(f"{name:>12}" for name in columns))
    lines: list[list[Any]] = [columns]
    for file in options.files:
        name, table = Path(file).name.split(".")[0], apart(__file__, file, "--measured")
        seconds = [table[phase][0] for phase in PHASES]
        peaks = [table[phase][1] for phase in PHASES]
        both = [[name, "s", *seconds, sum(seconds)], [name, "MB", *peaks, max(peaks)]]
        if options.rivals:
            rivals = apart(str(Path(__file__).with_name("quality.py")), file, "--rivals")
            both[0].append(sum(took for _, took, _, _ in rivals))
        for line in both:
            lines.append([f"{x:.1f}" if isinstance(x, float) else x for x in line])
            print("".join(f"{cell:>12.12}" for cell in lines[-1]), flush=True)
    if options.csv:
        with open(options.csv, "w", newline="") as to:
            csv.writer(to, lineterminator="\n").writerows(lines)


def apart(script: str, file: str, option: str) -> Any:
    """What a script writes as JSON, run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.json"
        subprocess.run([sys.executable, script, file, option, str(table)], check=True)
        return json.loads(table.read_text())


class Clock:
    """Seconds and peaks of phases, of which one at a time is counted."""

    def __init__(self) -> None:
        self.found = {phase: [0.0, 0.0] for phase in PHASES}
        self.inside = ["start"]
        self.since = time.perf_counter()

    def turn(self) -> None:
        """What has passed belongs to the innermost phase."""
        now, own = time.perf_counter(), self.found[self.inside[-1]]
        own[0] += now - self.since
        status = Path("/proc/self/status").read_text()
        own[1] = max(own[1], int(status.partition("VmHWM:")[2].split()[0]) / 1024)
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins at what is held now
        self.since = now

    def phase(self, owner: Any, name: str, phase: str) -> None:
        """Calls of that function are this phase."""
        right: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: Any, **settings: Any) -> Any:
            self.turn()
            self.inside.append(phase)
            try:
                return right(*arguments, **settings)
            finally:
                self.turn()
                self.inside.pop()

        setattr(owner, name, timed)


def measured(file: str) -> dict[str, list[float]]:
    """The phases of one comparison, in this process."""
    clock = Clock()
    from labelset import encode, report
    from labelset.cli import compare as verb
    from labelset.cli import main as command
    from labelset.runs import comparison, judging, search, shelf

    clock.phase(verb, "loaded", "read")
    clock.phase(encode, "encoded", "encode")
    clock.phase(comparison, "search", "fit")
    clock.phase(shelf, "judge_and_save", "judge")
    clock.phase(judging, "proof_of", "prove")
    clock.phase(search, "blend", "blend")
    clock.phase(comparison, "found_by_search", "write")
    clock.phase(comparison, "_write", "write")
    clock.phase(report, "write_report", "write")
    with tempfile.TemporaryDirectory() as folder, open("/dev/null", "w") as quiet:
        sys.stdout = quiet
        if command(["compare", file, "--out", str(Path(folder) / "run"), "--quiet"]):
            raise SystemExit(f"{file}: could not be compared")
        sys.stdout = sys.__stdout__
    clock.turn()
    return clock.found


if __name__ == "__main__":
    main()
