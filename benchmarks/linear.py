"""A linear head with its loss: the plain call, `linear_loss`, and a step of SGD on the way.

python benchmarks/linear.py [--device cuda] [--labels 2812281] [--rows 512] [--features 768] \
    [--dtype bfloat16] [--out benchmarks/linear_cuda.csv]

Forward + backward, queued back to back between two events on a GPU (wall clock on a CPU), the
median of five times three calls: without a pause, so that the GPU stays at the limit of its power
(`ms`), and each three of them after a second of rest (`rested_ms`). Peak memory is all that is
allocated, weights and gradients included. The floor is the three matrix products alone, in blocks
of the same size, in the same run.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

import labelset as ls
from labelset.linear import _blocks

COLUMNS = (
    "what",
    "loss",
    "rows",
    "features",
    "labels",
    "dtype",
    "device",
    "ms",
    "rested_ms",
    "peak_gib",
    "note",
)


def timed(call: Callable[[], None], device: str, rest: float = 0.0, repeats: int = 3) -> float:
    """Milliseconds of one call, of so many on end after so many seconds of rest."""
    call()
    samples = []
    for _ in range(5):
        if rest:
            torch.cuda.synchronize()
            time.sleep(rest)
        if device == "cpu":
            start = time.perf_counter()
            call()
            samples.append(1e3 * (time.perf_counter() - start))
            continue
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(repeats):
            call()
        last.record()
        torch.cuda.synchronize()
        samples.append(first.elapsed_time(last) / repeats)
    return median(samples)


def products(x: Tensor, weight: Tensor) -> None:
    """The logits, the gradient of the weight and that of the features, and nothing else."""
    width = max(1, _blocks.BYTES[x.device.type] // (len(x) * x.element_size()))
    gradient, total = torch.empty_like(weight), torch.zeros_like(x)
    for start in range(0, len(weight), width):
        w = weight[start : start + width]
        logits = x @ w.T
        torch.mm(logits.T, x, out=gradient[start : start + width])
        total.addmm_(logits, w)


def main() -> None:
    """Measures, prints, writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name, value in (("labels", 2_812_281), ("rows", 512), ("features", 768), ("on", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--losses", nargs="+", default=["bce", "asl"])
    parser.add_argument("--out", type=Path)
    o = parser.parse_args()
    torch.manual_seed(0)
    dtype = getattr(torch, o.dtype)
    x = torch.randn(o.rows, o.features, device=o.device).to(dtype).requires_grad_()
    weight = torch.randn(o.labels, o.features, device=o.device, dtype=dtype) / 50
    weight.requires_grad_()
    on = torch.randint(o.labels, (o.rows, o.on)).sort(1).values
    labels = ls.Labels.from_lists([row.unique().tolist() for row in on], n=o.labels).to(o.device)
    rows: list[dict[str, object]] = []

    def measure(what: str, loss: str, call: Callable[[], None]) -> None:
        note, ms, rested, peak = "", float("nan"), float("nan"), float("nan")
        x.grad = weight.grad = None
        try:
            if o.device != "cpu":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            ms = timed(call, o.device)
            if o.device != "cpu":
                rested = timed(call, o.device, rest=1.0)
                peak = torch.cuda.max_memory_allocated() / 2**30
        except torch.OutOfMemoryError:
            note = "out of memory"
        shape = (o.rows, o.features, o.labels, o.dtype, o.device)
        rows.append(dict(zip(COLUMNS, (what, loss, *shape, ms, rested, peak, note), strict=True)))
        print(
            f"{what:24} {loss:6} {ms:9.2f} ms {rested:9.2f} ms {peak:7.2f} GiB {note}", flush=True
        )

    with torch.no_grad():
        measure("three matrix products", "", lambda: products(x.detach(), weight.detach()))
    for name in o.losses:
        loss = ls.losses.build(name)

        def fused(loss: object = loss) -> None:
            x.grad = weight.grad = None
            ls.linear_loss(x, weight, labels, loss).backward()

        def plain(loss: Callable[..., Tensor] = loss) -> None:
            x.grad = weight.grad = None
            loss(x @ weight.T, labels).backward()

        def step(loss: object = loss) -> None:
            x.grad = None
            ls.linear_sgd_step(x, weight, labels, loss, lr=0.1, seed=1).backward()

        measure("linear_loss", name, fused)
        measure("loss(x @ weight.T)", name, plain)
        measure("linear_sgd_step", name, step)
    if o.out:
        with o.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
