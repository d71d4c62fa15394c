"""Explanation: why rows have their scores of labels, and what a model has learnt about a label."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from labelset import check
from labelset.data import Dataset, Schema
from labelset.display import Shown
from labelset.encode import Encoder
from labelset.encode.tfidf import TFIDF
from labelset.heads import Head
from labelset.model.blend import Blend
from labelset.model.contributions import TOGETHER, Contributions, along, of_model
from labelset.model.forest import Forest

if TYPE_CHECKING:
    from labelset.model.folder import SavedModel

Array = NDArray[Any]
Term = tuple[str, float]
"""What a feature is called, and its contribution or weight."""
SIDE = 16
"""Squares along the longer side of a heat map."""
MEMBER, BASE, REST = "", "(base)", "(rest)"


@dataclass(frozen=True)
class Share:
    """What one model of a blend adds to a score: value = sum of terms + rest."""

    name: str
    value: float
    terms: tuple[Term, ...]
    rest: float


@dataclass(frozen=True)
class Reason:
    """Why a row has its score of a label: score = base + sum of terms + rest.

    >>> print(Reason(0, None, "sea", 1.5, -1.0, (('"wave"', 2.0), ('"sun"', -0.25)), 0.75))
    row 0, sea: 1.50 = -1.00 (base) +2.00 "wave" -0.25 "sun" +0.75 (rest)
    """

    row: int
    id: str | None
    label: str
    score: float
    """The model's own, before any calibrator: log-odds, or a margin where the loss has no link."""
    base: float
    """The score where nothing is known: no word, each number as it is on average; of trees the
    score of all training rows."""
    terms: tuple[Term, ...]
    """The largest contributions, largest first."""
    rest: float
    """All others together."""
    members: tuple[Share, ...] = ()
    """Of a blend: what each model adds; these values add up to score - base, too."""
    heat: Tensor | None = field(default=None, compare=False)
    """Of a picture: (squares down, squares across) what each part of it adds."""

    def __str__(self) -> str:
        place = self.row if self.id is None else self.id
        return f"row {place}, {self.label}: {self.sum_of_terms()}"

    def sum_of_terms(self) -> str:
        """The score as a sum, to be read."""
        rest = [] if abs(self.rest) < 0.005 else [(REST, self.rest)]
        added = "".join(f" {value:+.2f} {name}" for name, value in (*self.terms, *rest))
        return f"{self.score:.2f} = {self.base:.2f} {BASE}{added}"

    def as_json(self) -> dict[str, Any]:
        """Plain data; numbers to six digits."""
        held: dict[str, Any] = {"label": self.label, "score": _short(self.score)}
        held |= {"base": _short(self.base), "terms": _shorts(self.terms), "rest": _short(self.rest)}
        if self.members:
            held["members"] = [
                {"name": each.name, "value": _short(each.value)}
                | {"terms": _shorts(each.terms), "rest": _short(each.rest)}
                for each in self.members
            ]
        if self.heat is not None:
            held["heat"] = [[_short(value) for value in line] for line in self.heat.tolist()]
        return held


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _shorts(terms: Iterable[Term]) -> list[list[Any]]:
    return [[name, _short(value)] for name, value in terms]


class Explanation(Shown, Sequence[Reason]):
    """The reasons of rows and labels, one after the other.

    >>> reason = Reason(0, None, "sea", 1.0, -1.0, (('"wave"', 2.0),), 0.0)
    >>> found = Explanation([reason])
    >>> len(found), found[0].terms
    (1, (('"wave"', 2.0),))
    >>> found.to_frame()
       row label   member    term  value
    0    0   sea         (base)   -1.0
    1    0   sea         "wave"    2.0
    2    0   sea         (rest)    0.0
    """

    def __init__(self, reasons: Iterable[Reason]) -> None:
        self._reasons = tuple(reasons)

    def __len__(self) -> int:
        return len(self._reasons)

    def __getitem__(self, at: Any) -> Any:
        return self._reasons[at]

    def __repr__(self) -> str:
        return "\n".join(map(str, self._reasons))

    def records(self) -> list[dict[str, Any]]:
        """A line for each term: values of a row and label without a member add up to the score;
        those of the members, which follow, to the same without the base."""
        lines = []
        for reason in self:
            which = (reason.row if reason.id is None else reason.id, reason.label)
            lines.append((*which, MEMBER, BASE, reason.base))
            for member, terms, rest in (
                (MEMBER, reason.terms, reason.rest),
                *((each.name, each.terms, each.rest) for each in reason.members),
            ):
                lines += [(*which, member, *term) for term in (*terms, (REST, rest))]
        names = ("row", "label", "member", "term", "value")
        return [dict(zip(names, line, strict=True)) for line in lines]


