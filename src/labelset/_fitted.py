"""What maps and rules share: settings given by the user, tensors learnt from data, both in JSON."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

__all__ = ["Fitted", "NotFitted"]


class NotFitted(RuntimeError):
    """A map or rule that has something to learn was used before `fit`."""


@dataclass(kw_only=True, eq=False)
class Fitted:
    """Fields are settings; `learnt` holds what `fit` found, empty before it."""

    needs_fit: ClassVar[bool] = True
    """Whether there is anything to learn."""

    def __post_init__(self) -> None:
        self.learnt: dict[str, Tensor] = {}

    def found(self, name: str) -> Tensor:
        """Something learnt; an error before `fit`."""
        if name not in self.learnt:
            raise NotFitted(f"{type(self).__name__} must be fitted first: call fit(..., labels)")
        return self.learnt[name]

    def settings(self) -> dict[str, Any]:
        """The fields, as given."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def as_json(self) -> dict[str, Any]:
        """All there is, for `from_json`: every number exactly as it is."""
        learnt = {
            name: {"dtype": str(t.dtype).removeprefix("torch."), "values": t.tolist()}
            for name, t in self.learnt.items()
        }
        return {"settings": self.settings(), "learnt": learnt}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Self:
        """The object that `as_json` described."""
        made = cls(**saved["settings"])
        made.learnt = {
            name: torch.tensor(part["values"], dtype=getattr(torch, part["dtype"]))
            for name, part in saved["learnt"].items()
        }
        return made
