"""The laws of losses: each is a function of one loss that raises `LawBroken`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset.kernels import missing
from labelset.labels import Labels
from labelset.losses import Loss, Separable, Sum, build, reduce_terms
from labelset.testing.cases import Cases, LawBroken, hold, hold_to, near, value_and_grad
from labelset.testing.link_laws import link, properness
from labelset.torch_private import compiler_error, forget_compiled

FAR = 1e4  # a score as far out as a diverging model gives


def gradient(loss: Loss) -> None:
    """The gradient is the derivative of the value, far scores included."""
    if getattr(loss, "detached", False):
        return
    cases = Cases(loss)
    for v, y in (*cases.all(), cases.far()):
        try:
            torch.autograd.gradcheck(lambda s, y=y: loss(s, y), v.requires_grad_(), atol=1e-6)
        except RuntimeError as error:
            raise LawBroken(f"the gradient is not the derivative of the value: {error}") from None


def unknown(loss: Loss) -> None:
    """Unknown entries change neither value nor gradient, whatever their score."""
    cases = Cases(loss)
    for seed in (0, 1):
        v, y = cases(6, 5, seed, unknown=True, soft=seed == 1)
        value, grad = value_and_grad(loss, torch.where(y.isnan(), 0.3, v), y)
        hold((grad[y.isnan()] == 0).all(), "an unknown entry has a gradient")
        for odd in (torch.nan, torch.inf, -torch.inf, -7.0):
            got, got_grad = value_and_grad(loss, torch.where(y.isnan(), odd, v), y)
            near(got, value, f"an unknown entry with score {odd} changes the value")
            near(got_grad, grad, f"an unknown entry with score {odd} changes the gradient")
        if getattr(loss, "reduction", "mean") != "none":
            more = torch.cat([v, v[:2]]), torch.cat([y, torch.full_like(y[:2], torch.nan)])
            near(loss(*more), loss(v, y), "a row of unknown labels changes the value")
            _unknown_column(loss, v, y)


def _unknown_column(loss: Loss, v: Tensor, y: Tensor) -> None:
    """A label that is nowhere known counts as if it were not there (unless n itself matters)."""
    if (isinstance(loss, Separable) and loss.bind(7) is not loss) or Cases(loss).width:
        return
    more = torch.cat([v, v[:, :1]], 1), torch.cat([y, torch.full_like(y[:, :1], torch.nan)], 1)
    near(loss(*more), loss(v, y), "a column of unknown labels changes the value")


def row_order(loss: Loss) -> None:
    """The order of the rows does not matter."""
    v, y = Cases(loss)(7, 4, 3, unknown=True)
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
    for v, y in Cases(loss).all(10):
        groups = loss.groups(v, y) if _has_terms(loss) else []
        meaningful = [how for how in loss.reductions if how != "none" or len(groups) == 1]
        each = {how: loss._with(reduction=how)(v, y) for how in meaningful if groups}
        for how, got in each.items():
            if how != "none":
                want = sum((reduce_terms(*terms, how) for terms in groups), torch.zeros(()))
                near(got, want, f"reduction={how!r} does not follow from the terms")
            elif "sum" in each:
                _, weights = groups[0]
                hold(
                    weights is None or weights.shape == got.shape,
                    f"unreduced values of shape {tuple(got.shape)} for weights of another shape",
                )
                total = (got if weights is None else got * weights).sum()
                near(total, each["sum"], "the unreduced values do not add up to the sum")
        if isinstance(loss, Separable):
            known = (~y.isnan()).sum()
            near(each["mean"] * known, each["sum"], "the mean is not over the known entries")


def _has_terms(loss: Loss) -> bool:
    try:
        loss.groups(*Cases(loss)(2, 2, 0))
    except TypeError:  # a sum of losses: its parts are reduced, each by itself
        return False
    return True


def nothing_known(loss: Loss) -> None:
    """Nothing known, or no rows at all, gives 0 with zero gradient."""
    for rows, labels in ((3, 4), (0, 4), (1, 1)):
        v = torch.full_like(Cases(loss)(rows, labels, 0)[0], 2.0)
        value, grad = value_and_grad(loss, v, torch.full_like(v, torch.nan))
        hold((value == 0).all(), f"nothing known in {rows} x {labels} gives {value}, not 0")
        hold((grad == 0).all(), f"nothing known in {rows} x {labels} has a gradient")


def finite(loss: Loss) -> None:
    """Scores of +-1e4 keep value and gradient finite in every precision."""
    _, y = Cases(loss)(5, 4, 6)
    y[0], y[1], y[:, -1] = 0, 1, 0
    right = FAR * (2 * y - 1)
    scores = {"right": right, "wrong": -right, "high": 0 * y + FAR, "low": 0 * y - FAR}
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        for name, v in scores.items():
            value, grad = value_and_grad(loss, v.to(dtype), y)
            hold(value.isfinite().all(), f"value {value} of {name} scores in {dtype}")
            hold(grad.isfinite().all(), f"gradient of {name} scores is not finite in {dtype}")


def confident_miss(loss: Loss) -> None:
    """An entry that is wrong by far keeps its gradient, unless the loss says it levels off."""
    width = max(Cases(loss).width or 4, 2)
    y = torch.zeros(3, width)  # label 0 is on in row 1, label 1 off; both kinds in every line
    y[:2, 0], y[0, 1], y[2, 1] = 1, 1, 1
    for label, score, levels in ((0, -FAR, "saturates_positives"), (1, FAR, "saturates_negatives")):
        if getattr(loss, levels, False):
            continue
        v = torch.zeros(3, width)
        v[1, label] = score
        for dtype in (torch.float32, torch.float64):
            _, grad = value_and_grad(loss, v.to(dtype), y)
            got = float(grad[1, label])
            hold(
                abs(got) > 1e-3 * float(grad.abs().max()) and got * score > 0,
                f"a label {'off' if label else 'on'} with score {score:g} has gradient {got:g}; if "
                f"this loss is meant to level off there, let its `{levels}` be True",
            )


def soft_labels(loss: Loss) -> None:
    """Soft labels count as they are: in between, and in proportion where entries are separate."""
    v, y = Cases(loss)(6, 4, 90)
    ones, zeros = torch.ones_like(y), torch.zeros_like(y)
    if isinstance(loss, Separable) and loss.reduction == "mean":
        share = torch.rand(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
        each = loss._with(reduction="none")
        want = share * each(v, ones) + (1 - share) * each(v, zeros)
        near(each(v, share), want, "a soft label is not between on and off in proportion")
    else:
        at = torch.where(y == 1, 0.7, 0.1), torch.where(y == 1, 0.75, 0.1)
        changed = (loss(v, at[0]) - loss(v, at[1])).abs().max()
        hold(changed > 1e-9, "labels of 0.7 and of 0.75 give the same value")


def epochs(loss: Loss) -> None:
    """`at(epoch)` is a loss that works, at the first epoch as at the hundredth."""
    if not isinstance(loss, Loss):
        return
    v, y = Cases(loss)(5, 4, 95)
    for epoch in (0, 1, 100):
        there = loss.at(epoch)
        hold(isinstance(there, Loss), f"at({epoch}) gives {type(there).__name__}, not a loss")
        hold(there(v, y).isfinite().all(), f"the loss at epoch {epoch} is not finite")
        hold(there.reduction == loss.reduction, f"at({epoch}) has another reduction")


def limits(loss: Loss) -> None:
    """Declared limits hold, in value and gradient."""
    if not isinstance(loss, Loss):
        return
    for name, settings in loss.limits.items():
        mine, other = type(loss)(**settings), build(name)
        for v, y in Cases(mine).all(20):
            if name in loss.limits_one_positive:
                y = torch.zeros_like(y)
                y[:, 0] = 1
            got, want = value_and_grad(mine, v, y), value_and_grad(other, v, y)
            near(got[0], want[0], f"with {dict(settings)} it is not {name}")
            near(got[1], want[1], f"with {dict(settings)} its gradient is not that of {name}")


def sparse(loss: Loss) -> None:
    """`Labels` give what dense labels give."""
    for v, y in Cases(loss).all(30):
        want = value_and_grad(loss, v, y.float())
        got = value_and_grad(loss, v, Labels.from_dense(y))
        near(got[0], want[0], "Labels and dense labels differ in value")
        near(got[1], want[1], "Labels and dense labels differ in gradient")


def label_types(loss: Loss) -> None:
    """Bool, whole and floating-point labels, tensors and arrays, mean the same."""
    v, y = Cases(loss)(5, 4, 40)
    want = loss(v, y)
    whole = [y.to(t) for t in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)]
    others = (y.bool(), y.half(), y.bfloat16(), y.float(), y.numpy(), y.tolist())
    for other in (*whole, *others):
        kind = getattr(other, "dtype", "list")
        near(loss(v, other), want, f"labels given as {kind} change the value")


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
    forget_compiled()
    fast = torch.compile(lambda s, t: loss(s, t), fullgraph=True, backend="aot_eager")
    for v, y in batches:
        want = value_and_grad(loss, v, y)
        try:
            got = value_and_grad(fast, v, y)
        except compiler_error() as error:
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


def implementations(loss: Loss) -> None:
    """Every implementation at hand is as close to float64 as the eager formula is."""
    if not isinstance(loss, Loss) or isinstance(loss, Sum) or loss.reduction == "none":
        return
    for impl, device in (("native", "cpu"), ("triton", "cuda")):
        if (device == "cuda" and not torch.cuda.is_available()) or missing(
            impl, torch.zeros(1, device=device)
        ):
            continue
        for v, y in (*Cases(loss).all(12), Cases(loss).far()):
            for labels in (y.to(device), Labels.from_dense(y).to(device)):
                as_close_as_eager(loss.to(device), impl, v.float().to(device), labels)


def as_close_as_eager(
    loss: Loss, impl: str, v: Tensor, labels: Tensor | Labels, upstream: float = 3.0
) -> None:
    """Value and gradient against float64: the eager error fourfold, and rounding.

    A loss of which this implementation has no kernel is left alone.
    """
    eager, kernel = loss._with(impl="eager"), loss._with(impl=impl)
    try:
        # Triton's interpreter computes in NumPy, which warns where a GPU gives infinity
        with np.errstate(all="ignore"):
            found = value_and_grad(lambda s, y: upstream * kernel(s, y), v, labels)
    except RuntimeError as problem:
        if "has no kernel" in str(problem):
            return
        raise
    truth = value_and_grad(lambda s, y: upstream * eager(s, y), v.double(), labels)
    plain = value_and_grad(lambda s, y: upstream * eager(s, y), v, labels)
    for what, mine, theirs, right in zip(("value", "gradient"), found, plain, truth, strict=True):
        wrong = (mine.double() - right).abs().max()
        allowed = 4 * (theirs.double() - right).abs().max() + 4e-6 * right.abs().max() + 1e-6
        hold(wrong <= allowed, f"the {what} by {impl!r} is off by {wrong:.2g}, more than eager's")


LOSS_LAWS: dict[str, Callable[[Any], None]] = {
    law.__name__: law
    for law in (
        gradient,
        unknown,
        row_order,
        reductions,
        soft_labels,
        epochs,
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
        implementations,
        link,
        properness,
    )
}


def check_loss(loss: Any, laws: Iterable[str] | None = None) -> None:
    """Hold a loss to the laws, all or those named; the first that is broken raises `LawBroken`."""
    hold_to(LOSS_LAWS, laws, loss, type(loss).__name__)
