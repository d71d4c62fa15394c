"""The same losses as people write them, and as torch, torchvision and timm have them if installed.

    python benchmarks/losses.py --out benchmarks/losses_cpu.csv [--device cuda] [--shapes 512x80]

Their rows are added to the CSV that `labelset bench --out` has written.
"""

import argparse
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid, softplus

from labelset.bench import Bench, Case, merged, read_rows, shape, usual_density, write_rows

SMALLEST = 1e-8  # inside a logarithm, as the published programs have it


def _focal(v: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(v)
    right = p * y + (1 - p) * (1 - y)
    return -((1 - right) ** 2 * (y * logsigmoid(v) + (1 - y) * logsigmoid(-v))).mean()


def _asl(v: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(v)
    off = (1 - p + 0.05).clamp(max=1)
    logs = y * p.clamp(min=SMALLEST).log() + (1 - y) * off.clamp(min=SMALLEST).log()
    right = p * y + off * (1 - y)
    return -((1 - right) ** (4 * (1 - y)) * logs).mean()


def _hill(v: Tensor, y: Tensor) -> Tensor:
    p, q = torch.sigmoid(v), torch.sigmoid(v - 1)
    on, off = -((1 - q) ** 2) * logsigmoid(v - 1), (1.5 - p) * p**2
    return (y * on + (1 - y) * off).mean()


def _spa(v: Tensor, y: Tensor) -> Tensor:
    return (y * softplus(-v) + (1 - y) * softplus(3 * (v - 1)) / 5).mean()


def _sigmoid_f1(v: Tensor, y: Tensor) -> Tensor:
    s = torch.sigmoid(v)
    tp, fp, fn = (s * y).sum(0), (s * (1 - y)).sum(0), ((1 - s) * y).sum(0)
    return (1 - 2 * tp / (2 * tp + fn + fp + 1e-16)).mean()


def _two_way(v: Tensor, y: Tensor) -> Tensor:
    on = y > 0
    high, low = v.masked_fill(on, -torch.inf), (-v / 4).masked_fill(~on, -torch.inf)
    ways = [
        softplus(high.logsumexp(dim) + 4 * low.logsumexp(dim))[on.any(dim)].mean() for dim in (0, 1)
    ]
    return ways[0] + ways[1]


PLAIN: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "asl": _asl,
    "focal": _focal,
    "hill": _hill,
    "sigmoid-f1": _sigmoid_f1,
    "spa": _spa,
    "two-way": _two_way,
}
"""Loss -> its function of scores and a floating-point target, at the settings measured here."""

Function = Callable[[Tensor, Tensor], Tensor]


def _plain(loss: str) -> Function:
    return PLAIN[loss]


def _torch_bce() -> Function:
    return binary_cross_entropy_with_logits


def _timm_bce() -> Function:
    made: Function = import_module("timm.loss").BinaryCrossEntropy(smoothing=0.0)
    return made


def _torchvision_focal() -> Function:
    focal = import_module("torchvision.ops").sigmoid_focal_loss
    return lambda scores, on: focal(scores, on, alpha=-1.0, gamma=2.0, reduction="mean")


def _timm_asl() -> Function:
    """With the settings that `asl` has here; older versions know only the sum."""
    asl: Any = import_module("timm.loss").AsymmetricLossMultiLabel
    settings = {"gamma_pos": 0.0, "gamma_neg": 4.0, "clip": 0.05}
    try:
        made: Function = asl(**settings, reduction="mean")
    except TypeError:
        total = asl(**settings)
        return lambda scores, on: total(scores, on) / scores.numel()
    return made


PEERS: dict[str, dict[str, Callable[[], Function]]] = {
    "plain": {loss: partial(_plain, loss) for loss in PLAIN},
    "torch": {"bce": _torch_bce},
    "torchvision": {"focal": _torchvision_focal},
    "timm": {"bce": _timm_bce, "asl": _timm_asl},
}
"""Package, or "plain" -> loss -> what makes its function of scores and a floating-point target."""


def installed(package: str) -> bool:
    """Whether the package can be imported; plain formulas need none.

    >>> installed("torch")
    True
    """
    return package == "plain" or find_spec(package) is not None


def main():
    """Measure, and add the rows to the CSV."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--shapes", nargs="+", default=["512x80", "256x8921"])
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--limit", type=float, default=0.5)
    args = parser.parse_args()
    known = {name: by_loss for name, by_loss in PEERS.items() if installed(name)}
    cases = [
        Case(
            loss=loss, rows=rows, labels=n, dtype=dtype, device=args.device,
            density=usual_density(n),
        )
        for rows, n in map(shape, args.shapes)
        for dtype in args.dtypes
        for loss in dict.fromkeys(loss for by_loss in known.values() for loss in by_loss)
    ]  # fmt: skip
    bench = Bench(cases=cases, implementations=[*known], seconds=args.limit, peers=known)
    rows = [row for found in bench.rows() for row in found]
    write_rows(args.out, merged(read_rows(args.out) if args.out.exists() else [], rows))


if __name__ == "__main__":
    main()
