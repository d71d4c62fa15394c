"""The laws of losses. Each is a function of one loss that raises `LawBroken`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from labelset.labels import Labels
from labelset.losses import Loss, build
from labelset.losses._base import reduce
from labelset.testing import _link_laws
from labelset.testing._cases import (
    LawBroken,
    batches,
    hold,
    near,
    random_batch,
    value_and_grad,
)

__all__ = ["LOSS_LAWS", "check_loss"]

FAR = 1e4  # a score as far out as a diverging model gives


def gradient(loss: Loss) -> None:
    """The gradient is the derivative of the value."""
    for v, y in batches():
        try:
            torch.autograd.gradcheck(lambda s, y=y: loss(s, y), v.requires_grad_(), atol=1e-6)
        except RuntimeError as error:
            raise LawBroken(f"the gradient is not the derivative of the value: {error}") from None


def unknown(loss: Loss) -> None:
    """Unknown entries change neither value nor gradient, whatever their score."""
    for seed in (0, 1):
        v, y = random_batch(6, 5, seed, unknown=True)
        value, grad = value_and_grad(loss, torch.where(y.isnan(), 0.3, v), y)
        hold((grad[y.isnan()] == 0).all(), "an unknown entry has a gradient")
        for odd in (torch.nan, torch.inf, -torch.inf, -7.0):
            got, got_grad = value_and_grad(loss, torch.where(y.isnan(), odd, v), y)
            near(got, value, f"an unknown entry with score {odd} changes the value")
            near(got_grad, grad, f"an unknown entry with score {odd} changes the gradient")
        if getattr(loss, "reduction", "mean") != "none":
            more = torch.cat([v, v[:2]]), torch.cat([y, torch.full_like(y[:2], torch.nan)])
            near(loss(*more), loss(v, y), "a row of unknown labels changes the value")


def row_order(loss: Loss) -> None:
    """The order of the rows does not matter."""
    v, y = random_batch(7, 4, 3, unknown=True)
    order = torch.randperm(len(v), generator=torch.Generator().manual_seed(0))
    value, grad = value_and_grad(loss, v, y)
    moved, moved_grad = value_and_grad(loss, v[order], y[order])
    near(moved_grad, grad[order], "the gradient depends on the order of the rows")
    if value.ndim == 0:
        near(moved, value, "the value depends on the order of the rows")


def reductions(loss: Loss) -> None:
    """`mean`, `sum` and `none` agree, and the mean is over what is known."""
    if not isinstance(loss, Loss):
        return
    for v, y in batches(10):
        groups = loss.groups(v, y) if _has_terms(loss) else []
        meaningful = [how for how in loss.reductions if how != "none" or len(groups) == 1]
        each = {how: loss._with(reduction=how)(v, y) for how in meaningful if groups}
        for how, got in each.items():
            if how != "none":
                want = sum((reduce(*terms, how) for terms in groups), torch.zeros(()))
                near(got, want, f"reduction={how!r} does not follow from the terms")
            else:
                _, weights = groups[0]
                total = (got if weights is None else got * weights).sum()
                near(total, each["sum"], "the unreduced values do not add up to the sum")
    v, y = random_batch(5, 4, 11)
    twice = torch.cat([v, v]), torch.cat([y, y])
    if getattr(loss, "way", "sample") == "sample" and loss.reduction == "mean":
        near(loss(*twice), loss(v, y), "the mean changes when every row is given twice")


def _has_terms(loss: Loss) -> bool:
    try:
        loss.groups(*random_batch(2, 2, 0))
    except TypeError:  # a sum of losses: its parts are reduced, each by itself
        return False
    return True


def nothing_known(loss: Loss) -> None:
    """Nothing known, or no rows at all, gives 0 with zero gradient."""
    for rows, labels in ((3, 4), (0, 4), (1, 1)):
        v = torch.full((rows, labels), 2.0, dtype=torch.float64)
        value, grad = value_and_grad(loss, v, torch.full_like(v, torch.nan))
        hold((value == 0).all(), f"nothing known in {rows} x {labels} gives {value}, not 0")
        hold((grad == 0).all(), f"nothing known in {rows} x {labels} has a gradient")


def finite(loss: Loss) -> None:
    """Scores of +-1e4 keep value and gradient finite in every precision."""
    _, y = random_batch(5, 4, 6)
    y[0], y[1], y[:, 2] = 0, 1, 0
    right = FAR * (2 * y - 1)
    scores = {"right": right, "wrong": -right, "high": 0 * y + FAR, "low": 0 * y - FAR}
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        for name, v in scores.items():
            value, grad = value_and_grad(loss, v.to(dtype), y)
            hold(value.isfinite().all(), f"value {value} of {name} scores in {dtype}")
            hold(grad.isfinite().all(), f"gradient of {name} scores is not finite in {dtype}")


def confident_miss(loss: Loss) -> None:
    """A positive that is missed by far keeps its gradient, unless the loss says it saturates."""
    if getattr(loss, "saturates", False):
        return
    v = torch.zeros(3, 4)
    y = torch.eye(3, 4)
    v[1, 1] = -FAR
    for dtype in (torch.float32, torch.float64):
        _, grad = value_and_grad(loss, v.to(dtype), y)
        hold(
            grad[1, 1].abs() > 1e-3 * grad.abs().max() and grad[1, 1] < 0,
            f"a positive with score {-FAR:g} has gradient {grad[1, 1]:g}; if this loss is meant "
            "to level off there, let its `saturates` be True",
        )


def limits(loss: Loss) -> None:
    """Declared limits hold, in value and gradient."""
    if not isinstance(loss, Loss):
        return
    for name, settings in loss.limits.items():
        mine, other = type(loss)(**settings), build(name)
        for v, y in batches(20):
            if name in loss.limits_one_on:
                y = torch.zeros_like(y)
                y[:, 0] = 1
            got, want = value_and_grad(mine, v, y), value_and_grad(other, v, y)
            near(got[0], want[0], f"with {dict(settings)} it is not {name}")
            near(got[1], want[1], f"with {dict(settings)} its gradient is not that of {name}")


def sparse(loss: Loss) -> None:
    """`Labels` give what dense labels give."""
    for v, y in batches(30):
        want = value_and_grad(loss, v, y.float())
        got = value_and_grad(loss, v, Labels.from_dense(y))
        near(got[0], want[0], "Labels and dense labels differ in value")
        near(got[1], want[1], "Labels and dense labels differ in gradient")


def label_types(loss: Loss) -> None:
    """Bool, whole and floating-point labels, tensors and arrays, mean the same."""
    v, y = random_batch(5, 4, 40)
    want = loss(v, y)
    for other in (y.bool(), y.long(), y.to(torch.uint8), y.half(), y.numpy(), y.tolist()):
        kind = getattr(other, "dtype", "list")
        near(loss(v, other), want, f"labels given as {kind} change the value")


def precision(loss: Loss) -> None:
    """Reduced precision accumulates in float32 and gives float32; float64 stays."""
    g = torch.Generator().manual_seed(0)
    v = torch.randn(64, 1024, generator=g)
    y = torch.rand(64, 1024, generator=g) < 0.02
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
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
        atol = 6e-8 + 1e-5 * float(want_grad.abs().max()) + 4 * float(grad_slack)
        near(grad, want_grad, f"the gradient in {dtype} is far from float64", step, atol)


def autocast(loss: Loss) -> None:
    """Autocast changes nothing."""
    v, y = random_batch(5, 4, 50)
    want = value_and_grad(loss, v.float(), y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = value_and_grad(loss, v.float(), y)
    near(got[0], want[0], "autocast changes the value")
    near(got[1], want[1], "autocast changes the gradient")


def compiled(loss: Loss) -> None:
    """torch.compile takes it in one piece and changes nothing."""
    for v, y in (random_batch(5, 4, 60), random_batch(4, 3, 61, unknown=True)):
        torch._dynamo.reset()
        fast = torch.compile(lambda s, t: loss(s, t), fullgraph=True, backend="aot_eager")
        want = value_and_grad(loss, v, y)
        try:
            got = value_and_grad(fast, v, y)
        except torch._dynamo.exc.TorchDynamoException as error:
            raise LawBroken(f"torch.compile breaks the graph: {error}") from None
        near(got[0], want[0], "torch.compile changes the value")
        near(got[1], want[1], "torch.compile changes the gradient")


def functional(loss: Loss) -> None:
    """torch.func: grad, and vmap over batches, give what autograd gives."""
    v, y = random_batch(5, 4, 70)
    want = value_and_grad(loss, v, y)[1]
    scalar: Callable[[Tensor, Tensor], Tensor] = lambda s, t: loss(s, t).sum()  # noqa: E731
    near(torch.func.grad(scalar)(v, y), want, "torch.func.grad differs from autograd")
    other = random_batch(5, 4, 71)
    both = torch.stack([v, other[0]]), torch.stack([y, other[1]])
    try:
        got = torch.func.vmap(torch.func.grad(scalar))(*both)
    except RuntimeError as error:
        raise LawBroken(f"torch.func.vmap fails: {error}") from None
    near(got[0], want, "torch.func.vmap differs from a loop")
    near(got[1], value_and_grad(loss, *other)[1], "torch.func.vmap differs from a loop")


def refuses(loss: Loss) -> None:
    """Bad input is refused with a word, never guessed at."""
    v, y = random_batch(3, 4, 80)
    marked = y.clone()
    marked[1, 2] = -1
    bad: dict[str, tuple[Any, Any]] = {
        "labels of another shape": (v, y[:, :3]),
        "one row without its axis": (v[0], y[0]),
        "labels of -1": (v, marked),
        "whole-number labels of -1": (v, marked.long()),
        "labels above 1": (v, y + 0.5),
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


LOSS_LAWS: dict[str, Callable[[Any], None]] = {
    law.__name__: law
    for law in (
        gradient,
        unknown,
        row_order,
        reductions,
        nothing_known,
        finite,
        confident_miss,
        limits,
        sparse,
        label_types,
        precision,
        autocast,
        compiled,
        functional,
        refuses,
        _link_laws.link,
        _link_laws.properness,
    )
}


def check_loss(loss: Any, laws: Iterable[str] | None = None) -> None:
    """Hold a loss to the laws, all or those named; the first that is broken raises `LawBroken`."""
    for name in LOSS_LAWS if laws is None else laws:
        try:
            LOSS_LAWS[name](loss)
        except LawBroken as broken:
            raise LawBroken(f"{type(loss).__name__} breaks the law {name!r}: {broken}") from broken