# ---- of rows ------------------------------------------------------------------------------------


class Explainer:
    """Rows to reasons, by one model; what its features are called is looked up once."""

    def __init__(self, saved: SavedModel, top: int = 10) -> None:
        self.top, self.names = check.whole("top", top, low=1), saved.names
        self.scorer = saved.scorer()
        self.model, self.encoder = self.scorer.model, cast(Encoder, self.scorer.encoder)
        if not isinstance(self.model, Head) and not hasattr(self.model, "contributions"):
            raise ValueError("an estimator of others, which is kept in no file, is not explained")
        self.encoders = getattr(self.encoder, "encoders", (self.encoder,))
        self._known: dict[tuple[int, ...], FeatureNames] = {}
        schema = saved.about.get("schema")
        self.columns = None if schema is None else Schema.from_json(schema).feature_names()

    def features(self, *widths: int) -> FeatureNames:
        """What so many features of each encoder are called."""
        if widths not in self._known:
            each = zip(self.encoders, widths, strict=True)
            named = (encoder.feature_names(width, self.columns) for encoder, width in each)
            self._known[widths] = FeatureNames([*chain.from_iterable(named)])
        return self._known[widths]

    def __call__(
        self, rows: Dataset, labels: Sequence[Sequence[int]], scores: Tensor, first: int = 0
    ) -> Iterator[Reason]:
        """The reasons of these labels of each row; `first`: the number of the first row."""
        row = np.repeat(np.arange(len(rows)), [len(each) for each in labels])
        label = np.array([at for each in labels for at in each], dtype=np.int64)
        explained = self._network if self._sees(rows) else self._features
        ids = rows.ids
        for at, found in enumerate(explained(rows, row, label, scores)):
            number = int(row[at])
            yield Reason(
                row=first + number,
                id=None if ids is None else ids[number],
                label=self.names[label[at]],
                score=float(scores[number, label[at]]),
                **found,
            )

    def _features(
        self, rows: Dataset, row: Array, label: Array, scores: Tensor
    ) -> Iterator[dict[str, Any]]:
        """By the features that the encoder gives."""
        if not len(row):
            return
        views = tuple(_view(encoder, rows) for encoder in self.encoders)
        found = of_model(self.model, views if len(views) > 1 else views[0], row, label)
        widths = [int(view.shape[1]) for view in views]
        whole = self.features(*widths)
        own = scores[row, label].double().numpy()
        last = -1
        for at, (score, base) in enumerate(zip(own, found.base, strict=True)):
            if at == 0 or row[at] != last:
                last = row[at]
                features = self._in_text(whole, views, rows, int(last))
            terms = features.largest(found, at, self.top)
            shares = []
            for name, member in found.members:
                value = float(member.values[[at]].sum())
                inner = features.largest(member, at, self.top)
                shares.append(Share(name, value, inner, value - _sum(inner)))
            rest = float(score - base) - _sum(terms)
            yield {"base": float(base), "terms": terms, "rest": rest, "members": tuple(shares)}

    def _in_text(
        self, features: FeatureNames, views: Sequence[Any], rows: Dataset, number: int
    ) -> FeatureNames:
        """Of n-grams, which overlap, the words of the text that they lie in; of networks, too."""
        start, place, moved = 0, dict[str, int](), dict[tuple[int, int], float]()
        for encoder, view in zip(self.encoders, views, strict=True):
            words, shares = list[str](), dict[tuple[int, int], float]()
            if encoder.table() is not None:
                words = view.words[number][0]
                shares = {(at, at): 1.0 for at in range(len(words))}
            elif isinstance(encoder, TFIDF) and not encoder.svd and rows.texts is not None:
                words, shares = encoder.words_of(rows.texts[number])
            at = [place.setdefault(word, len(place)) for word in words]
            moved |= {(start + term, at[word]): share for (term, word), share in shares.items()}
            start += int(view.shape[1])
        return features.within([*place], moved) if moved else features

    # ---- networks that are trained with the head ------------------------------------------------

    def _sees(self, rows: Dataset) -> bool:
        """Whether what goes into the encoder's network are pictures or numbers, of which slopes can
        be taken."""
        trained = self.encoder.module is not None and isinstance(self.model, Head)
        numbers = rows.images is not None or rows.features is not None
        return trained and numbers and self.encoder.table() is None

    def _network(
        self, rows: Dataset, row: Array, label: Array, scores: Tensor
    ) -> Iterator[dict[str, Any]]:
        """By squares of a picture, from one of its mean colour to itself; or by numbers."""
        module, inputs = cast(nn.Module, self.encoder.module).eval(), self.encoder.prepare(rows)
        where = next(module.parameters()).device

        def score(x: Tensor) -> Tensor:
            logits: Tensor = self.model(module(x.to(where)).cpu().double())
            return logits

        for at in range(0, len(row), TOGETHER):
            some, asked = row[at : at + TOGETHER], label[at : at + TOGETHER]
            end = self.encoder.as_numbers(cast(Tensor, inputs[torch.from_numpy(some)]))
            plain = end.mean((-2, -1), keepdim=True) if end.ndim == 4 else torch.zeros(())
            low, added = along(score, plain.expand_as(end).contiguous(), end, asked)
            for each, number in enumerate(some):
                base, whole = float(low[each]), float(scores[number, asked[each]])
                if end.ndim == 4:
                    heat = squares(torch.from_numpy(added[each].sum(0)))
                    terms, own = _square_terms(heat, self.top), dict[str, Any](heat=heat)
                else:
                    values = Contributions(low[each : each + 1], added[each : each + 1])
                    terms, own = self.features(end.shape[1]).largest(values, 0, self.top), {}
                yield own | {"base": base, "terms": terms, "rest": whole - base - _sum(terms)}


