"""The laws of values and gradients. Each is a function of one loss that raises `LawBroken`."""

from __future__ import annotations

import torch
from torch import Tensor

from labelset.labels import Labels
from labelset.losses import Loss, Separable, build
from labelset.losses._base import reduce
from labelset.testing._cases import Cases, LawBroken, hold, near, value_and_grad

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
    if (isinstance(loss, Separable) and loss.given(7) is not loss) or Cases(loss).width:
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
                want = sum((reduce(*terms, how) for terms in groups), torch.zeros(()))
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
    for label, score, levels in ((0, -FAR, "saturates"), (1, FAR, "forgives")):
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
            if name in loss.limits_one_on:
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
