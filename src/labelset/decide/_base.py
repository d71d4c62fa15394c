"""Rule: probabilities to label sets."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from labelset import csr, inputs
from labelset.labels import Labels
from labelset.learned import Learned, LearnedSpec


@dataclass(kw_only=True, eq=False)
class Rule(Learned, ABC):
    """Decides which labels are on. A rule of one's own states `decide`, and `learn` if it learns.

    >>> from labelset.decide import build
    >>> build("global").fit([[0.9, 0.2], [0.4, 0.1]], [[1, 0], [1, 0]])([[0.5, 0.1]]).dense()
    tensor([[1., 0.]])
    """

    name: ClassVar[str]
    """What `build` calls it."""
    learns: ClassVar[tuple[str, ...]] = ()
    """What `learn` returns, by name; one number per label each, unless `parts` says otherwise."""
    worked: ClassVar[tuple[dict[str, Any], ...]] = ()
    """Cases worked by hand, which a law holds the rule to: what is `given`, the `sets` due, and
    where they matter the `settings` and the (probabilities, labels) of `fit`."""

    @property
    def row_by_row(self) -> bool:
        """Whether what is decided for a row depends on that row alone."""
        return True

    @property
    def monotone(self) -> bool:
        """Whether raising one probability never turns that label off."""
        return True

    @property
    def optimal(self) -> bool:
        """Whether no fixed threshold has a better `objective` on the data it was fitted to."""
        return False

    @property
    def width(self) -> int | None:
        """How many labels the rule is for; None where any number will do."""
        return None

    def parts(self) -> Mapping[str, LearnedSpec] | None:
        """What `learn` returns looks like, as far as it is said."""
        if self.learns:
            return {name: LearnedSpec("labels") for name in self.learns}
        return {} if type(self).learn is Rule.learn else None

    @abstractmethod
    def decide(self, p: Tensor) -> Tensor:
        """Which labels are on, (rows, labels) bool, from checked probabilities in float64."""

    def learn(self, p: Tensor, on: Tensor, known: Tensor) -> dict[str, Tensor]:
        """What is learnt, by name, from (rows, labels) float64, bool and bool, all on the CPU.

        Where `known` is False, p is 0 and `on` False. A rule that heeds what rows count takes a
        fourth argument, `weight`: (rows,) float64, or None where they count alike.
        """
        return {}

    def fit(self, probs: Any, labels: Any) -> Self:
        """Learn from probabilities and their labels; those of unknown labels do not matter.

        Give rows that the model was not trained on and that no result will be reported for.
        """
        given: list[Tensor] = [*aligned(probs, labels)]
        weight = getattr(labels, "row_weights", None)
        if weight is not None and len(signature(self.learn).parameters) > 3:
            given.append(weight.cpu())
        self.learnt = self.learn(*given)
        return self

    def __call__(self, probs: Any) -> Labels:
        """The label sets, from (rows, labels) probabilities in [0, 1]."""
        p = inputs.probabilities(probs)
        self.refuse_width(p)
        on = self.decide(p.double())
        rows, columns = on.nonzero(as_tuple=True)
        return Labels(csr.pointers(rows, len(p)), columns.to(torch.int32), p.shape[1])

    def refuse_width(self, p: Tensor) -> None:
        """ValueError for probabilities of another number of labels than the rule is for."""
        if self.width not in (None, p.shape[1]):
            raise ValueError(
                f"the rule {self.name!r} is for {self.width} labels, got probabilities of "
                f"{p.shape[1]}; fit one on these"
            )

    def as_json(self) -> dict[str, Any]:
        """All there is, for `labelset.decide.from_json`."""
        return {"name": self.name, **super().as_json()}


def aligned(probs: Any, labels: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities, labels that are on and which are known, on the CPU; 0 where unknown."""
    p, y = inputs.paired_probabilities(probs, labels)
    truth = inputs.hard(y).dense().cpu()
    known = ~truth.isnan()
    return p.double().cpu().masked_fill(~known, 0.0), truth == 1, known


Array = np.ndarray[Any, Any]


def counted(labels: Any) -> Any:
    """What rows count: 1, or (rows,) their weights."""
    weight = getattr(labels, "row_weights", None)
    return 1 if weight is None else weight.cpu().numpy()


NEVER = math.nextafter(1.0, 2.0)
"""A threshold that no probability reaches."""

NEUTRAL = 0.5
"""The threshold where the data say nothing: no positives, or nothing known."""


@dataclass(kw_only=True, eq=False)
class Thresholds(Rule):
    """A label is on where p >= its threshold."""

    @property
    @abstractmethod
    def thresholds(self) -> Tensor:
        """float64: one number, or one per label."""

    def parts(self) -> dict[str, LearnedSpec]:
        """One number for all labels, unless a subclass learns another."""
        return {name: LearnedSpec(low=0.0, high=NEVER) for name in self.learns}

    @property
    def width(self) -> int | None:
        """One threshold serves any number of labels."""
        each = self.learnt.get("thresholds")
        return None if each is None or each.ndim == 0 else len(each)

    def decide(self, p: Tensor) -> Tensor:
        """p >= threshold, compared in float64, so that the dtype of p changes nothing."""
        return p >= self.thresholds.to(p.device)


def between(lower: Array, upper: Array) -> Array:
    """Midway, so that lower < threshold <= upper even where the two are neighbouring floats.

    >>> float(between(np.array(0.25), np.array(0.75)))
    0.5
    """
    middle = (lower + upper) / 2
    return np.where(middle > lower, middle, upper)


def above(highest: Array) -> Array:
    """A threshold that turns everything up to `highest` off: midway to 1, or beyond 1.

    >>> float(above(np.array(0.5))), float(above(np.array(1.0))) > 1
    (0.75, True)
    """
    return between(highest, np.where(highest < 1, 1.0, NEVER))


def check_room(k: int, labels: int) -> None:
    """k labels can only be on where there are as many."""
    if k > labels:
        raise ValueError(f"k must be at most the number of labels, {labels}, got {k}; lower k")


def largest(score: Tensor, k: int) -> Tensor:
    """(rows, labels) bool, k on in each row; of equal scores the lowest label number.

    >>> largest(torch.tensor([[0.3, 0.5, 0.3, 0.1]]), 2)
    tensor([[ True,  True, False, False]])
    """
    check_room(k, score.shape[1])
    least = torch.topk(score, k, dim=1).values[:, -1:]
    on, level = score > least, score == least
    return on | (level & (level.cumsum(1) <= k - on.sum(1, keepdim=True)))
