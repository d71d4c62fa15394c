"""The result of `verify`: a verdict per label set with its proof, which anyone can check again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelset.labels import Labels
from labelset.proofs import _certify, _exact
from labelset.proofs._problem import Problem, read_model, signs_of
from labelset.proofs._prove import Verdict, exact_weights

__all__ = ["ProofFailed", "Verification"]

Floats = NDArray[np.float64]


class ProofFailed(AssertionError):
    """A verdict could not be proven again from the weights."""


class Verification:
    """Which label sets a head can say, each verdict with its proof.

    Index i counts the rows of the labels that were given; equal rows share one verdict.
    """

    def __init__(
        self,
        problem: Problem,
        sets: Labels,
        which: NDArray[np.int64],
        verdicts: list[Verdict],
        boxes: Floats | None = None,
        box: float = 1e4,
    ) -> None:
        self.problem, self.sets, self.which, self.verdicts = problem, sets, which, verdicts
        self.boxes, self.box = boxes, box

    def __len__(self) -> int:
        return len(self.which)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in self.counts().items())
        return f"Verification({len(self)} label sets, {len(self.verdicts)} distinct: {counts})"

    @property
    def status(self) -> NDArray[Any]:
        """ "argmaxable", "unargmaxable" or "undecided", per label set."""
        return np.array([v.status for v in self.verdicts], dtype="U12")[self.which]

    def counts(self) -> dict[str, int]:
        """How many label sets (rows) have each verdict."""
        kinds = ("argmaxable", "unargmaxable", "undecided")
        return {kind: int((self.status == kind).sum()) for kind in kinds}

    @property
    def bounds(self) -> Floats:
        """(rows, 2): proven lower and upper bounds of rho."""
        pairs = [(v.lower, v.upper) for v in self.verdicts]
        return np.array(pairs, dtype=np.float64).reshape(-1, 2)[self.which]

    @property
    def radius(self) -> Floats:
        """How robustly each label set can be said; NaN where it is not argmaxable.

        rho, the proven lower bound, for radius="ball"; the paper's LP value for radius="box".
        """
        each = np.array([v.lower for v in self.verdicts]) if self.boxes is None else self.boxes
        good = np.array([v.status == "argmaxable" for v in self.verdicts], dtype=bool)
        return np.where(good, each, np.nan)[self.which]

    @property
    def fragile(self) -> NDArray[np.bool_]:
        """Argmaxable, but by less than the rounding of the stored weights."""
        lower = np.array([v.lower for v in self.verdicts])
        good = np.array([v.status == "argmaxable" for v in self.verdicts], dtype=bool)
        return (good & (lower < self.problem.rounding))[self.which]

    def at_least(self, eps: float) -> NDArray[Any]:
        """Whether rho >= eps, per label set: "yes", "no" or "undecided"."""
        low, high = self.bounds.T
        answer: NDArray[Any] = np.where(low >= eps, "yes", np.where(high < eps, "no", "undecided"))
        return answer

    def witness(self, i: int) -> NDArray[Any]:
        """An x with sign(W x + b) = y: float64, or exact fractions where float64 is too coarse."""
        verdict = self.verdicts[self.which[i]]
        if verdict.witness is None:
            raise ValueError(f"label set {i} is {verdict.status}: it has no witness")
        high, low = verdict.witness
        if not low.any():
            return np.array(high)
        pairs = zip(high.tolist(), low.tolist(), strict=True)
        return np.array([Fraction(a) + Fraction(b) for a, b in pairs], dtype=object)

    def certificate(self, i: int) -> tuple[NDArray[np.int64], tuple[Fraction, ...]]:
        """Labels and exact weights >= 0, not all 0, with sum of weights * y * w = 0.

        With a bias also sum of weights * y * b <= 0. No x can then satisfy all of these labels.
        """
        at = int(self.which[i])
        verdict = self.verdicts[at]
        if verdict.rows is None:
            raise ValueError(f"label set {i} is {verdict.status}: it has no certificate")
        if verdict.weights is None:
            weights = exact_weights(self.problem, signs_of(self.sets[at])[0], verdict.rows)
            if weights is None:
                raise ProofFailed(f"label set {i}: the certificate does not hold exactly")
            verdict = self.verdicts[at] = replace(verdict, weights=weights)
        assert verdict.rows is not None
        assert verdict.weights is not None
        real = verdict.rows < self.problem.n
        pairs = zip(verdict.weights, real.tolist(), strict=True)
        return verdict.rows[real], tuple(weight for weight, is_label in pairs if is_label)

    # ---- for people and for files ---------------------------------------------------------------

    def table(self, names: Sequence[str] | None = None, most: int = 5) -> str:
        """How many can be said, the smallest radii, and which fail through which labels."""
        from labelset.proofs._table import table

        return table(self, names, most)

    def as_json(self, proofs: bool = True) -> dict[str, Any]:
        """Everything as plain lists and numbers."""
        from labelset.proofs._files import as_json

        return as_json(self, proofs)

    def save(self, path: str | Path) -> None:
        """Write all verdicts with their proofs to a JSON file."""
        from labelset.proofs._files import save

        save(self, path)

    @staticmethod
    def load(path: str | Path, model: Any, bias: Any = None) -> Verification:
        """Verdicts from a file; they must be about this model. `check()` proves them again."""
        from labelset.proofs._files import load

        return load(path, read_model(model, bias))

    # ---- proving again ------------------------------------------------------------------------

    def check(self) -> None:
        """Prove every verdict again from the weights, or raise `ProofFailed`."""
        for at, verdict in enumerate(self.verdicts):
            i = int(np.flatnonzero(self.which == at)[0])
            if verdict.status == "argmaxable":
                self._check_witness(i, signs_of(self.sets[at])[0])
            elif verdict.status == "unargmaxable":
                self._check_certificate(i, signs_of(self.sets[at])[0])

    def _check_witness(self, i: int, signs: NDArray[np.int8]) -> None:
        x = self.witness(i)
        point = x if self.problem.bias is None else np.append(x, type(x[0])(1))
        if point.dtype != object:
            bound = _certify.least_margin(self.problem.rows, signs[None], point[None])
            if bound[0] > 0:
                return
        exact = _exact.margin_signs(self.problem.rows, [Fraction(v) for v in point.tolist()])
        if not (exact == signs)[signs != 0].all():
            raise ProofFailed(f"label set {i}: the witness does not have its signs")

    def _check_certificate(self, i: int, signs: NDArray[np.int8]) -> None:
        rows, weights = self.certificate(i)
        weight, bias = self.problem.weight, self.problem.bias
        fine = (
            len(rows) > 0
            and (signs[rows] != 0).all()
            and all(w >= 0 for w in weights)
            and any(w > 0 for w in weights)
            and not any(_exact.combine(weight[rows] * signs[rows, None], weights))
        )
        if fine and bias is not None:
            fine = _exact.combine((bias[rows] * signs[rows])[:, None], weights)[0] <= 0
        if not fine:
            raise ProofFailed(f"label set {i}: the certificate does not hold")
