"""ProbMap: scores to probabilities, with what was learnt and how much it helped."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from functools import lru_cache
from inspect import signature
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from labelset import check, inputs
from labelset.catalog import hyper
from labelset.learned import Learned
from labelset.losses import Loss, describe_loss, read_loss
from labelset.metrics import reliability


@dataclass(frozen=True)
class Quality:
    """The average calibration error (ACE) of rows that the map was not fitted on.

    ACE = mean over non-empty bins of |mean p - mean y|; 15 bins of equal width, all known entries
    pooled.

    >>> print(Quality(before=0.1, after=0.02, folds=5))
    ACE 0.1000 before and 0.0200 after calibration (5-fold cross-validation): it helped.
    """

    before: float
    """Of the link of the loss, or of the sigmoid where there is none."""
    after: float
    """Of the map."""
    folds: int
    """Parts of the rows that were held out in turn; 0 where there was nothing to fit."""

    @property
    def helped(self) -> bool:
        """Whether the error is smaller than before."""
        return self.after < self.before

    def __str__(self) -> str:
        how = f"{self.folds}-fold cross-validation" if self.folds else "nothing to fit"
        return (
            f"ACE {self.before:.4f} before and {self.after:.4f} after calibration ({how}): "
            f"it {'helped' if self.helped else 'did not help'}."
        )


def ace(p: Tensor, y: Any) -> float:
    """The pooled ACE of (rows, labels) probabilities; unknown labels are NaN."""
    return reliability(p, y).ace()


def fold_numbers(rows: int, folds: int, seed: int) -> Tensor:
    """The part that each row belongs to: sizes differ by one at most.

    >>> fold_numbers(5, 2, seed=0).bincount()
    tensor([3, 2])
    """
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    return order % folds


PER = "`label`, `pool`, or `shrunk`: each label, drawn to the pool the more the rarer it is"
STRENGTH = "for `shrunk`: how many of its rarer answer a label needs to weigh as much as the pool"

REACH = 4.0  # of the values tried, best or nearly so for `asl` on held-out real data
WIDEST = 100.0  # scores between which a link is searched


def linked(loss: Loss | None) -> bool:
    """Whether scores trained with this loss mean probabilities."""
    return loss is not None and loss.link_missing() is None


def log_odds(loss: Loss, v: Tensor) -> Tensor:
    """The log-odds of the linked probability, infinite where that is 0 or 1."""
    return loss.to(v.device).log_odds(v)


def telling_log_odds(loss: Loss, v: Tensor) -> Tensor:
    """The same, made finite where a link is 0 or 1 for a whole range of scores.

    There (below the margin of `asl`, far out for smoothed `bce`) the scores still tell rows apart:
    beyond log-odds of +-REACH these go on in the steps of v itself. Other links stay as they are.

    >>> v = torch.tensor([[-9.0], [-8.0], [0.0]], dtype=torch.float64)
    >>> from labelset.losses import build
    >>> telling_log_odds(build("asl"), v).flatten()
    tensor([-12.3923, -11.3923,  -1.9225], dtype=torch.float64)
    """
    width = loss.per_label() or 1
    if finite_range(loss, width):
        return log_odds(loss, v)
    low, high = (crossing(loss, width, level).to(v) for level in (-REACH, REACH))
    inside = torch.minimum(torch.maximum(v, low), high)
    return log_odds(loss, inside) + (v - inside)


@lru_cache(maxsize=64)
def finite_range(loss: Loss, width: int) -> bool:
    """Whether no score, however far out, means exactly 0 or 1."""
    far = torch.tensor([-1e3, -30.0, 30.0, 1e3], dtype=torch.float64)[:, None]
    return bool(log_odds(loss, far.expand(-1, width)).isfinite().all())


@lru_cache(maxsize=64)
def crossing(loss: Loss, width: int, level: float) -> Tensor:
    """(1, width): the score at which the log-odds come to lie on the inner side of a level."""
    side = 1.0 if level > 0 else -1.0
    beyond = torch.full((1, width), side * WIDEST, dtype=torch.float64)
    within = -beyond
    for _ in range(60):
        middle = (within + beyond) / 2
        inner = side * log_odds(loss, middle) <= abs(level)
        within, beyond = torch.where(inner, middle, within), torch.where(inner, beyond, middle)
    return within


FAR = 1e200  # stands for an infinite score
LARGEST = 1e100  # scores beyond it are refused: their squares must not overflow


@dataclass(kw_only=True, eq=False)
class ProbMap(Learned, ABC):
    """Probabilities p = f(u), u being the log-odds that the scores v mean by their loss.

    u = logit(link(v)), continued in steps of v where the link is 0 or 1 for a range of scores
    (`asl` below its margin); u = v where the loss has no link or none is given. Subclasses give
    `_learn` and `_map`, both in float64.
    """

    loss: Any = hyper(None, "the loss of the scores, or its name; None: they are log-odds")

    extras: ClassVar[tuple[str, ...]] = ("name", "quality")
    rises: ClassVar[bool] = True
    """A claim, held to by the laws: a higher score never means a lower probability."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.loss = read_loss(self.loss)
        self.quality: Quality | None = None
        self.unseen: Tensor | None = None

    @property
    def scales(self) -> bool:
        """A claim, held to by the laws: log-odds wrong by a factor come out right."""
        return False

    @property
    def shifts(self) -> bool:
        """A claim, held to by the laws: log-odds wrong by a constant come out right."""
        return False

    def fit(self, scores: Any, labels: Any, *, folds: int = 5, seed: int = 0) -> Self:
        """Learn from (rows, labels) scores and their labels, soft ones included.

        Unknown entries are left out, whatever their scores. `quality` then says what the map does
        for rows that it has not seen, by cross-validation over `folds` parts of the rows, drawn
        with `seed`, and `unseen` has their probabilities; `folds=0` leaves that out.
        """
        v, given = inputs.paired_scores(scores, labels)
        if check.whole("folds", folds) == 1:
            raise ValueError("folds must be 0 (no cross-validation) or at least 2, got 1")
        y = given.dense(torch.float64)
        v = torch.where(y.isnan(), 0.0, v.double())
        _refuse_endless(v)
        learnt, weight = {}, given.row_weights
        if self.needs_fit:
            _refuse_one_sided(y)
            learnt = self._learned(self.log_odds(v), y, weight)
        self.unseen = self._cross_fitted(v, y, weight, folds, seed)
        self.learnt, self.quality = learnt, None
        if self.unseen is not None:
            parts = min(folds, len(y)) if self.needs_fit else 0
            self.quality = Quality(ace(self.before(v), given), ace(self.unseen, given), parts)
        return self

    def __call__(self, scores: Any) -> Tensor:
        """(rows, labels) probabilities, in the floating-point type of the scores."""
        v = inputs.scores(scores)
        return self._probabilities(v.double()).to(v.dtype)

    @abstractmethod
    def _learn(self, u: Tensor, y: Tensor) -> dict[str, Tensor]:
        """What (rows, labels) log-odds and labels teach; unknown labels are NaN, their u is 0."""

    @abstractmethod
    def _map(self, u: Tensor) -> Tensor:
        """Probabilities of (rows, labels) log-odds, which are never NaN."""

    # ---- before calibration ---------------------------------------------------------------------

    def log_odds(self, v: Tensor) -> Tensor:
        """u: the log-odds that calibration starts from."""
        return telling_log_odds(self.loss, v) if linked(self.loss) else v

    def before(self, v: Tensor) -> Tensor:
        """The probabilities without calibration: the link of the loss, else the sigmoid."""
        return torch.sigmoid(log_odds(self.loss, v) if linked(self.loss) else v)

    # ---- learning -------------------------------------------------------------------------------

    def _learned(self, u: Tensor, y: Tensor, weight: Tensor | None) -> dict[str, Tensor]:
        """By what rows count, where the map's way to learn heeds it."""
        weighs = weight is not None and len(signature(self._learn).parameters) > 2
        learnt = self._learn(u, y, weight) if weighs else self._learn(u, y)  # type: ignore[call-arg]
        return {name: t.cpu() for name, t in learnt.items()}

    def _probabilities(self, v: Tensor) -> Tensor:
        u = self.log_odds(v.clamp(-FAR, FAR)).clamp(-FAR, FAR)  # so that 0 * u is a number
        return self._map(u).clamp(0.0, 1.0)

    def _cross_fitted(
        self, v: Tensor, y: Tensor, weight: Tensor | None, folds: int, seed: int
    ) -> Tensor | None:
        """None where rows are too few, or one part holds all that are on (or off)."""
        folds = min(folds, len(y))
        if folds < 2 or not bool((~y.isnan()).any()):
            return None
        return self._out_of_fold(v, y, weight, fold_numbers(len(y), folds, seed).to(v.device))

    def _out_of_fold(
        self, v: Tensor, y: Tensor, weight: Tensor | None, part: Tensor
    ) -> Tensor | None:
        """The probability of each row from a map that was fitted without its part."""
        if not self.needs_fit:
            return self._probabilities(v)
        u, after, other = self.log_odds(v), torch.empty_like(v), copy.copy(self)
        for held_out in range(int(part.max()) + 1):
            rest = part != held_out
            if min(answers(y[rest]).sum(1).tolist()) <= 0:
                return None
            other.learnt = self._learned(u[rest], y[rest], None if weight is None else weight[rest])
            after[~rest] = other._probabilities(v[~rest])
        return after

    # ---- JSON -----------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        """All there is, its name in the catalogue included, for `from_json`."""
        from labelset.calibrate import catalog

        saved = super().as_json()
        settings = saved["settings"] | {"loss": describe_loss(self.loss)}
        quality = None if self.quality is None else asdict(self.quality)
        name = catalog.name_of(type(self))
        return {"name": name, **saved, "settings": settings, "quality": quality}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Self:
        """The map that `as_json` described."""
        made = super().from_json(saved)
        quality = saved.get("quality")
        made.quality = None if quality is None else _read_quality(cls.__name__, quality)
        return made