class FeatureNames:
    """What features are called; those of one name are spoken of together.

    >>> FeatureNames(["age", "embedding of text", "embedding of text"]).alone
    array([ True, False, False])
    """

    def __init__(self, names: Sequence[str]) -> None:
        place: dict[str, int] = {}
        groups = [place.setdefault(name, len(place)) for name in names]
        self.group: Array = np.array(groups, dtype=np.int64)
        self.names = [*place]
        self.alone: Array = (np.bincount(self.group, minlength=1) == 1)[self.group]
        self.words: list[str] = []
        self.shares: Any = None
        """Of one text, (features, words)."""

    def within(self, words: Sequence[str], shares: Mapping[tuple[int, int], float]) -> FeatureNames:
        """The same of one text: a term's contribution is shared out to the words it lies in."""
        from scipy.sparse import csr_matrix

        made = copy(self)
        places = np.array([*shares], dtype=np.int64).reshape(-1, 2)
        shape = (len(self.group), len(words))
        made.shares = csr_matrix(([*shares.values()], (places[:, 0], places[:, 1])), shape=shape)
        made.words = [f'"{word}"' for word in words]
        return made

    def largest(self, found: Contributions, pair: int, top: int) -> tuple[Term, ...]:
        """The largest contributions of a pair."""
        from scipy.sparse import csr_matrix

        line = csr_matrix(found.values[[pair]])
        indices, values = line.indices, line.data
        terms: tuple[Term, ...] = ()
        if self.shares is not None:
            inside = np.diff(self.shares.indptr)[indices] > 0
            whole = csr_matrix((values * inside, indices, [0, len(indices)]), shape=line.shape)
            terms = tuple(zip(self.words, (whole @ self.shares).toarray()[0].tolist(), strict=True))
            indices, values = indices[~inside], values[~inside]
        groups, place = np.unique(self.group[indices], return_inverse=True)
        sums = np.bincount(place, values, minlength=len(groups))
        every = [*terms, *self.named(groups, sums, top)]
        return tuple(sorted((t for t in every if t[1]), key=lambda term: -abs(term[1]))[:top])

    def named(self, groups: Array, values: Array, top: int) -> tuple[Term, ...]:
        """The largest of these, largest first; what is 0 is left out."""
        order = np.argsort(-np.abs(values), kind="stable")[:top]
        return tuple((self.names[groups[at]], float(values[at])) for at in order if values[at])


def _view(encoder: Encoder, rows: Dataset) -> Any:
    """Rows as an encoder gives them to a model; before a network that reads texts, their words."""
    if encoder.table() is None:
        return encoder(rows)
    from labelset.model.words import Texts

    return Texts(encoder, rows)


