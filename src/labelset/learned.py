"""What maps and rules share: settings given by the user, tensors learnt from data, both in JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import torch
from torch import Tensor

from labelset.catalog import Catalog

F = TypeVar("F", bound="Learned")

DTYPES = {str(t).removeprefix("torch."): t for t in (torch.float32, torch.float64)}
DTYPES |= {str(t).removeprefix("torch."): t for t in (torch.int64, torch.bool)}
NEEDED = ("settings", "learnt")
DAMAGE = (AttributeError, KeyError, OverflowError, RuntimeError, TypeError, ValueError)
"""What constructors raise when given nonsense."""


class NotFitted(RuntimeError):
    """A map or rule that has something to learn was used before `fit`."""


class LearnedSpec(NamedTuple):
    """What a learnt tensor must look like. The same name in two shapes means the same size.

    >>> LearnedSpec("labels+1").refuse("start", torch.zeros(4), {"labels": 2})
    Traceback (most recent call last):
    ValueError: start must have 3 entries along labels+1, got 4
    """

    shape: str = ""
    """An axis a word, with a number that is added to its size; "" for a single number."""
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    """int64; float64 otherwise."""
    rising: bool = False
    """Along the last axis, but for rounding."""

    def refuse(self, who: str, t: Tensor, sizes: dict[str, int]) -> None:
        """ValueError unless the tensor is such a part; `sizes` gathers those of the axes."""
        axes = self.shape.split()
        if t.ndim != len(axes):
            want = " x ".join(axes) or "one number"
            raise ValueError(f"{who} must have {len(axes)} dimensions ({want}), got {t.ndim}")
        for axis, size in zip(axes, t.shape, strict=True):
            name, _, more = axis.partition("+")
            extra = int(more or 0)
            own = sizes.setdefault(name, max(size - extra, 0))
            due = extra + (int(name) if name.isdigit() else own)
            if size != due:
                raise ValueError(f"{who} must have {due} entries along {axis}, got {size}")
        self._refuse_values(who, t)

    def _refuse_values(self, who: str, t: Tensor) -> None:
        due = torch.int64 if self.whole else torch.float64
        if t.dtype != due:
            raise ValueError(f"{who} must be of {due}, got {t.dtype}")
        outside = ~((t >= self.low) & (t <= self.high))
        if bool(outside.any()):
            ends, first = f"[{self.low:g}, {self.high:g}]", t[outside].flatten()[0].item()
            raise ValueError(f"{who} must lie in {ends}, got {first:g}")
        if self.rising and t.ndim and bool((t.diff() < -1e-9 * (1 + t[..., 1:].abs())).any()):
            raise ValueError(f"{who} must rise, it falls somewhere")


@dataclass(kw_only=True, eq=False)
class Learned:
    """Fields are settings; `learnt` holds what `fit` found, empty before it."""

    needs_fit: ClassVar[bool] = True
    """Whether there is anything to learn."""
    extras: ClassVar[tuple[str, ...]] = ("name",)
    """What JSON may hold besides settings and learnt."""

    def __post_init__(self) -> None:
        self.learnt: dict[str, Tensor] = {}

    def found(self, name: str) -> Tensor:
        """Something learnt; an error before `fit`."""
        if name not in self.learnt:
            raise NotFitted(f"{type(self).__name__} must be fitted first: call fit(..., labels)")
        return self.learnt[name]

    def parts(self) -> Mapping[str, LearnedSpec] | None:
        """What `fit` learns with these settings, by name; None where the class does not say."""
        return None if self.needs_fit else {}

    def settings(self) -> dict[str, Any]:
        """The fields, as given."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    # ---- JSON -----------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        """All there is, for `from_json`: every number exactly as it is. NotFitted before `fit`."""
        if self.needs_fit and not self.learnt:
            raise NotFitted(f"{type(self).__name__} must be fitted before it is saved: call fit")
        learnt = {
            name: {"dtype": str(t.dtype).removeprefix("torch."), "values": t.tolist()}
            for name, t in self.learnt.items()
        }
        return {"settings": self.settings(), "learnt": learnt}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Self:
        """The object that `as_json` described; ValueError where it can have described none."""
        who = f"the saved {cls.__name__}"
        _refuse_keys(who, saved, NEEDED, cls.extras)
        if not all(isinstance(saved[key], dict) for key in NEEDED):
            raise ValueError(f"{who} is damaged: settings and learnt must be dicts")
        try:
            made = cls(**saved["settings"])
        except DAMAGE as error:
            raise ValueError(f"{who} is damaged: its settings: {_line(error)}") from None
        made.learnt = {
            name: _read(f"{who} is damaged: {name}", part) for name, part in saved["learnt"].items()
        }
        made.refuse_learnt(f"{who} is damaged:")
        return made

    def refuse_learnt(self, who: str) -> None:
        """ValueError unless what was learnt is all of `parts`, each as it must be."""
        parts = self.parts()
        if not self.learnt and not self.needs_fit:
            return
        if not self.learnt or (parts is not None and set(parts) != set(self.learnt)):
            due = "something" if parts is None else " and ".join(parts) or "nothing"
            held = " and ".join(self.learnt) or "nothing"
            raise ValueError(f"{who} it should have learnt {due}, it holds {held}")
        sizes: dict[str, int] = {}
        for name, part in (parts or {}).items():
            part.refuse(f"{who} {name}", self.learnt[name], sizes)


def described(catalog: Catalog[F], saved: Any) -> F:
    """The object of the catalogue that `as_json` described."""
    _refuse_keys(f"a saved {catalog.what}", saved, ("name", *NEEDED), None)
    return catalog.get(saved["name"]).from_json(saved)


def _refuse_keys(
    who: str, saved: Any, needed: tuple[str, ...], also: tuple[str, ...] | None
) -> None:
    """A dict with what is needed and, unless that is left open, no more than `also`."""
    held = set(saved) if isinstance(saved, dict) else set()
    if set(needed) <= held and (also is None or held <= {*needed, *also}):
        return
    got = f"{sorted(map(str, saved))}" if isinstance(saved, dict) else type(saved).__name__
    more = f", perhaps {' and '.join(also)}, and nothing else" if also else ""
    raise ValueError(f"{who} must be a dict with {', '.join(needed)}{more}; got {got}")


def _read(who: str, part: Any) -> Tensor:
    """A tensor from its dtype and values."""
    _refuse_keys(who, part, ("dtype", "values"), ())
    dtype = DTYPES.get(part["dtype"]) if isinstance(part["dtype"], str) else None
    if dtype is None:
        raise ValueError(f"{who}: dtype must be one of {', '.join(DTYPES)}, got {part['dtype']!r}")
    try:
        t = torch.tensor(part["values"], dtype=dtype)
    except DAMAGE as error:
        raise ValueError(f"{who}: values must be an array of numbers: {_line(error)}") from None
    if not bool(t.isfinite().all()):
        raise ValueError(f"{who}: values must be finite numbers")
    if t.tolist() != part["values"]:
        raise ValueError(f"{who}: values must be {part['dtype']} numbers, and some are not")
    return t


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
