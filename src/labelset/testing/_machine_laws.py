"""The laws of precision, of torch's transformations, and of bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labelset.labels import Labels
from labelset.losses import Loss
from labelset.testing._cases import Cases, LawBroken, hold, near, value_and_grad


def precision(loss: Loss) -> None:
    """Reduced precision accumulates in float32 and gives float32; float64 stays."""
    g = torch.Generator().manual_seed(0)
    v = torch.randn(64, Cases(loss).width or 1024, generator=g)
    whole = torch.rand(v.shape, generator=g) < 0.02
    partly = whole.float().masked_fill(torch.rand(v.shape, generator=g) < 0.1, torch.nan)
    formats = (torch.float32, torch.bfloat16, torch.float16)
    for dtype, y in ((dtype, y) for dtype in formats for y in (whole, partly)):
        low = v.to(dtype)
        value, grad = value_and_grad(loss, low, y)
        want, want_grad = value_and_grad(loss, low.double(), y)
        hold(value.dtype == torch.float32, f"{dtype} scores give {value.dtype}, not float32")
        hold(want.dtype == torch.float64, f"float64 scores give {want.dtype}")
        # what a last-bit change of the scores does, a backward-stable computation may do too
        moved, moved_grad = value_and_grad(loss, low.double() * (1 + 2**-21), y)
        slack, grad_slack = (moved - want).abs().max(), (moved_grad - want_grad).abs().max()
        near(value, want, f"{dtype} is far from float64", 2e-5, 1e-6 + 4 * float(slack))
        step = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}[dtype]
        least = 6e-8 if dtype == torch.float16 else 0.0  # its smallest step above 0
        atol = least + 1e-5 * float(want_grad.abs().max()) + 4 * float(grad_slack)
        near(grad, want_grad, f"the gradient in {dtype} is far from float64", step, atol)


def autocast(loss: Loss) -> None:
    """Autocast changes nothing."""
    v, y = Cases(loss)(5, 4, 50)
    want = value_and_grad(loss, v.float(), y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = value_and_grad(loss, v.float(), y)
    near(got[0], want[0], "autocast changes the value")
    near(got[1], want[1], "autocast changes the gradient")


def compiled(loss: Loss) -> None:
    """torch.compile takes it, and its link, in one piece and changes nothing."""
    known, lacking = Cases(loss)(5, 4, 60), Cases(loss)(5, 4, 61, unknown=True)
    _same_compiled(loss, known, lacking)  # what is made of the first labels serves the second
    for v, y in (known, lacking):
        _same_compiled(loss, (v, Labels.from_dense(y)))
    if isinstance(loss, Loss) and loss.link_missing() is None:
        _same_compiled(lambda v, _: loss.link(v), lacking)


def _same_compiled(loss: Callable[..., Tensor], *batches: tuple[Tensor, Any]) -> None:
    torch._dynamo.reset()
    fast = torch.compile(lambda s, t: loss(s, t), fullgraph=True, backend="aot_eager")
    for v, y in batches:
        want = value_and_grad(loss, v, y)
        try:
            got = value_and_grad(fast, v, y)
        except torch._dynamo.exc.TorchDynamoException as error:
            raise LawBroken(f"torch.compile breaks the graph: {error}") from None
        near(got[0], want[0], "torch.compile changes the value")
        near(got[1], want[1], "torch.compile changes the gradient")


def functional(loss: Loss) -> None:
    """torch.func: grad, and vmap over batches, give what autograd gives."""
    v, y = Cases(loss)(5, 4, 70)
    want = value_and_grad(loss, v, y)[1]
    scalar: Callable[[Tensor, Tensor], Tensor] = lambda s, t: loss(s, t).sum()  # noqa: E731
    near(torch.func.grad(scalar)(v, y), want, "torch.func.grad differs from autograd")
    other = Cases(loss)(5, 4, 71)
    both = torch.stack([v, other[0]]), torch.stack([y, other[1]])
    try:
        got = torch.func.vmap(torch.func.grad(scalar))(*both)
    except RuntimeError as error:
        raise LawBroken(f"torch.func.vmap fails: {error}") from None
    near(got[0], want, "torch.func.vmap differs from a loop")
    near(got[1], value_and_grad(loss, *other)[1], "torch.func.vmap differs from a loop")


def refuses(loss: Loss) -> None:
    """Bad input is refused with a word, never guessed at."""
    v, y = Cases(loss)(3, 4, 80)
    marked = y.clone()
    marked[1, -1] = -1
    bad: dict[str, tuple[Any, Any]] = {
        "labels of another shape": (v, y[:, :-1]),
        "labels of one row for all": (v, y[:1]),
        "one row without its axis": (v[0], y[0]),
        "labels of -1": (v, marked),
        "whole-number labels of -1": (v, marked.long()),
        "labels above 1": (v, y * 1.01),
        "whole-number logits": (v.long(), y),
        "complex logits": (v.to(torch.complex64), y),
        "complex labels": (v, y.to(torch.complex64)),
        "meta logits": (v.to("meta"), y.to("meta")),
        "logits that are no tensor": (v.tolist(), y),
        "labels that are words": (v, "on"),
    }
    for what, (scores, labels) in bad.items():
        try:
            loss(scores, labels)
        except (ValueError, TypeError) as error:
            hold(len(str(error)) > 20, f"{what} are refused with no more than {str(error)!r}")
        except Exception as error:
            raise LawBroken(f"{what} give {type(error).__name__}: {error}") from error
        else:
            raise LawBroken(f"{what} are not refused")
