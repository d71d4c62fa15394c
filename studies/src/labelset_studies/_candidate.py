"""Candidate: one way of training that a table compares."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from labelset import check, losses
from labelset.losses import Loss
from labelset_studies._start import STARTS


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A loss with its hyperparameters, a head, and what differs in its training.

    >>> Candidate(name="asl, pairs", loss="asl", lpr=1.0).build_loss().link_missing() is None
    True
    """

    name: str
    loss: str = "bce"
    settings: dict[str, Any] = field(default_factory=dict)
    """Hyperparameters of the loss."""
    lpr: float = 0.0
    """Weight of the label pair regulariser of this loss, which is added to it."""
    head: str = "linear"
    head_settings: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    """Settings of training; `lr_times` multiplies the learning rate that suits the data."""
    pseudo: bool = False
    """Train twice: confident predictions of the first model are labels of the second."""
    micro: int | None = None
    """Rows of a micro batch, where a batch is dealt with in parts."""
    exact: bool = True
    """Micro batches make the gradient of the whole batch; else the mean of their own."""
    start: str = "own"
    """Where biases start: see `labelset_studies._start.start`."""
    at: tuple[tuple[str, Any], ...] = ()
    """Where it stands in a sweep: what varies, and its value here."""

    def __post_init__(self) -> None:
        check.one_of("start", self.start, STARTS)
        self.build_loss()

    def build_loss(self, impl: str = "auto") -> Loss:
        """The loss, with its regulariser where it has one."""
        loss = losses.build(self.loss, **self.settings, impl=impl)
        if not self.lpr:
            return loss
        return loss + self.lpr * losses.build("lpr", of=loss, impl=impl)

    def trying(self, setting: Mapping[str, Any]) -> Candidate:
        """With one setting of a search: keys of the loss under `settings`, others of training."""
        given = dict(setting)
        own = given.pop("settings", {})
        return replace(self, settings={**self.settings, **own}, training={**self.training, **given})

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "at": [list(pair) for pair in self.at]}


def read_candidates(given: list[dict[str, Any]]) -> list[Candidate]:
    """Candidates as a table's file names them; one with `vary` stands for many.

    >>> [c.name for c in read_candidates([{"name": "asl", "vary": {"settings.margin": [0, 0.1]}}])]
    ['asl, margin=0', 'asl, margin=0.1']
    """
    found = [one for entry in given for one in _varied(dict(entry))]
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"candidates must have names of their own; {twice!r} is there twice")
    return found


def _varied(entry: dict[str, Any]) -> Iterator[Candidate]:
    vary: dict[str, list[Any]] = entry.pop("vary", {})
    entry.setdefault("loss", entry.get("name", "bce"))
    for values in itertools.product(*vary.values()):
        made, at = {**entry}, []
        for path, value in zip(vary, values, strict=True):
            group, dot, key = path.partition(".")
            made[group] = {**made.get(group, {}), key: value} if dot else value
            at.append((key or group, value))
        made["name"] = ", ".join([entry["name"], *(f"{key}={value}" for key, value in at)])
        yield _candidate(made, tuple(at))


def _candidate(given: dict[str, Any], at: tuple[tuple[str, Any], ...]) -> Candidate:
    known = [f.name for f in fields(Candidate)]
    for key in given:
        if key not in known:
            raise ValueError(f"a candidate has no {key!r}: {check.nearest(key, known)}")
    return Candidate(**given, at=at)
