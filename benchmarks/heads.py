"""The DFT head's fixed product by FFT and by matrix, and what the order of labels does to radii.

    python benchmarks/heads.py product [--device cpu]     -> benchmarks/heads_product_<device>.csv
    python benchmarks/heads.py order                      -> benchmarks/heads_order.csv
    python benchmarks/heads.py precision                  -> benchmarks/heads_precision.csv

`product` decides `DFT._prefers_fft`; `precision` is the table in docs/heads.md.
"""

import argparse
import csv
import itertools
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch

import labelset as ls

HERE = Path(__file__).parent


def seconds(task, device, repeats=7):
    """The median time of forward and backward."""
    times = []
    for _ in range(repeats + 2):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        task()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return float(np.median(times[2:]))


def _forward_backward(head, x):
    head.logits(x).sum().backward()


def product(device):
    """Forward and backward of the fixed part, both ways, over labels, k and rows."""
    for n, k, rows in itertools.product((1_000, 8_921, 65_536), (5, 20, 80, 320), (32, 512)):
        if 2 * k + 1 > n:
            continue
        row = {"device": device, "labels": n, "k": k, "rows": rows}
        for way in ("fft", "matrix"):
            head = ls.heads.build("dft", features=8, labels=n, k=k, product=way).to(device)
            x = torch.randn(rows, 2 * k + 1, device=device, requires_grad=True)
            task = partial(_forward_backward, head, x)
            row[f"{way}_ms"] = 1e3 * seconds(task, device)
        row["fft_over_matrix"] = row["fft_ms"] / row["matrix_ms"]
        print(row, flush=True)
        yield row


def grouped(n, k, count, seed):
    """Label sets whose labels come in groups that lie scattered over the numbers."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(n).reshape(-1, 10)
    pick = [
        np.concatenate([groups[g] for g in rng.choice(len(groups), 2, False)]) for _ in range(count)
    ]
    return ls.Labels.from_lists([rng.choice(p, k, False).tolist() for p in pick], n=n)


def order():
    """Radii of label sets with companions where they are, side by side, and apart."""
    for n, k in itertools.product((200, 1_000), (3, 5, 8)):
        seen, asked = grouped(n, k, 5_000, 0), grouped(n, k, 5_050, 0)[5_000:]
        orders = {"as numbered": None}
        for name, apart in (("side by side", False), ("apart", True)):
            orders[name] = ls.heads.order_by_cooccurrence(seen, apart)
        for name, places in orders.items():
            head = ls.heads.build("dft", features=4, labels=n, k=k, order=places).double()
            radius = ls.verify(head, asked, seconds=30).radius
            row = {"labels": n, "k": k, "order": name, "argmaxable": int(np.isfinite(radius).sum())}
            row |= {f"rho_{q}%": float(np.nanquantile(radius, q / 100)) for q in (10, 50, 90)}
            print(row, flush=True)
            yield row


def precision():
    """How many random sets of exactly k labels can be produced once the head is stored."""
    for (n, k), slack, dtype in itertools.product(
        ((100, 3), (100, 10), (1_000, 5), (1_000, 10), (8_921, 5)),
        (0, 16),
        (torch.float32, torch.float64),
    ):
        torch.manual_seed(0)
        g = torch.Generator().manual_seed(1)
        rows = [torch.randperm(n, generator=g)[:k].tolist() for _ in range(20)]
        head = ls.heads.build("dft", features=4, labels=n, k=k, slack=slack).to(dtype)
        v = ls.verify(head, ls.Labels.from_lists(rows, n=n), seconds=40)
        row = {"labels": n, "k": k, "slack": slack, "stored as": str(dtype)[6:], **v.counts()}
        row["smallest rho"] = float(np.nanmin(v.radius)) if v.counts()["argmaxable"] else ""
        print(row, flush=True)
        yield row


def main():
    """Run one study and write its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=("product", "order", "precision"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", help="the CSV file to write")
    args = parser.parse_args()
    made = product(args.device) if args.study == "product" else globals()[args.study]()
    rows = list(made)
    suffix = f"_{args.device}" if args.study == "product" else ""
    with open(args.out or HERE / f"heads_{args.study}{suffix}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
