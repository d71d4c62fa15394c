"""`labelset bench`: how fast each loss is here, by each implementation."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

from labelset import bench, check, kernels, losses
from labelset.cli.options import writable
from labelset.files import write_bytes
from labelset.terminal import progress, table

ABOUT = """Time forward and backward of each loss by each implementation on this machine.

Every figure stands beside the floor: scores and one byte of target read once, the gradient written
once, at the bandwidth of a large copy on the device. On a GPU calls are queued back to back between
two events, and small shapes are also measured one synchronised call at a time; on a CPU by the wall
clock. Errors are against the formula in float64, on the same random scores. A case that fails, or
runs out of memory, is a row with a note.

Implementations: eager (the formula as this package has it), torch.compile (of that formula,
backward by autograd), compiled (value and gradient in one compiled function), triton, native and
auto."""
SHAPES = ["512x80", "256x8921"]
GPU_SHAPES = [*SHAPES, "256x20000", "512x131072", "4096x131072"]


def add(verb: Any) -> None:
    """Its options."""
    verb.add_argument("--losses", nargs="+", metavar="LOSS", help="names (all)")
    verb.add_argument(
        "--impl",
        nargs="+",
        metavar="NAME",
        help="implementations (those there are; on a CPU without torch.compile and compiled)",
    )
    verb.add_argument("--all", action="store_true", help="also those that compile slowly")
    verb.add_argument(
        "--shapes",
        nargs="+",
        metavar="SHAPE",
        help=f"ROWSxLABELS ({' '.join(SHAPES)}; on a GPU also {' '.join(GPU_SHAPES[2:])})",
    )
    verb.add_argument(
        "--dtypes",
        nargs="+",
        default=["float32", "bfloat16"],
        choices=bench.DTYPES,
        metavar="DTYPE",
        help="of the scores: float32, bfloat16, float16 (float32 bfloat16)",
    )
    verb.add_argument("--device", help="cpu or cuda (cuda where there is one)")
    verb.add_argument(
        "--labels",
        choices=bench.LABEL_KINDS,
        default="dense",
        help="dense: a bool matrix; float: the same as float32 numbers; sparse: Labels (dense)",
    )
    verb.add_argument(
        "--density",
        type=float,
        help="share of positive labels (0.01, and at most 50 of a row)",
    )
    verb.add_argument(
        "--limit",
        type=float,
        default=0.5,
        help="seconds to sample each case; a slower call is measured once (0.5)",
    )
    verb.add_argument("--seed", type=int, default=0, help="of the random scores and labels (0)")
    verb.add_argument("--out", metavar="CSV", help="write the rows here, as they come")
    verb.add_argument("--add", action="store_true", help="keep the other rows that the CSV holds")
    verb.add_argument("--plot", metavar="SVG", help="draw the ratios to the floor")
    verb.add_argument("--json", action="store_true", help="print JSON instead of the table")
    verb.add_argument("--quiet", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> None:
    """Measure, write as it goes, and print."""
    wanted = _bench(args)
    for path in filter(None, (args.out, args.plot)):
        writable(path)
    if args.add and not args.out:
        raise ValueError("--add needs --out, the CSV to add to")
    old = bench.read_rows(args.out) if args.add and Path(args.out).exists() else []
    rows: list[bench.BenchRow] = []
    with progress(not args.quiet) as bar:
        for done, found in enumerate(wanted.rows(), 1):
            rows += found
            if args.out:
                bench.write_rows(args.out, bench.merged(old, rows))
            if bar:
                bar(done, wanted.total)
    if args.plot:
        drawn = bench.plot(bench.merged(old, rows))
        write_bytes(Path(args.plot), drawn.encode())
    _print(args, rows)


def _bench(args: argparse.Namespace) -> bench.Bench:
    check.number("--limit", args.limit, low=0.0, open_low=True)
    if args.density is not None:
        check.number("--density", args.density, low=0.0, high=1.0)
    check.whole("--seed", args.seed)
    device = _device(args.device)
    names = args.losses or losses.names()
    for name in names:
        losses.catalog.get(name)
    usual = SHAPES if device == "cpu" else GPU_SHAPES
    shapes = [bench.shape(text) for text in args.shapes or usual]
    impl = bench.chosen(args.impl) if args.impl else bench.usual(device, args.all)
    cases = [
        bench.Case(
            loss=name,
            rows=rows,
            labels=n,
            dtype=dtype,
            device=device,
            label_kind=args.labels,
            density=bench.usual_density(n) if args.density is None else args.density,
            seed=args.seed,
        )
        for rows, n in dict.fromkeys(shapes)
        for dtype in dict.fromkeys(args.dtypes)
        for name in dict.fromkeys(names)
    ]
    return bench.Bench(cases=cases, implementations=impl, seconds=args.limit)


def _device(name: str | None) -> str:
    """cpu or a CUDA device that is there."""
    import torch

    there = torch.cuda.is_available()
    found = torch.device(name or ("cuda" if there else "cpu"))
    if found.type not in ("cpu", "cuda"):
        raise ValueError(f"--device must be cpu or cuda, got {name}")
    if found.type == "cuda" and (not there or (found.index or 0) >= torch.cuda.device_count()):
        raise ValueError(f"--device {name}: torch finds no such GPU here")
    return "cpu" if found.type == "cpu" else str(found)


def _print(args: argparse.Namespace, rows: list[bench.BenchRow]) -> None:
    if args.json:
        print(json.dumps([_plain(row) for row in rows], indent=2))
        return
    cells = bench.lines(rows)
    print(table(cells, left=(0, 1, 2, 3, 4, len(cells[0]) - 1)))
    for device in dict.fromkeys(row.device for row in rows):
        print(f"\nauto on {device}: {kernels.in_use(device)}")
    print("milliseconds; xfloor: p50 by the floor; xlogits: memory added, by that of the logits")
    for path in filter(None, (args.out, args.plot)):
        print(path)


def _plain(row: bench.BenchRow) -> dict[str, Any]:
    """As JSON, which has no NaN: an error that is none is null, and the note tells."""
    facts = asdict(row).items()
    return {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in facts}
