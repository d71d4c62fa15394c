"""The laws of maps. Each is a function that makes a fresh map and raises `LawBroken`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from labelset.calibrate import NotFitted, ProbMap
from labelset.metrics import reliability
from labelset.testing.cases import LawBroken, hold, hold_to, near

Make = Callable[[], ProbMap]
ROWS, LABELS = 240, 4


def _data(m: ProbMap, rows: int = ROWS, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Scores, and labels that are on as often as the map says before it is fitted."""
    n = (m.loss.per_label() if getattr(m, "loss", None) is not None else None) or LABELS
    g = torch.Generator().manual_seed(seed)
    v = 2 * torch.randn(rows, n, generator=g, dtype=torch.float64)
    p = torch.sigmoid(m.log_odds(v))
    return v, (torch.rand(rows, n, generator=g, dtype=torch.float64) < p).double()


def _wide(v: Tensor) -> Tensor:
    """Scores to ask about: those seen, between them, and far beyond, rising in every label."""
    far = torch.tensor([1e2, 1e4], dtype=v.dtype)
    line = torch.cat([-far.flip(0), torch.linspace(-9, 9, 601, dtype=v.dtype), far])
    return torch.cat([line[:, None].expand(-1, v.shape[1]), v]).sort(dim=0).values


def bounded(make: Make) -> None:
    """Probabilities are numbers in [0, 1], one per score, for scores of +-1e4 and none at all."""
    v, y = _data(make())
    m = make().fit(v, y, folds=0)
    for scores in (_wide(v), _wide(v).float(), v[:1], v[:0]):
        p = m(scores)
        hold(p.shape == scores.shape, f"{tuple(scores.shape)} scores give {tuple(p.shape)}")
        hold(((p >= 0) & (p <= 1)).all(), "probabilities leave [0, 1] or are not numbers")


def rising(make: Make) -> None:
    """A higher score never means a lower probability, where the map claims so by `rises`."""
    v, y = _data(make())
    m = make().fit(v, y, folds=0)
    falls = -m(_wide(v)).diff(dim=0).amin()
    hold(not m.rises or falls <= 1e-12, f"the probability falls by {falls:.2g} as the score rises")


def entrywise(make: Make) -> None:
    """A probability depends on its own score alone, not on the other rows or labels."""
    v, y = _data(make())
    m = make().fit(v, y, folds=0)
    p, other = m(v), v.clone()
    near(m(v[7:8]), p[7:8], "a row by itself means something else", 1e-12, 1e-13)
    other[:, 1:] += 1.7
    near(m(other)[:, 0], p[:, 0], "a probability depends on other labels", 1e-12, 1e-13)


def unknown(make: Make) -> None:
    """Unknown entries teach nothing, whatever their scores are, NaN included."""
    v, y = _data(make())
    hidden = torch.rand(v.shape, generator=torch.Generator().manual_seed(5)) < 0.3
    y = torch.where(hidden, torch.nan, y)
    want = make().fit(torch.where(hidden, 0.0, v), y, folds=0)(v)
    for score in (torch.nan, torch.inf, -50.0):
        got = make().fit(torch.where(hidden, score, v), y, folds=0)(v)
        near(got, want, f"the score {score} of unknown entries changes the map")
    more = torch.cat([v, torch.full_like(v, 9.0)]), torch.cat([y, torch.full_like(y, torch.nan)])
    near(make().fit(*more, folds=0)(v), want, "rows of which nothing is known change the map", 1e-7)


def rows(make: Make) -> None:
    """The order of the rows does not matter."""
    v, y = _data(make())
    order = torch.randperm(len(v), generator=torch.Generator().manual_seed(3))
    want = make().fit(v, y, folds=0)(v)
    near(make().fit(v[order], y[order], folds=0)(v), want, "other row order, other map", 1e-7)


def refit(make: Make) -> None:
    """Fitting again gives the same map, whatever was fitted before; the cross-validation too."""
    v, y = _data(make())
    m, other = make().fit(v, y), make().fit(*_data(make(), seed=9), folds=0).fit(v, y)
    near(other(v), m(v), "a second fit remembers the first", 0.0, 0.0)
    hold(other.quality == m.quality, f"quality {other.quality} is not {m.quality}")


def round_trip(make: Make) -> None:
    """JSON carries all there is: the same probabilities to the last bit, the same quality."""
    v, y = _data(make())
    m = make().fit(v, y, folds=2)
    again = type(m).from_json(json.loads(json.dumps(m.as_json())))
    near(again(_wide(v)), m(_wide(v)), "JSON does not carry the whole map", 0.0, 0.0)
    hold(again.as_json() == m.as_json(), "what was read from JSON is written differently")


