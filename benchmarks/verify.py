"""Speed of verification against one dense linear programme per label set, in one run.

    python benchmarks/verify.py [--sets 200] [--programmes 5] [--shapes 2000x50 ...] [--device cuda]

Weights are those of a head trained for a moment on labels with a long tail; label sets are those of
rows it has not seen, every second one with three labels added at random. The programme is the
paper's (3), built and solved by HiGHS' dual simplex on one core. Where highspy is not installed its
times are those of the last table written where it was, and the column `programme` says so.
Writes benchmarks/verify.csv, or verify-cuda.csv: one row per shape and implementation.
"""

import argparse
import csv
import os
import platform
import time
from pathlib import Path

import numpy as np
import torch

import labelset as ls

try:
    import highspy
except ImportError:
    highspy = None

TABLE = Path(__file__).with_suffix(".csv")
SHAPES = ("2000x50", "8921x50", "8921x200", "20000x200")


def trained(n, d, count, seed=0, topics=64, steps=150):
    """Weights of a low-rank head and unseen label sets, from a teacher with a long tail."""
    rows = 1300 + count
    g = torch.Generator().manual_seed(seed)
    teacher = torch.randn(n, topics, generator=g) / 8
    rarity = -torch.log(torch.arange(1, n + 1) + 5.0)
    z = torch.randn(rows, topics, generator=g)
    scores = 1.5 * z @ teacher.T + rarity + 0.5 * torch.randn(rows, n, generator=g)
    sizes = torch.poisson(torch.full((rows,), 8.0), generator=g).clamp(1, 60).long()
    top = scores.topk(60).indices
    lists = [top[i, : sizes[i]].tolist() for i in range(rows)]
    labels = ls.Labels.from_lists(lists, n=n)
    torch.manual_seed(seed)
    head = ls.heads.build("linear", features=topics, labels=n, rank=d, bias=False)
    loss = ls.losses.build("bce", reduction="sum")
    optimiser = torch.optim.Adam(head.parameters(), lr=1e-2)
    for _ in range(steps):
        batch = torch.randint(0, rows - count, (64,), generator=g)
        value = loss(head(z[batch]), labels[batch]) / 64
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
    for i in range(rows - count, rows, 2):
        lists[i] = sorted({*lists[i], *torch.randint(0, n, (3,), generator=g).tolist()})
    return head.matrix()[0].detach(), ls.Labels.from_lists(lists[rows - count :], n=n)


def programme(weight, on, box=1e4):
    """Seconds and value of the dense programme for one label set."""
    start = time.perf_counter()
    n, d = weight.shape
    sign = np.full(n, -1.0)
    sign[on] = 1.0
    values = np.concatenate([sign[:, None] * weight, -np.linalg.norm(weight, axis=1)[:, None]], 1)
    solver = highspy.Highs()
    solver.silent()
    for option, value in (("solver", "simplex"), ("threads", 1), ("simplex_strategy", 1)):
        solver.setOptionValue(option, value)
    for option in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
        solver.setOptionValue(option, 1e-9)
    solver.addVars(d + 1, np.r_[np.full(d, -box), 1e-8], np.r_[np.full(d, box), np.inf])
    solver.changeColCost(d, 1.0)
    solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
    starts = np.arange(n, dtype=np.int32) * (d + 1)
    index = np.tile(np.arange(d + 1, dtype=np.int32), n)
    solver.addRows(n, np.zeros(n), np.full(n, np.inf), values.size, starts, index, values.ravel())
    solver.run()
    seconds = time.perf_counter() - start
    feasible = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return seconds, solver.getInfo().objective_function_value if feasible else np.nan


def ours(weight, labels, device):
    """Seconds per label set, the median of three, and the verdicts."""
    ls.verify(weight, labels[:4], device=device)  # touch everything once
    times = []
    for _ in range(3):
        start = time.perf_counter()
        v = ls.verify(weight, labels, device=device)
        times.append(time.perf_counter() - start)
    return float(np.median(times)) / len(labels), v


def theirs(weight, labels, v, programmes):
    """Seconds per label set, the median of some, and how many verdicts are the same."""
    exact = weight.double().cpu().numpy()
    slow, agree = [], 0
    for i in np.linspace(0, len(labels) - 1, programmes).astype(int):
        seconds, value = programme(exact, labels[int(i)].indices.numpy())
        slow.append(seconds)
        agree += (v.status[i] == "argmaxable") == (value > 1e-8)
    print(f"same verdict as the programme: {agree} of {programmes}")
    return float(np.median(slow))


def earlier(n, d):
    """Seconds per label set of the programme in the last table, and where that was."""
    with open(TABLE, newline="") as file:
        for row in csv.DictReader(file):
            if (row["labels"], row["features"], row["what"]) == (str(n), str(d), "dense LP"):
                place = f"an earlier run: {row['machine']}, highspy {row['highspy']}"
                return float(row["ms_per_set"]) / 1e3, place
    return np.nan, "not measured"


def measure(shape, count, programmes, device):
    """One row per implementation, verdicts compared where both were asked."""
    n, d = (int(x) for x in shape.split("x"))
    weight, labels = trained(n, d, count)
    fast, v = ours(weight.to(device), labels, device)
    counts = v.counts()
    slow, place = earlier(n, d)
    if highspy is not None:
        slow, place = theirs(weight, labels, v, programmes), "this run"
    some = labels[:20]  # exact fractions take their time where python-flint is not installed
    ls.verify(weight.to(device), some, device=device).check()
    common = {"labels": n, "features": d, "sets": count, **counts, "cores": cores()}
    machine = {
        "programme": place,
        "machine": platform.machine(),
        "torch": torch.__version__,
        "highspy": "" if highspy is None else highspy.Highs().version(),
    }
    chip = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    for what, where, seconds in (("labelset", chip, fast), ("dense LP", "cpu", slow)):
        times = {"ms_per_set": 1e3 * seconds, "ratio": slow / seconds}
        yield {**common, "what": what, "device": where, **times, **machine}
    print(
        f"{shape} on {chip}: {1e6 * fast:,.1f} us against {1e3 * slow:.0f} ms ({place}) per label "
        f"set: {slow / fast:,.0f} x; {counts}",
        flush=True,
    )


def cores():
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def main():
    """Measure every shape and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--programmes", type=int, default=8)
    parser.add_argument("--shapes", nargs="+", default=SHAPES)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--out")
    args = parser.parse_args()
    chosen = (args.sets, args.programmes, args.device)
    rows = [row for s in args.shapes for row in measure(s, *chosen)]
    out = args.out or (TABLE if args.device == "cpu" else TABLE.with_name("verify-cuda.csv"))
    with open(out, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
