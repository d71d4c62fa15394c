"""Where seconds and memory of `labelset compare` go: read, encode, fit, judge, prove, blend, write.

    python benchmarks/answer.py FILE ... [--csv TABLE.csv] [--rivals]
    python benchmarks/answer.py FILE ... --many

Each file is compared in a process of its own. A phase does not count what is done in another one
within it; what belongs to none is `start` (imports, above all). `s` are seconds, `cpu` those of all
cores together: where others use the machine as well, ratios of these say more. Megabytes are the
most that the process held during the phase. --rivals: scikit-learn's loop of benchmarks/quality.py
as well. --many: how many times as long as one loss 24 losses take that are named with --losses.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MANY = [
    *("bce", "squared-hinge", "asl", "spa", "hill", "focal", "focal-margin", "mse", "splc", "wan"),
    *(f"bce:pos_weight={weight}" for weight in (0.5, 2, 3, 4, 8)),
    *("bce:smoothing=0.1", "bce:neg_weight=0.5", "asl:margin=0"),
    *(f"asl:gamma_neg={gamma}" for gamma in (1, 2, 3)),
    *(f"focal:gamma={gamma}" for gamma in (0.5, 1, 3)),
]
"""Losses, and losses with settings: 24."""
PHASES = ("start", "read", "encode", "fit", "judge", "prove", "blend", "write")


def main() -> None:
    """Lines of seconds and megabytes for each file, or a line of ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--csv")
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--measured", metavar="TABLE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measured:
        Path(options.measured).write_text(json.dumps(measured(options.files[0])))
        return
    if options.many:
        for file in options.files:
            one, many = (timed(file, losses) for losses in (["bce"], MANY))
            ratios = "  ".join(
                f"{b:.1f} / {a:.1f} = {b / a:.2f}" for a, b in zip(one, many, strict=True)
            )
            print(f"{Path(file).name}: s, then cpu, of 24 over 1: {ratios}", flush=True)
        return
    columns = ["data", "what", *PHASES, "all", *(["scikit-learn"] if options.rivals else [])]
    print("".join(f"{name:>12}" for name in columns))
    lines: list[list[Any]] = [columns]
    for file in options.files:
        name, table = Path(file).name.split(".")[0], apart(__file__, file, "--measured")
        both = [
            [name, what, *(table[phase][at] for phase in PHASES)]
            for at, what in enumerate(("s", "cpu", "MB"))
        ]
        for line in both:
            line.append((max if line[1] == "MB" else sum)(line[2:]))
        if options.rivals:
            rivals = apart(str(Path(__file__).with_name("quality.py")), file, "--rivals")
            for at in (0, 1):
                both[at].append(sum(each[1 + at] for each in rivals))
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
        waiting = os.environ | {"OMP_WAIT_POLICY": "PASSIVE"}  # as the command line has it
        subprocess.run([sys.executable, script, file, option, str(table)], check=True, env=waiting)
        return json.loads(table.read_text())


def timed(file: str, losses: list[str]) -> tuple[float, float]:
    """Seconds of a comparison of these losses, and those of all cores."""
    from quality import ran

    with tempfile.TemporaryDirectory() as folder:
        asked = ["--out", str(Path(folder) / "run"), "--quiet", "--losses", *losses]
        return ran("-m", "labelset", "compare", file, *asked)[:2]


class Clock:
    """Seconds and peaks of phases, of which one at a time is counted."""

    def __init__(self) -> None:
        self.found = {phase: [0.0, 0.0, 0.0] for phase in PHASES}
        self.inside = ["start"]
        self.since = self.now()

    @staticmethod
    def now() -> tuple[float, float]:
        """Seconds on the clock, and of all cores."""
        return time.perf_counter(), time.process_time()

    def turn(self) -> None:
        """What has passed belongs to the innermost phase."""
        now, own = self.now(), self.found[self.inside[-1]]
        for at in (0, 1):
            own[at] += now[at] - self.since[at]
        status = Path("/proc/self/status").read_text()
        own[2] = max(own[2], int(status.partition("VmHWM:")[2].split()[0]) / 1024)
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
