"""Loss: logits and labels to a number, and, where it exists, logits to probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from labelset import check
from labelset.catalog import hyper
from labelset.kernels._choice import IMPLEMENTATIONS
from labelset.kernels._gradient import Kernel
from labelset.kernels.compiled import compiled
from labelset.labels import Labels
from labelset.losses._computed import computed, tensors_of
from labelset.losses._target import Target, dense_target

__all__ = ["Loss", "NoLink", "as_loss", "reduce"]

Terms = tuple[Tensor, Tensor | None]
"""Values, and their weights: 0 where nothing is known, None where every weight is 1."""
FAR = 1e30
"""The score that an infinite one is taken for by a link: there inf - inf would be NaN."""


class NoLink(RuntimeError):
    """A loss whose optimum fixes no probability was asked for one."""


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
        "`native` loops on a CPU; `auto` is the fastest that is there",
    )

    reductions: ClassVar[tuple[str, ...]] = ("mean", "sum", "none")
    proper: ClassVar[bool | None] = None
    """A claim, held to by the laws: strictly proper (True), shown not to be (False), no claim."""
    written_in_sigmoid: ClassVar[bool] = False
    """Whether the formula takes sigmoid(v) for the probability, so that `proper` is about that."""
    limits: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Other losses this one equals: name -> the hyperparameters that make it so."""
    limits_one_on: ClassVar[frozenset[str]] = frozenset()
    """Those of `limits` that hold where each row has exactly one label on."""
    looks_at_labels: ClassVar[bool] = False
    """Whether the values of the labels, not only their kind, decide which kernel is used."""
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    """Hyperparameters with which the laws, the docs and the benchmark try the loss."""

    def __post_init__(self) -> None:
        check.one_of("reduction", self.reduction, self.reductions)
        check.one_of("impl", self.impl, IMPLEMENTATIONS)

    def __call__(self, logits: Tensor, labels: Any) -> Tensor:
        if self.impl == "eager":
            return self.eager(logits, labels)
        return computed(self, logits, labels)

    def kernel(self, impl: str, scores: Tensor, labels: Tensor | Labels) -> Kernel | None:
        """By `triton` or `native`, for scores and labels of this kind; None where it has none."""
        return None

    @cached_property
    def _kernels(self) -> dict[Any, Kernel | None]:
        """Kind of call -> its kernel; None: the eager formula."""
        return {}

    def _learns(self) -> bool:
        """Whether a hyperparameter wants a gradient, which only the eager formula gives."""
        return any(t.requires_grad for t in self._tensors)

    @cached_property
    def _tensors(self) -> list[Tensor]:
        return tensors_of(self)

    def _inherits(self, base: type, *methods: str) -> bool:
        """Whether these methods are those of `base`, on which its kernels stand."""
        return all(getattr(type(self), name) is getattr(base, name) for name in methods)

    @cached_property
    def _compiled(self) -> Kernel:
        return compiled(self.eager)

    def eager(self, logits: Tensor, labels: Any) -> Tensor:
        """The formula as it is written, differentiated by autograd: the truth for the others."""
        parts = [
            reduce(*terms, self.reduction) for terms in self.groups(check.logits(logits), labels)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
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
            "calibration map (temperature, Platt, isotonic) to held-out scores instead"
        )

    # ---- what the laws need to know -------------------------------------------------------------

    @property
    def saturates(self) -> bool:
        """Whether the loss of a positive levels off where its score is far too low."""
        return False

    @property
    def forgives(self) -> bool:
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
        from labelset.losses._sum import Sum

        return Sum.of(self) + other if isinstance(other, Loss) else NotImplemented

    def __radd__(self, other: int) -> Loss:
        return self if other == 0 else NotImplemented  # so that sum([a, b]) works

    def __mul__(self, factor: float) -> Loss:
        from labelset.losses._sum import Sum

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
        for value in self._values().values():
            if isinstance(value, nn.Parameter):
                yield value
            elif isinstance(value, Loss):
                yield from value.parameters()

    def per_label(self) -> int | None:
        """For how many labels it holds a number each; None if it holds none."""
        widths = [len(t) for t in self._values().values() if isinstance(t, Tensor) and t.ndim]
        inner = [x.per_label() for x in self._values().values() if isinstance(x, Loss)]
        return next((w for w in [*widths, *inner] if w not in (None, 1)), None)

    def _values(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

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


def reduce(values: Tensor, weights: Tensor | None, reduction: str) -> Tensor:
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


@lru_cache(maxsize=64)
def named(name: str) -> Loss:
    """The loss of that name with its defaults, the same object each time: its formula is kept."""
    from labelset.losses import build

    return build(name)


def as_loss(name: str, value: Any, kind: type = Loss) -> Any:
    """A loss given as such, by name, or as a mapping of its name and hyperparameters."""
    from labelset.losses import build

    if isinstance(value, str):
        value = named(value)
    elif isinstance(value, Mapping):
        value = build(**value)
    if not isinstance(value, kind):
        called = "loss" if kind is Loss else f"{kind.__name__} loss"
        raise TypeError(f"{name} must be a {called} or the name of one, got {type(value).__name__}")
    return value
