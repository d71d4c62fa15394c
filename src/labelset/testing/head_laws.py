"""The laws of heads. Each is a function that makes a fresh head and raises `LawBroken`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from labelset.heads import Head, NoMatrix
from labelset.testing.cases import LawBroken, hold, hold_to, near
from labelset.torch_private import compiler_error, forget_compiled

Make = Callable[[], Head]


def _features(head: Head, *shape: int) -> Tensor:
    """Random features of the width that the head takes, at three places where it takes places."""
    first = next(p for p in head.parameters() if p.ndim == 2)
    width = head.settings["features"] if hasattr(head, "settings") else first.shape[1]
    g = torch.Generator().manual_seed(0)
    places = (3,) if head.places else ()
    return torch.randn(*shape, *places, width, generator=g).to(first)


def _refuses(head: Head) -> bool:
    """Whether the head takes places; then there must be neither a matrix nor weights."""
    for asked in (head.matrix, lambda: head.weights(torch.arange(1))):
        try:
            asked()
            hold(not head.places, "a head of places gives a matrix, or weights, of no meaning")
        except NoMatrix:
            hold(head.places, "a head that takes features has no matrix")
    return head.places


def matrix(make: Make) -> None:
    """The logits are W x + b, with x = project(features) and (W, b) = matrix(), or `NoMatrix` where
    the head takes places."""
    head = make().double()
    e = _features(head, 5)
    near(head.logits(head.project(e)), head(e), "logits(project(e)) is not the head itself")
    if _refuses(head):
        return
    weight, bias = head.matrix()
    want = head.project(e) @ weight.T + (0 if bias is None else bias)
    near(head(e), want, "the logits are not W x + b", 1e-9, 1e-9)


def weights(make: Make) -> None:
    """Weights times features, and the logits of zeros, are the logits of any labels."""
    head = make().double()
    if _refuses(head):
        return
    e = _features(head, 5)
    some = torch.arange(0, len(head.matrix()[0]), 2)
    want = head(e)[:, some] - head(torch.zeros_like(e))[:, some]
    near(e @ head.weights(some).T, want, "weights times features are not the logits", 1e-9, 1e-9)


def shapes(make: Make) -> None:
    """Any leading shape goes through, none and zero rows included."""
    head = make()
    n = head.labels
    for shape in ((), (1,), (0,), (2, 3)):
        got = head(_features(head, *shape)).shape
        hold(got == (*shape, n), f"features {shape} give logits of shape {tuple(got)}")


def gradient(make: Make) -> None:
    """Gradients reach the features and every parameter, and are derivatives."""
    head = make().double()
    e = _features(head, 3).requires_grad_()
    try:
        torch.autograd.gradcheck(lambda t: head(t), e)
    except RuntimeError as error:
        raise LawBroken(f"the gradient is not the derivative: {error}") from None
    head(e).square().sum().backward()
    for name, p in head.named_parameters():
        hold(p.grad is not None or not p.numel(), f"no gradient reaches {name}")


def precision(make: Make) -> None:
    """float32 and bfloat16 autocast give the logits of float64, rounded; halves come back whole."""
    head = make()
    e = _features(head, 6)
    want = copy.deepcopy(head).double()(e.double()).detach()
    scale = float(want.abs().max()) + 1.0
    near(head(e), want, "float32 is far from float64", 1e-6, 1e-5 * scale)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        near(head(e), want, "bfloat16 autocast is far from float64", 0.05, 0.05 * scale)


def round_trip(make: Make) -> None:
    """A state dict carries all there is, into a head that was made anew; copies are equal."""
    head, other = make(), make()
    with torch.no_grad():
        for p in head.parameters():
            p.add_(torch.randn(p.shape, generator=torch.Generator().manual_seed(1)))
    other.load_state_dict(head.state_dict())
    e = _features(head, 4)
    near(other(e), head(e), "a state dict does not carry the whole head")
    near(copy.deepcopy(head)(e), head(e), "a deep copy is another head")


def compiled(make: Make) -> None:
    """torch.compile takes it in one piece and changes nothing."""
    head = make()
    e = _features(head, 4)
    forget_compiled()
    try:
        got = torch.compile(head, fullgraph=True, backend="aot_eager")(e)
    except compiler_error() as error:
        raise LawBroken(f"torch.compile breaks the graph: {error}") from None
    near(got, head(e), "torch.compile changes the logits", 1e-6, 1e-6)


HEAD_LAWS: dict[str, Callable[[Make], None]] = {
    law.__name__: law
    for law in (matrix, weights, shapes, gradient, precision, round_trip, compiled)
}


def check_head(make: Make, laws: Iterable[str] | None = None) -> None:
    """Hold a head to the laws; `make` makes a fresh one, such as `lambda: build("linear", ...)`.

    >>> from labelset.heads import build
    >>> check_head(lambda: build("linear", features=3, labels=4), laws=["matrix", "shapes"])
    """
    hold_to(HEAD_LAWS, laws, make, "the head")
