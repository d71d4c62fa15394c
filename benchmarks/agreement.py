"""Every kernel against the formula in float64: odd shapes, every kind of labels, heads.

python benchmarks/agreement.py [--device cuda] [--part 0/16] [--first] [--losses bce ...]

The tests run Triton's kernels in its interpreter; this runs them where they are made for. It prints
a line for each disagreement, then how many comparisons there were; the exit status is 1 where one
failed. On a GPU nearly all of its time is compiling: parts may run beside each other.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

import labelset as ls
from labelset.losses import Loss, Separable
from labelset.testing.loss_laws import as_close_as_eager

SHAPES = [
    *((1, 1), (1, 80), (41, 401), (512, 80), (17, 1000), (63, 1024), (5, 1025), (700, 3)),
    *((64, 1024), (513, 81), (256, 300)),
]
HEADS = [(500, 20_001, 776, True), (64, 70_001, 8, False), (300, 16_384, 1024, True)]
"""Rows, labels, features, and whether there is a bias: all of them without logits on a Hopper."""

ALLOWED, ROUGH = 1e-2, {"splc": 5e-2}  # of gradients; splc turns labels at a score, to the bit

Check = tuple[str, Callable[[], None]]


def matrices(device: str, name: str, example: dict[str, object]) -> Iterator[Check]:
    """One loss at every shape and with every kind of labels."""
    for rows, n in SHAPES:
        g = torch.Generator().manual_seed(1000 * rows + n)
        scores = (3 * torch.randn(rows, n, generator=g) - 1.5).to(device)
        on = (torch.rand(rows, n, generator=g) < 0.1).to(device)
        soft = torch.rand(rows, n, generator=g).to(device)
        soft = torch.where(soft < 0.1, torch.nan, soft)
        kinds = {
            "bool": on, "int64": on.long(), "float": on.float(), "soft": soft,
            "stored": ls.Labels.from_dense(on), "stored, soft": ls.Labels.from_dense(soft),
        }  # fmt: skip
        for kind, labels in kinds.items():
            for dtype, upstream in ((torch.float32, 3.0), (torch.bfloat16, 2.0)):
                what = f"{name} {example}, {rows} x {n}, {kind}, {dtype}"
                given = scores.to(dtype), labels, upstream
                yield what, partial(compared, ls.losses.build(name, **example), *given)


def compared(loss: Loss, scores: Tensor, labels: object, upstream: float) -> None:
    """As close to float64 as the formula is, and the same at every call."""
    impl = "triton" if scores.is_cuda else "native"
    loss = loss.to(scores.device)
    as_close_as_eager(loss, impl, scores, labels, upstream)
    values = {loss(scores, labels).item() for _ in range(3)}
    assert len(values) == 1 or all(v != v for v in values), f"three calls gave {values}"


def heads(device: str, name: str) -> Iterator[Check]:
    """One loss of a head, with few labels on, and a step of SGD on it."""
    for rows, n, width, bias in HEADS:
        what = f"linear_loss {name}, {rows} x {n}, {width} features, bias: {bias}"
        yield what, partial(head, device, name, rows, n, width, bias)


def head(device: str, name: str, rows: int, n: int, width: int, bias: bool) -> None:
    """Value and gradients in bfloat16 against float64; the step against the gradient."""
    g = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, width, generator=g)
    w = torch.randn(n, width, generator=g) * 2 / width**0.5
    b = torch.randn(n, generator=g) / 2 if bias else None
    on = torch.randint(n, (rows, 20), generator=g)
    labels = ls.Labels.from_lists([row.unique().tolist() for row in on], n=n).to(device)
    loss = ls.losses.build(name, reduction="sum")
    parts = [t.bfloat16().to(device).requires_grad_() for t in (x, w, b) if t is not None]
    value = ls.linear_loss(parts[0], parts[1], labels, loss, *parts[2:])
    value.backward()
    exact = [t.detach().double().requires_grad_() for t in parts]
    want = loss.eager(torch.nn.functional.linear(*exact), labels)
    want.backward()
    assert abs(value.item() / want.item() - 1) < 1e-3, f"the value is {value}, not {want}"
    for t, truth in zip(parts, exact, strict=True):
        off = float((t.grad.double() - truth.grad).norm() / truth.grad.norm())
        assert off < ROUGH.get(name, ALLOWED), f"a gradient is off by {off:.2g}"
    moved = [t.detach().clone() for t in parts[1:]]
    rate = 0.1 * float(exact[1].detach().norm() / exact[1].grad.norm())
    ls.linear_sgd_step(parts[0].detach(), moved[0], labels, loss, rate, *moved[1:])
    step = exact[1].detach() - moved[0].double()
    off = float((step - rate * exact[1].grad).norm() / (rate * exact[1].grad).norm())
    assert off < 0.1, f"the step is off by {off:.2g}"  # weights have eight bits


def checks(device: str, names: list[str], first: bool) -> Iterator[Check]:
    """All of them, or those of the first example of each loss."""
    for name in names:
        kind = ls.losses.catalog.classes[name]
        for example in kind.examples[: 1 if first else None]:
            yield from matrices(device, name, example)
        if issubclass(kind, Separable) and {} in kind.examples:
            yield from heads(device, name)


def main() -> None:
    """Compares, prints what disagrees, and counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--part", default="0/1", help="which of how many parts (0/1)")
    parser.add_argument("--first", action="store_true", help="only the first example of a loss")
    parser.add_argument("--losses", nargs="+", default=ls.losses.names())
    o = parser.parse_args()
    part, parts = map(int, o.part.split("/"))
    done = failed = 0
    for number, (what, check) in enumerate(checks(o.device, o.losses, o.first)):
        if number % parts != part:
            continue
        done += 1
        try:
            check()
        except Exception as error:
            failed += 1
            print(f"{what}: {error}", flush=True)
    print(f"{done} comparisons, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
