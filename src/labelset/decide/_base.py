"""Rule: probabilities to label sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from labelset import _csr, _given
from labelset._fitted import Fitted, Part
from labelset.labels import Labels

__all__ = ["Rule"]


@dataclass(kw_only=True, eq=False)
class Rule(Fitted, ABC):
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

    def parts(self) -> Mapping[str, Part] | None:
        """What `learn` returns looks like, as far as it is said."""
        if self.learns:
            return {name: Part("labels") for name in self.learns}
        return {} if type(self).learn is Rule.learn else None

    @abstractmethod
    def decide(self, p: Tensor) -> Tensor:
        """Which labels are on, (rows, labels) bool, from checked probabilities in float64."""

    def learn(self, p: Tensor, on: Tensor, known: Tensor) -> dict[str, Tensor]:
        """What is learnt, by name, from (rows, labels) float64, bool and bool, all on the CPU.

        Where `known` is False, p is 0 and `on` False.
        """
        return {}

    def fit(self, probs: Any, labels: Any) -> Self:
        """Learn from probabilities and their labels; those of unknown labels do not matter.

        Give rows that the model was not trained on and that no result will be reported for.
        """
        self.learnt = self.learn(*aligned(probs, labels))
        return self

    def __call__(self, probs: Any) -> Labels:
        """The label sets, from (rows, labels) probabilities in [0, 1]."""
        p = _given.probabilities(probs)
        self.refuse_width(p)
        on = self.decide(p.double())
        rows, columns = on.nonzero(as_tuple=True)
        return Labels(_csr.pointers(rows, len(p)), columns.to(torch.int32), p.shape[1])

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
    p, y = _given.paired_probabilities(probs, labels)
    truth = _given.hard(y).dense().cpu()
    known = ~truth.isnan()
    return p.double().cpu().masked_fill(~known, 0.0), truth == 1, known