def _read_quality(who: str, saved: Any) -> Quality:
    try:
        quality = Quality(**saved)
        for part in ("before", "after"):
            check.number(part, getattr(quality, part), low=0.0, high=1.0)
        check.whole("folds", quality.folds)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"the saved {who} is damaged: its quality: {error}") from None
    return quality


def answers(y: Tensor, weight: Tensor | None = None) -> Tensor:
    """(2, labels): how much each label was on, and how much off, where it is known; with a weight
    for each entry the sums of these.

    >>> answers(torch.tensor([[1.0, 0.25], [0.0, torch.nan]]))
    tensor([[1.0000, 0.2500],
            [1.0000, 0.7500]])
    """
    each = 1.0 if weight is None else weight
    return torch.stack([(each * y).nansum(0), (each * (1 - y)).nansum(0)])


def _refuse_one_sided(y: Tensor) -> None:
    on, off = answers(y).sum(1).tolist()
    if on + off == 0:
        raise ValueError("no label is known, so that there is nothing to fit; give known labels")
    if on == 0 or off == 0:
        raise ValueError(
            "a calibrator is fitted to labels of which some are positive and some negative, got "
            f"none that is {'positive' if on == 0 else 'negative'} among {on + off:g} known; give "
            "rows of both kinds"
        )


def _refuse_endless(v: Tensor) -> None:
    bad = ~(v.abs() <= LARGEST)
    if bool(bad.any()):
        row, label = (int(i) for i in bad.nonzero()[0])
        raise ValueError(
            f"scores to fit on must be finite and below {LARGEST:g} in size, got "
            f"{v[row, label].item():g} at row {row}, label {label}; clip them beforehand"
        )


def fitting_width(learnt: Tensor, u: Tensor) -> Tensor:
    """Something learnt per label, checked against the scores' number of labels."""
    if len(learnt) != u.shape[1]:
        raise ValueError(
            f"the map was fitted to {len(learnt)} labels, scores have {u.shape[1]}; fit one to "
            'these, or one with per="pool", which serves any number'
        )
    return learnt
