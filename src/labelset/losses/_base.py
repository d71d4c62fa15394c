"""Loss: logits and labels to a number, and, where it exists, logits to probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from labelset import check, csr
from labelset.catalog import hyper, hyperparameters
from labelset.kernels import (
    IMPLEMENTATIONS,
    Kernel,
    choose,
    compiled,
    differentiable,
    signature,
)
from labelset.labels import Labels

Terms = tuple[Tensor, Tensor | None]
"""Values, and their weights: 0 where nothing is known, None where every weight is 1."""
FAR = 1e30
"""The score that an infinite one is taken for by a link: there inf - inf would be NaN."""
MOST = 256  # kinds of calls that a loss remembers
UNSEEN: Any = object()


class NoLink(RuntimeError):
    """A loss whose optimum fixes no probability was asked for one."""


@dataclass(frozen=True, eq=False)  # (torch 2.6 cannot trace a property of a named tuple)
class Target:
    """Dense labels, (rows, labels) in the dtype of the scores, as `terms` reads them."""

    positive: Tensor
    """How positive each entry is: y, and 0 where unknown."""
    known: Tensor | None
    """Bool, or None when every entry is known."""
    hard: bool = False
    """Whether every known entry is surely 0 or 1."""

    @property
    def negative(self) -> Tensor:
        """How negative each entry is: 1 - y, and 0 where unknown."""
        known = 1.0 if self.known is None else self.known.to(self.positive.dtype)
        return known - self.positive


@dataclass(frozen=True, kw_only=True, eq=False)
class Loss(ABC):
    """A number to minimise. Subclasses give `terms`; the base checks, reduces, adds and scales.

    Logits are (rows, labels); labels are `Labels` or what `Labels.from_dense` takes. Reduced
    precision is computed and returned in float32.
    """

    reduction: str = hyper("mean", "`mean` over what is known, `sum`, or `none`")
    impl: str = hyper(
        "auto",
        "what computes it: `eager` formula, `compiled` by torch, `triton` kernels on a GPU, "
        "`native` loops on a CPU; `auto` is the fastest available",
    )

    reductions: ClassVar[tuple[str, ...]] = ("mean", "sum", "none")
    proper: ClassVar[bool | None] = None
    """A claim, held to by the laws: strictly proper (True), shown not to be (False), no claim."""
    written_in_sigmoid: ClassVar[bool] = False
    """Whether the formula takes sigmoid(v) for the probability, so that `proper` is about that."""
    limits: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Other losses this one equals: name -> the hyperparameters that make it so."""
    limits_one_positive: ClassVar[frozenset[str]] = frozenset()
    """Those of `limits` that hold where each row has exactly one positive."""
    of_sums: ClassVar[bool] = False
    """Whether it is made of sums over rows or columns, and so takes longer to solve."""
    looks_at_labels: ClassVar[bool] = False
    """Whether the values of the labels, not only their kind, decide which kernel is used."""
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    """Hyperparameters with which the laws, the docs and the benchmark try the loss."""
    kernel_replaces: ClassVar[tuple[str, ...]] = ()
    """The methods whose work the kernels of a family do, and so never call."""
    has_kernel: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        """Overriding a method that the kernel replaces gives up the kernel: it would not be run."""
        super().__init_subclass__(**options)
        family = next(c for c in cls.__mro__ if "kernel_replaces" in vars(c))
        inherited = (getattr(cls, m) is getattr(family, m) for m in cls.kernel_replaces)
        cls.has_kernel = all(inherited)

    def __post_init__(self) -> None:
        check.one_of("reduction", self.reduction, self.reductions)
        check.one_of("impl", self.impl, IMPLEMENTATIONS)

    def __call__(self, logits: Tensor, labels: Any) -> Tensor:
        if self.impl == "eager":
            return self.eager(logits, labels)
        return self._dispatch(logits, labels)

    def _dispatch(self, logits: Tensor, labels: Any) -> Tensor:
        """By a kernel or by the formula: what the first call of a kind decides, the next reuse."""
        kind = signature(logits, labels)
        if kind is not None and self._learns():
            kind = None
        kernel, target = UNSEEN if kind is None else self._kernels.get(kind, UNSEEN), labels
        if kernel is UNSEEN:
            kernel, target = self._select_kernel(logits, labels)
            if kind is not None and target is labels and not self.looks_at_labels:
                if len(self._kernels) >= MOST:
                    self._kernels.clear()
                self._kernels[kind] = kernel
        if kernel is None:
            return self.eager(logits, target)
        return differentiable(logits, target, kernel, self.eager)

    def _select_kernel(self, logits: Tensor, labels: Any) -> tuple[Kernel | None, Any]:
        """The kernel for logits and labels, which it checks, or None; the labels as it reads
        them."""
        impl = choose(self.impl, check.scores(logits), labels)
        if impl == "eager" or self.reduction == "none" or not logits.numel():
            return None, labels
        target = kernel_target(logits, labels)
        kernel = None
        if not self._learns():
            kernel = self._compiled if impl == "compiled" else self.kernel(impl, logits, target)
        if kernel is None and self.impl != "auto":
            raise RuntimeError(
                f'{type(self).__name__} as it is built here has no kernel; use impl="auto"'
            )
        return kernel, target

    def kernel(self, impl: str, scores: Tensor, labels: Tensor | Labels) -> Kernel | None:
        """By `triton` or `native`, for scores and labels of this kind; None where it has none."""
        return None

    @cached_property
    def _kernels(self) -> dict[Any, Kernel | None]:
        """Kind of call -> its kernel; None: the eager formula."""
        return {}

    @cached_property
    def _compiled(self) -> Kernel:
        return compiled(self.eager)

    def _learns(self) -> bool:
        """Whether a hyperparameter requires grad, which only the eager formula gives."""
        return any(t.requires_grad for t in self._tensors)

    @cached_property
    def _tensors(self) -> list[Tensor]:
        """The hyperparameters that are tensors, those of inner losses included."""
        own = [t for t in self._values().values() if isinstance(t, Tensor)]
        return own + [t for loss in self._inner() for t in loss._tensors]

    def eager(self, logits: Tensor, labels: Any) -> Tensor:
        """The formula as it is written, differentiated by autograd: the truth for the others."""
        groups = self.groups(check.logits(logits), labels)
        total = reduce_terms(*groups[0], self.reduction)
        for terms in groups[1:]:
            total = total + reduce_terms(*terms, self.reduction)
        return total

    def groups(self, v: Tensor, labels: Any) -> list[Terms]:
        """The terms that are reduced together; most losses have one such group."""
        return [self.terms(*dense_target(v, labels))]

    @abstractmethod
    def terms(self, logits: Tensor, labels: Target) -> Terms:
        """Values and weights from scores (0 where unknown) and dense labels."""

    # ---- probabilities ------------------------------------------------------------------------

    def link(self, logits: Tensor) -> Tensor:
        """The probability that each score means at the optimum of this loss."""
        reason = self.link_missing()
        if reason is not None:
            raise NoLink(f"{type(self).__name__} has no link: {reason}")
        return torch.sigmoid(self.log_odds(check.logits(logits).clamp(-FAR, FAR)))

    def log_odds(self, v: Tensor) -> Tensor:
        """log(p / (1 - p)) of the linked probability p: its exact and differentiable form."""
        raise NotImplementedError(f"{type(self).__name__} states no log_odds")

    def link_missing(self) -> str | None:
        """Why there is no link, and what to do instead; None where there is one."""
        return (
            "it compares scores with one another and its optimum fixes no probability. Fit a "
            "calibrator (temperature, Platt, isotonic) to held-out scores instead"
        )

    # ---- what the laws need to know -------------------------------------------------------------

    @property
    def saturates_positives(self) -> bool:
        """Whether the loss of a positive levels off where its score is far too low."""
        return False

    @property
    def saturates_negatives(self) -> bool:
        """Whether the loss of a negative levels off where its score is far too high."""
        return False

    @property
    def detached(self) -> bool:
        """Whether parts of it are kept out of its gradient on purpose."""
        return False

    def meaning(self) -> Loss:
        """The loss whose link this one has: itself, unless it regularises another."""
        return self

    # ---- composition --------------------------------------------------------------------------

    def __add__(self, other: Loss) -> Loss:
        from labelset.losses._combined import Sum

        return Sum.of(self) + other if isinstance(other, Loss) else NotImplemented

    def __radd__(self, other: int) -> Loss:
        return self if other == 0 else NotImplemented  # so that sum([a, b]) works

    def __mul__(self, factor: float) -> Loss:
        from labelset.losses._combined import Sum

        return Sum.of(self) * factor

    __rmul__ = __mul__

    def at(self, epoch: int) -> Loss:
        """The loss in force at that epoch, counted from 0."""
        check.whole("epoch", epoch)
        moved: Loss = self._map(inner=lambda loss: loss.at(epoch))
        return moved

    def to(self, device: torch.device | str) -> Loss:
        """With its tensors, if it has any, on another device."""

        def move(t: Tensor) -> Tensor:
            there = t.to(device)
            return nn.Parameter(there, t.requires_grad) if isinstance(t, nn.Parameter) else there

        moved: Loss = self._map(lambda loss: loss.to(device), move)
        return moved

    def parameters(self) -> Iterator[nn.Parameter]:
        """What an optimiser may learn: the hyperparameters given as `nn.Parameter`."""
        return (t for t in self._tensors if isinstance(t, nn.Parameter))

    def per_label(self) -> int | None:
        """The number of labels for which it has one parameter each; None if it has none."""
        return next((len(t) for t in self._tensors if t.ndim and len(t) != 1), None)

    def _values(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def _inner(self) -> list[Any]:
        """The losses that this one is made of."""
        return [loss for loss in self._values().values() if isinstance(loss, Loss)]

    def _map(
        self,
        inner: Callable[[Any], Any] | None = None,
        tensor: Callable[[Tensor], Tensor] | None = None,
    ) -> Any:
        """This loss with its inner losses and tensors mapped; itself where nothing changes."""
        changes = {}
        for name, value in self._values().items():
            new = value
            if inner is not None and isinstance(value, Loss):
                new = inner(value)
            elif tensor is not None and isinstance(value, Tensor):
                new = tensor(value)
            if new is not value:
                changes[name] = new
        return self._with(**changes)

    def _with(self, **changes: Any) -> Any:
        """A copy with other values in some fields, which were checked before."""
        if not changes:
            return self
        changed = object.__new__(type(self))
        for name, value in self._values().items():
            object.__setattr__(changed, name, changes.get(name, value))
        return changed

    def __eq__(self, other: object) -> bool:
        """Equal kind and hyperparameters, tensors compared by value; `impl` changes no number."""
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = self._values(), other._values()
        return all(equal(mine[name], theirs[name]) for name in mine if name != "impl")

    def __hash__(self) -> int:
        return hash(type(self))

    def __getstate__(self) -> dict[str, Any]:
        """What is copied and pickled: no kernels, which belong to this process."""
        return {name: x for name, x in vars(self).items() if name not in ("_kernels", "_compiled")}


def reduce_terms(values: Tensor, weights: Tensor | None, reduction: str) -> Tensor:
    """Weighted mean, sum, or the values themselves; 0 where every weight is 0."""
    if weights is None:
        total = values if reduction == "none" else values.sum()
        return total / max(values.numel(), 1) if reduction == "mean" else total
    values = torch.where(weights > 0, values, torch.zeros_like(values))
    if reduction == "none":
        return values
    total, count = (values * weights).sum(), weights.sum(dtype=values.dtype)
    return total / torch.where(count > 0, count, 1.0) if reduction == "mean" else total


def equal(x: Any, y: Any) -> bool:
    """Equality that tensors have too."""
    if isinstance(x, Tensor) or isinstance(y, Tensor):
        return isinstance(x, Tensor) and isinstance(y, Tensor) and torch.equal(x, y)
    return bool(x == y)


# ---- labels as the formulas and the kernels read them --------------------------------------------


def dense_target(v: Tensor, labels: Any) -> tuple[Tensor, Target]:
    """Scores with 0 where the label is unknown (whatever they were there), and the labels."""
    if isinstance(labels, Labels):
        y = labels.dense(v.dtype)
        check.same_place(v, y)
    else:
        y = kernel_target(v, labels)
        check.unit_interval(y)
    if not y.is_floating_point() or (isinstance(labels, Labels) and labels.values is None):
        return v, Target(y.to(v.dtype), None, hard=True)
    known = ~y.isnan()
    zero = torch.zeros((), dtype=v.dtype, device=v.device)
    positive = torch.where(known, y.to(v.dtype), zero)
    hard = check.can_look(positive) and bool(((positive == 0) | (positive == 1)).all())
    if check.can_look(known) and bool(known.all()):
        return v, Target(positive, None, hard)
    return torch.where(known, v, zero), Target(positive, known, hard)


def kernel_target(v: Tensor, labels: Any) -> Any:
    """Labels as a kernel reads them, which also checks their values: as they are, beside `v`."""
    y = labels if isinstance(labels, Labels) else csr.as_tensor(labels)
    if not isinstance(labels, (Labels, Tensor)):
        y = y.to(v.device)
    check.same_place(v, y)
    return y


# ---- losses by name, and as JSON -----------------------------------------------------------------


@lru_cache(maxsize=64)
def named(name: str) -> Loss:
    """The loss of that name with its defaults, the same object each time: its formula is kept."""
    from labelset.losses import build

    return build(name)


def as_loss(name: str, value: Any, kind: type = Loss) -> Any:
    """A loss given as such, by name, or as what `describe_loss` makes of one."""
    if isinstance(value, str):
        value = named(value)
    elif isinstance(value, Mapping):
        value = read_loss(value)
    if not isinstance(value, kind):
        called = "loss" if kind is Loss else f"{kind.__name__} loss"
        raise TypeError(f"{name} must be a {called} or the name of one, got {type(value).__name__}")
    return value


def read_loss(described: Any) -> Loss | None:
    """A loss from itself, its name, or what `describe_loss` made of it; None stays None.

    >>> read_loss({"name": "focal", "gamma": 1.0}).gamma
    1.0
    """
    from labelset.losses import build

    if described is None or isinstance(described, Loss):
        return described
    if isinstance(described, str):
        return build(described)
    if not isinstance(described, Mapping):
        raise TypeError(f"loss must be a loss or the name of one, got {type(described).__name__}")
    if "sum" in described:
        first, *rest = (weight * as_loss("sum", part) for weight, part in described["sum"])
        total: Loss = sum(rest, first)
        return total
    return build(**described)


def describe_loss(loss: Loss | None) -> Any:
    """A loss as JSON: its name and hyperparameters; a sum as its weighted parts.

    >>> from labelset.losses import build
    >>> describe_loss(build("mse"))
    {'name': 'mse', 'reduction': 'mean'}
    """
    from labelset.losses import catalog

    if loss is None:
        return None
    if hasattr(loss, "parts"):
        return {"sum": [[weight, describe_loss(part)] for weight, part in loss.parts]}
    name = catalog.name_of(type(loss))
    if name not in catalog:
        raise TypeError(
            f"{name} is not in the catalogue of losses, so that it cannot be saved; leave the "
            "loss out, or give it a file in labelset/losses"
        )
    described: dict[str, Any] = {"name": name}
    for keyword, field in hyperparameters(type(loss)).items():
        value = getattr(loss, field.name)
        if isinstance(value, Loss):
            value = describe_loss(value)
        if keyword != "impl":  # a matter of the machine, not of the model
            described[keyword] = value.tolist() if isinstance(value, Tensor) else value
    return described
