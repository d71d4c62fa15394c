"""Which test label sets a head cannot say, who is to blame, and how robust the others are."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelset.artefact import Run
from labelset.labels import Labels
from labelset.proofs import Verification, verify
from labelset.proofs._problem import distinct
from labelset.report._packed import numbers

__all__ = ["proof_of"]

MOST = 100  # label sets listed
WEAKEST = 10
NAMED = 40  # labels of a label set listed
BINS = 24  # of the histogram of radii
CELLS = 20_000  # signs of label sets proven between two looks at the clock


@dataclass(frozen=True)
class _Verdict:
    """One distinct label set."""

    status: str
    labels: list[int]
    rows: int
    """How many test rows have it."""
    blame: list[int]
    """The labels that its certificate rests on."""
    radius: float

    def listed(self) -> dict[str, Any]:
        return {
            "labels": self.labels[:NAMED],
            "size": len(self.labels),
            "rows": self.rows,
            "blame": self.blame[:NAMED],
            "blamed": len(self.blame),
            "radius": numbers([self.radius])[0],
        }


def proof_of(run: Run, seconds: float) -> dict[str, Any] | None:
    """Verdicts on the distinct test label sets, those of most rows first; None without a head.

    Label sets that are not reached within `seconds` are counted as `left`.
    """
    if run.head is None:
        return None
    sets, which = distinct(run.parts["test"].labels)
    repeats = np.bincount(which, minlength=len(sets))
    found = list(_verdicts(run, sets, repeats, seconds))
    return {
        "counts": _counts(found, len(which)),
        "distinct": len(sets),
        "features": run.head.matrix()[0].shape[1],
        "never": [v.listed() for v in found if v.status == "unargmaxable"][:MOST],
        "undecided": [v.listed() for v in found if v.status == "undecided"][:MOST],
        "blame": _blame(found),
        "radii": _histogram(found),
        "weakest": _weakest(found),
    }


def _verdicts(
    run: Run, sets: Labels, repeats: NDArray[np.int64], seconds: float
) -> Iterable[_Verdict]:
    start = time.monotonic()
    order = np.argsort(-repeats, kind="stable")
    step = max(1, CELLS // sets.n)
    for first in range(0, len(order), step):
        left = seconds - (time.monotonic() - start)
        if first and left <= 0:
            return
        chunk = order[first : first + step]
        proof = verify(run.head, sets[chunk], seconds=max(left, 0.0))
        for at, place in enumerate(chunk):
            yield _verdict(proof, at, int(repeats[place]))


def _verdict(proof: Verification, at: int, rows: int) -> _Verdict:
    place = int(proof.which[at])
    held, labels = proof.verdicts[place], proof.sets[place]
    on = labels.indices if labels.values is None else labels.indices[labels.values == 1]
    blame = [] if held.rows is None else [int(i) for i in held.rows if i < proof.problem.n]
    radius = held.lower if held.status == "argmaxable" else np.nan
    return _Verdict(held.status, on.tolist(), rows, blame, float(radius))


def _counts(found: list[_Verdict], rows: int) -> dict[str, int]:
    total = dict.fromkeys(("argmaxable", "unargmaxable", "undecided"), 0)
    for verdict in found:
        total[verdict.status] += verdict.rows
    return total | {"left": rows - sum(total.values())}


def _blame(found: list[_Verdict]) -> list[list[int]]:
    """[label, rows]: in how many rows' certificates of impossibility each label stands."""
    total = Counter[int]()
    for verdict in found:
        if verdict.status == "unargmaxable":
            for label in verdict.blame:
                total[label] += verdict.rows
    return [[label, rows] for label, rows in total.most_common(20)]


def _histogram(found: list[_Verdict]) -> dict[str, Any] | None:
    """Rows by radius, in equal steps of its logarithm."""
    good = [verdict for verdict in found if verdict.radius > 0]
    if not good:
        return None
    logs = np.log10([verdict.radius for verdict in good])
    edges = np.linspace(logs.min(), max(logs.max(), logs.min() + 0.1), BINS + 1)
    count = np.histogram(logs, edges, weights=[verdict.rows for verdict in good])[0]
    return {"edges": numbers(edges.tolist()), "count": count.astype(int).tolist()}


def _weakest(found: list[_Verdict]) -> list[dict[str, Any]]:
    good = sorted((v for v in found if v.radius >= 0), key=lambda verdict: verdict.radius)
    return [verdict.listed() for verdict in good[:WEAKEST]]
