"""The laws of metrics. Each is a function of a metric that raises `LawBroken`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from labelset.labels import Labels
from labelset.metrics import Metric, Result
from labelset.testing.cases import LawBroken, hold, hold_to, random_batch

WIDTH = 6


def _given(metric: Metric, v: Tensor) -> Tensor:
    """Scores turned into what the metric takes."""
    if metric.takes == "label sets":
        return (v > 0).to(v.dtype)
    return torch.sigmoid(v) if metric.takes == "probabilities" else v


def _batches(metric: Metric) -> Iterator[tuple[Tensor, Tensor]]:
    """Predictions and labels: plain, with ties, partly unknown, with empty rows and classes."""
    for seed, unknown, tied in ((0, False, False), (1, True, False), (2, False, True)):
        v, y = random_batch(12, WIDTH, seed, unknown=unknown)
        if tied:
            v, y[:3], y[:, 1] = v.round(), 0.0, 0.0
        yield _given(metric, v), y


def _same(got: float, want: float, message: str) -> None:
    hold(math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-12), f"{message}: {got} is not {want}")


def streams(metric: Metric) -> None:
    """Counting batch by batch gives the value of the whole and its parts, however it is cut."""
    for given, y in _batches(metric):
        want = metric.report(given, y)
        for cuts in ([0, 12], [0, 1, 5, 12], list(range(13))):
            stream, other = metric.stream(), metric.stream()
            for i, (a, b) in enumerate(pairwise(cuts)):
                (other if i % 2 else stream).update(given[a:b], y[a:b])
            other.merge(stream)
            _same_report(other.report(), want, f"over batches {cuts}")
        other.reset()
        other.update(given, y)
        _same_report(other.report(), want, "after reset")


def _same_report(got: Result, want: Result, message: str) -> None:
    """Equal values, as many left out, and, where both state them, the same values of each."""
    _same(got.value, want.value, message)
    hold(got.left_out == want.left_out, f"{message}: {got.left_out}, not {want.left_out} left out")
    if got.each is not None and want.each is not None:
        one, other = (r.each.double().flatten().sort().values for r in (got, want))  # type: ignore[union-attr]
        same = torch.allclose(one, other, rtol=1e-9, atol=1e-12, equal_nan=True)
        hold(same, f"{message}: other values of each class or row")


def worked(metric: Metric) -> None:
    """The cases that the class states as worked by hand come out so, and as many are left out."""
    for case in type(metric).worked:
        made = type(metric)(**case.get("settings", {}))
        want = Result(case["value"], left_out=case.get("left_out", 0))
        got = made.report(
            *(torch.tensor(case[part], dtype=torch.float64) for part in ("given", "labels"))
        )
        _same_report(got, want, f"worked by hand, {case['given']} against {case['labels']}")


def orders(metric: Metric) -> None:
    """Neither the order of the rows nor that of the labels matters."""
    g = torch.Generator().manual_seed(0)
    for given, y in _batches(metric):
        rows = torch.randperm(len(y), generator=g)
        _same(metric(given[rows], y[rows]), metric(given, y), "rows in another order")
        labels = torch.randperm(WIDTH, generator=g)
        _same(metric(given[:, labels], y[:, labels]), metric(given, y), "labels in another order")


def unknown(metric: Metric) -> None:
    """What is predicted for unknown labels does not matter, NaN included."""
    v, y = random_batch(12, WIDTH, 3, unknown=True)
    given = _given(metric, v)
    other = torch.where(y.isnan(), _given(metric, -v), given)
    _same(metric(other, y), metric(given, y), "another prediction of an unknown label")
    if metric.takes != "label sets":
        blank = torch.where(y.isnan(), torch.nan, given)
        _same(metric(blank, y), metric(given, y), "NaN for an unknown label")


def containers(metric: Metric) -> None:
    """Tensors of every precision, arrays, lists and `Labels` mean the same."""
    for given, y in _batches(metric):
        given = (given * 64).round() / 64  # numbers that every precision holds
        want = metric(given, y)
        for t in (given.float(), given.half(), given.bfloat16()):
            _same(metric(t, y.float()), want, f"in {t.dtype}")
        _same(metric(given.numpy(), y.tolist()), want, "from an array and a list")
        _same(metric(given, Labels.from_dense(y)), want, "from Labels")
        if metric.takes == "label sets":
            _same(metric(Labels.from_dense(given), y), want, "from predicted Labels")


def perfect(metric: Metric) -> None:
    """The truth itself scores `best`, and nothing scores better."""
    if math.isnan(metric.best):
        return
    for given, y in _batches(metric):
        y = torch.where(y.isnan(), 0.0, y)
        y[0], y[1:3] = 1.0, torch.eye(WIDTH, dtype=y.dtype)[:2]
        y[3:] = torch.maximum(y[3:], torch.eye(WIDTH, dtype=y.dtype)[3:4])
        _same(metric(y, y), metric.best, "perfect predictions")
        value = metric(given, y)
        beaten = value > metric.best if metric.higher_is_better else value < metric.best
        hold(not beaten, f"{value} is better than the best, {metric.best}")


def improves(metric: Metric) -> None:
    """Setting one prediction right never makes the value worse."""
    if metric.takes == "probabilities":
        return  # bins of probabilities know no better and worse of one entry
    sign = 1 if metric.higher_is_better else -1
    for given, y in _batches(metric):
        before = metric(given, y)
        for row, label in ((0, 0), (4, 2), (7, 5), (11, 3)):
            truth = y[row, label]
            if truth.isnan():
                continue
            better = given.clone()
            far = truth if metric.takes == "label sets" else (20 * truth - 10)
            better[row, label] = far
            gain = sign * (metric(better, y) - before)
            hold(gain >= -1e-12, f"entry ({row}, {label}) set right changes it by {gain}")


def weights(metric: Metric) -> None:
    """Whole weights of rows repeat them, 0 leaves them out; only their ratios matter."""
    if not metric.weighs:
        return
    times = torch.tensor([2, 0, 1, 3, 1, 1, 2, 1, 5, 1, 0, 2])
    for given, y in _batches(metric):
        want = metric(given.repeat_interleave(times, 0), y.repeat_interleave(times, 0))
        _same(metric(given, y, sample_weight=times), want, "whole weights")
        _same(metric(given, y, sample_weight=times / 4), want, "the same weights in quarters")
        stream = metric.stream()
        for part in (slice(0, 5), slice(5, 12)):
            stream.update(given[part], y[part], sample_weight=times[part])
        _same(stream.compute(), want, "whole weights over batches")


def order_only(metric: Metric) -> None:
    """A metric of scores sees only their order."""
    if metric.takes != "scores":
        return
    for given, y in _batches(metric):
        for name, other in (("exp", given.exp()), ("3 v - 5", 3 * given - 5)):
            _same(metric(other, y), metric(given, y), f"scores through {name}")


def refuses(metric: Metric) -> None:
    """Bad input is refused, and where nothing is known there is no number."""
    v, y = random_batch(5, WIDTH, 0)
    given = _given(metric, v)
    bad: list[tuple[str, Any, Any]] = [
        ("another shape", given[:, 1:], y),
        ("labels of 2", given, y + 1),
        ("nothing known", given, torch.full_like(y, torch.nan)),
        ("no rows", given[:0], y[:0]),
        ("NaN", given.clone().fill_(torch.nan), y),
    ]
    if metric.takes == "label sets":
        bad.append(("scores where label sets are due", v, y))
        bad.append(("probabilities where label sets are due", torch.sigmoid(v), y))
    if metric.takes == "probabilities":
        bad.append(("probabilities above 1", given + 1, y))
    for what, first, second in bad:
        try:
            got = metric(first, second)
        except (ValueError, TypeError):
            continue
        raise LawBroken(f"{what} gives {got}, not an error")
    for weight in (torch.zeros(5), -torch.ones(5), torch.ones(4), torch.full((5,), torch.nan)):
        try:
            got = metric(given, y, sample_weight=weight)
        except (ValueError, TypeError):
            continue
        raise LawBroken(f"sample_weight={weight.tolist()} gives {got}, not an error")


METRIC_LAWS: dict[str, Callable[[Metric], None]] = {
    law.__name__: law
    for law in (
        *(streams, worked, orders, unknown, containers, perfect, improves, weights),
        *(order_only, refuses),
    )
}


def check_metric(metric: Metric, laws: Iterable[str] | None = None) -> None:
    """Hold a metric to the laws, for 6 labels; the first that is broken raises `LawBroken`.

    Right values are a matter of the cases that the class states as `worked`; a metric of one's own
    need not state any, and is then held to the other laws alone.

    >>> from labelset.metrics import build
    >>> check_metric(build("ndcg@k", k=2))
    """
    hold_to(METRIC_LAWS, laws, metric, type(metric).__name__)
