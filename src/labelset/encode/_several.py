"""Several encoders of the same rows, side by side: for blends whose parts see rows differently."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from torch import Tensor

from labelset.data import Dataset
from labelset.encode._base import Encoder, Inputs

MOST = 64
"""Encoders together: a crafted file must not cost more."""


@dataclass(kw_only=True, eq=False)
class Several(Encoder):
    """Gives a tuple: the features by each of its encoders, all of them fitted."""

    name = "several"

    encoders: Sequence[Encoder] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reads = tuple(dict.fromkeys(what for one in self.encoders for what in one.reads))  # type: ignore[misc]

    @property
    def fitted(self) -> bool:
        return all(one.fitted for one in self.encoders)

    def fit(self, train: Dataset) -> Self:
        return self

    def prepare(self, dataset: Dataset) -> Inputs:
        raise TypeError("several encoders give a tuple of features: call them")

    def __call__(self, dataset: Dataset) -> Any:
        return tuple(one(dataset) for one in self.encoders)

    @property
    def placed(self) -> bool:
        return any(one.placed for one in self.encoders)

    @property
    def nbytes(self) -> int:
        return sum(one.nbytes for one in self.encoders)

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "encoders": [one.as_json() for one in self.encoders]}

    def state(self) -> dict[str, Tensor]:
        return {
            f"{number}.{name}": t
            for number, one in enumerate(self.encoders)
            for name, t in one.state().items()
        }


def several_from_json(
    saved: Mapping[str, Any],
    state: Mapping[str, Tensor],
    read: Callable[[Mapping[str, Any], Mapping[str, Tensor]], Encoder],
) -> Several:
    """What `as_json` and `state` described; `read` makes one encoder of its own."""
    described = saved["encoders"]
    if not isinstance(described, list) or not 1 <= len(described) <= MOST:
        raise ValueError(f"several encoders are a list of 1 to {MOST}")
    own: list[dict[str, Tensor]] = [{} for _ in described]
    for name, t in state.items():
        number, _, rest = name.partition(".")
        if not number.isdigit() or int(number) >= len(own):
            raise ValueError(f"the tensor {name!r} belongs to none of {len(own)} encoders")
        own[int(number)][rest] = t
    if any(one["name"] == Several.name for one in described):
        raise ValueError("several encoders are not kept inside others")
    return Several(encoders=[read(one, each) for one, each in zip(described, own, strict=True)])