def honest(make: Make) -> None:
    """Probabilities that are right already stay nearly so: a small gap to them, on average."""
    v, y = _data(make(), rows=4000, seed=1)
    truth = torch.sigmoid(make().log_odds(v))
    p = make().fit(v, y, folds=0)(v)
    gap = float((p - truth).abs().mean())
    hold(gap < 0.05, f"right probabilities are moved by {gap:.3f} on average")
    error = reliability(p, y, binning="mass").ace()
    hold(error < 0.03, f"right probabilities end with an ACE of {error:.3f}")


def corrects(make: Make) -> None:
    """Log-odds wrong by a factor or a constant come out right, as far as the map claims to do so.

    The scores mean log-odds u' = scale u + shift where labels are on with probability sigmoid(u).
    An offset that is wrong by 0.15 moves the mean over a label by some 0.02.
    """
    m = make()
    for scale, shift in ((3.0, -1.0), (0.5, 1.0)):
        scale, shift = scale if m.scales else 1.0, shift if m.shifts else 0.0
        if scale == 1 and shift == 0:
            return
        v = scale * _data(m, rows=4000, seed=2)[0] / 2 + shift
        truth = torch.sigmoid((m.log_odds(v) - shift) / scale)
        error = make().fit(v, _as_often(truth), folds=0)(v) - truth
        how, gap = f"log-odds {scale:g} u {shift:+g}", float(error.abs().mean())
        hold(gap < 0.03, f"{how} end {gap:.3f} from the right probabilities on average")
        bias = float(error.mean(0).abs().max())
        hold(bias < 0.006, f"{how} end too high or too low by {bias:.4f} on average over a label")


def _as_often(p: Tensor) -> Tensor:
    """Labels that are on as often as p says for low, middling and high p alike, not by chance."""
    ordered, order = p.sort(dim=0)
    total = ordered.cumsum(0).floor()
    return torch.zeros_like(p).scatter(0, order, total.diff(dim=0, prepend=total[:1] * 0))


def precision(make: Make) -> None:
    """The floating-point type of the scores is kept, halves become float32; values agree."""
    v, y = _data(make())
    v = v.bfloat16().double()  # numbers that every type can hold
    m = make().fit(v, y, folds=0)
    for given, due in (("float64",) * 2, ("float32",) * 2, ("bfloat16", "float32")):
        p = m(v.to(getattr(torch, given)))
        hold(p.dtype == getattr(torch, due), f"{given} scores give {p.dtype} probabilities")
        near(p, m(v), f"{given} scores mean other probabilities", 1e-6, 1e-6)
        fitted = make().fit(v.to(getattr(torch, given)), y, folds=0)
        near(fitted(v), m(v), f"a fit to {given} scores is another map", 1e-6, 1e-6)


def refusals(make: Make) -> None:
    """Before `fit`: NotFitted. NaN scores, nothing known, nothing on: ValueError, state kept."""
    v, y = _data(make())
    m = make()
    if m.needs_fit:
        _raises(NotFitted, lambda: m(v), "used before it was fitted")
    want = m.fit(v, y)(v)
    bad = v.clone()
    bad[2, 0] = torch.nan
    _raises(ValueError, lambda: m.fit(bad, y), "fitted to a NaN score")
    _raises(ValueError, lambda: m(bad), "given a NaN score")
    if m.needs_fit:
        _raises(ValueError, lambda: m.fit(v, torch.full_like(y, torch.nan)), "nothing is known")
        _raises(ValueError, lambda: m.fit(v, torch.zeros_like(y)), "no label is positive")
    near(m(v), want, "a refused fit changes the map", 0.0, 0.0)


def _raises(kind: type[Exception], act: Callable[[], object], when: str) -> None:
    try:
        act()
    except kind as error:
        hold(len(str(error)) > 20, f"the error says too little, when {when}: {error}")
        return
    raise LawBroken(f"no {kind.__name__} when {when}")


LAWS = (
    *(bounded, rising, entrywise, unknown, rows, refit, round_trip),
    *(honest, corrects, precision, refusals),
)
MAP_LAWS: dict[str, Callable[[Make], None]] = {law.__name__: law for law in LAWS}


def check_map(make: Make, laws: Iterable[str] | None = None) -> None:
    """Hold a map to the laws; `make` makes a fresh one, such as `lambda: build("platt")`.

    >>> from labelset.calibrate import build
    >>> check_map(lambda: build("temperature"), laws=["bounded", "rising"])
    """
    hold_to(MAP_LAWS, laws, make, "the map")