def _sum(terms: Iterable[Term]) -> float:
    return math.fsum(value for _, value in terms)


def squares(added: Tensor) -> Tensor:
    """(down, across): what the pixels of each square of a picture add, its longer side having SIDE
    squares, or as many as it has pixels.

    >>> squares(torch.ones(32, 16)).shape
    torch.Size([16, 8])
    """
    longest = max(added.shape)
    down, across = (max(1, round(size * min(SIDE, longest) / longest)) for size in added.shape)
    rows, columns = (
        torch.arange(size) * count // size
        for size, count in zip(added.shape, (down, across), strict=True)
    )
    out = torch.zeros(down * across, dtype=torch.float64)
    out.index_add_(0, (rows[:, None] * across + columns).flatten(), added.double().flatten())
    return out.view(down, across)


def _square_terms(heat: Tensor, top: int) -> tuple[Term, ...]:
    down, across = heat.shape
    values = heat.flatten().numpy()
    places = ((r + 1, c + 1) for r in range(down) for c in range(across))
    names = FeatureNames([f"square {r}, {c} of {down} x {across}" for r, c in places])
    return names.named(np.arange(len(values)), values, top)


# ---- of labels ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Weights:
    """The features that weigh most for a label.

    >>> print(Weights("sea", "weights", "", (('"wave"', 2.0), ('"sun"', -0.25))))
    sea: "wave" +2.00, "sun" -0.25
    """

    label: str
    kind: str
    """`weights` of a linear model, which are added to the score, or `importances` of trees, which
    add up to 1."""
    member: str
    """Of a blend: the model; else empty."""
    terms: tuple[Term, ...]
    """The largest, largest first."""

    def __str__(self) -> str:
        sign = "+" if self.kind == "weights" else ""
        of = f" ({self.member})" if self.member else ""
        return f"{self.label}{of}: " + ", ".join(f"{n} {v:{sign}.2f}" for n, v in self.terms)


def largest_weights(saved: SavedModel, labels: Sequence[int], top: int) -> Iterator[Weights]:
    """Of these labels; ValueError where the model has no such thing."""
    explainer = Explainer(saved, top)
    model, encoders = explainer.model, explainer.encoders
    members = [("", model, 0)]
    if isinstance(model, Blend):
        members = [(part.name, part.model, part.view or 0) for part in model.parts]
    able = [
        (name, each, view)
        for name, each, view in members
        if isinstance(each, Head | Forest) and encoders[view].module is None
    ]
    widths = [0] * len(encoders)
    for _, each, view in able:
        widths[view] = _width(each)
    features, ends = explainer.features(*widths), np.cumsum(widths)
    if not features.alone.any():
        raise ValueError(
            "only linear models and forests of words or columns have weights to show, and this is "
            "none; labelset predict --explain tells why rows have their labels"
        )
    for label in labels:
        for name, each, view in able:
            if isinstance(each, Forest):
                kind, values = "importances", each.importances(label)
            else:
                at, kind = torch.tensor([label]), "weights"
                values = each.weights(at)[0].double().numpy()
            own = slice(ends[view] - widths[view], ends[view])
            values = np.where(features.alone[own], values, 0.0)
            chosen = np.argpartition(-np.abs(values), min(top, len(values)) - 1)[:top]
            terms = features.named(features.group[own][chosen], values[chosen], top)
            yield Weights(saved.names[label], kind, name, terms)


def _width(model: Head | Forest) -> int:
    return model.width if isinstance(model, Forest) else int(model.settings["features"])


def label_numbers(names: Sequence[str], labels: Iterable[Any]) -> list[int]:
    """Of labels given by name or number; an error offers the nearest name.

    >>> label_numbers(["sea", "rain"], ["rain", 0])
    [1, 0]
    """
    place, found = {name: at for at, name in enumerate(names)}, []
    for label in [labels] if isinstance(labels, str) else labels:
        if isinstance(label, str) and label not in place:
            raise ValueError(f"no label is called {label!r}: {check.nearest(label, names)}")
        at = place[label] if isinstance(label, str) else int(label)
        if not 0 <= at < len(names):
            raise ValueError(f"labels are numbered 0 to {len(names) - 1}, got {at}")
        found.append(at)
    return found
