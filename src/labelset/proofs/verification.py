"""`verify`, and what it returns: a verdict per label set, each with a proof that can be checked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed

from labelset import check
from labelset.display import Shown
from labelset.labels import Labels
from labelset.proofs import _exact
from labelset.proofs._prove import Verdict, exact_certificate, least_margin, least_norm, prove
from labelset.proofs.problem import OutputLayer, distinct, read_model, signs_of

if TYPE_CHECKING:
    from labelset.charts import Panel

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]
CELLS = 2**25  # signs, or numbers of the searches' factors, held at a time


def verify(
    model: Any,
    labels: Any,
    bias: Any = None,
    radius: str = "ball",
    box: float = 1e4,
    eps: float | None = None,
    seconds: float = 60.0,
    progress: Progress | None = None,
    device: str | torch.device | None = None,
    alone: bool = False,
) -> Verification:
    """Whether sign(W x + b) can be each label set for some x, with a proof for every verdict.

    model: a head, an `nn.Linear`, or the (labels, features) matrix W. labels: `Labels` or what
    `Labels.from_dense` takes; unknown labels are free. Label sets whose region is so small that
    double precision cannot decide them are taken up in higher precision for `seconds` in all; those
    left over are "undecided". With `eps`, `v.at_least()` tells which have rho >= eps. Under
    torchrun every rank takes a share of the label sets, and each returns the whole result; with
    `alone` this process verifies them all, and the other ranks need not call.
    progress(done, all) is called as it goes.

    `device="cuda"` verifies all label sets together on a GPU. Proofs are of the same standard, and
    what the device leaves open goes to the processor.

    >>> import torch
    >>> w = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> v = verify(w, [[1, 1, 1], [1, 1, 0]])
    >>> v.status.tolist()
    ['argmaxable', 'unargmaxable']
    >>> v.certificate(1)[0].tolist()
    [0, 1, 2]
    """
    problem = read_model(model, bias)
    labels = Labels.of(labels)
    if labels.n != problem.n:
        raise ValueError(f"the weights have {problem.n} labels, the label sets {labels.n}")
    place = _place_of(device)
    check.one_of("radius", radius, ("ball", "box"))
    check.number("box", box, low=0.0, open_low=True)
    sets, which = distinct(labels)
    check.number("seconds", seconds, low=0.0)
    if eps is not None:
        check.number("eps", eps, low=0.0)
    rank, ranks = (0, 1) if alone else _share()
    mine = sets[rank::ranks]
    if place.type == "cpu":
        verdicts = _in_chunks(problem, mine, seconds, progress)
    else:
        verdicts = _on_device(problem, mine, place, seconds, progress)
    boxes = None
    if radius == "box":
        from labelset.proofs._box import box_radii

        boxes = box_radii(problem, mine, verdicts, box, progress)
    if ranks > 1:
        verdicts, boxes = _merge(verdicts, boxes, len(sets), ranks)
    return Verification(problem, sets, which, verdicts, boxes, box, eps)


def _share() -> tuple[int, int]:
    """Which of how many processes this is, where torch.distributed is running."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def _merge(
    verdicts: list[Verdict], boxes: Any, count: int, ranks: int
) -> tuple[list[Verdict], Any]:
    """What all ranks found, in the order of the label sets: rank r had every ranks-th from r on."""
    parts: list[Any] = [None] * ranks
    distributed.all_gather_object(parts, (verdicts, boxes))
    merged: list[Any] = [parts[i % ranks][0][i // ranks] for i in range(count)]
    if boxes is None:
        return merged, None
    return merged, np.array([parts[i % ranks][1][i // ranks] for i in range(count)])


def _place_of(device: str | torch.device | None) -> torch.device:
    """Where to compute: on the processor, unless a CUDA device is asked for."""
    place = torch.device("cpu" if device is None else device)
    if place.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'cpu' or 'cuda', which have float64, got {str(place)!r}")
    if place.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is 'cuda', but torch finds none here; leave it out")
    return place


def _on_device(
    problem: OutputLayer,
    sets: Labels,
    place: torch.device,
    seconds: float,
    progress: Progress | None,
) -> list[Verdict]:
    """Verdicts from the device, and from the processor where the device gives none."""
    from labelset.proofs._device import DeviceProver, batches

    prover, found = DeviceProver(problem, place), list[Verdict | None]()
    for some in batches(problem, sets, place):
        found += prover(some)
        if progress is not None:
            progress(sum(v is not None for v in found), len(sets))
    left = [i for i, v in enumerate(found) if v is None]
    done = len(sets) - len(left)
    more = None if progress is None else lambda i, _: progress(done + i, len(sets))
    rest = iter(_in_chunks(problem, sets[left], seconds, more) if left else [])
    return [next(rest) if v is None else v for v in found]


def _in_chunks(
    problem: OutputLayer, sets: Labels, seconds: float, progress: Progress | None
) -> list[Verdict]:
    size = int(np.clip(CELLS // max(problem.n, (problem.rows.shape[1] + 8) ** 2), 1, 512))
    verdicts: list[Verdict] = []
    for first in range(0, len(sets), size):
        share = seconds * min(size, len(sets) - first) / len(sets)
        deadline = time.monotonic() + share
        verdicts += prove(problem, signs_of(sets[first : first + size]), deadline)
        if progress is not None:
            progress(len(verdicts), len(sets))
    return verdicts


# ---- the result ---------------------------------------------------------------------------------


class ProofFailed(RuntimeError, AssertionError):
    """A verdict could not be proven again from the weights."""


class Verification(Shown):
    """Which label sets a head can produce, each verdict with its proof.

    Index i counts the rows of the labels that were given; equal rows share one verdict.
    """

    def __init__(
        self,
        problem: OutputLayer,
        sets: Labels,
        which: NDArray[np.int64],
        verdicts: list[Verdict],
        boxes: Floats | None = None,
        box: float = 1e4,
        eps: float | None = None,
    ) -> None:
        self.problem, self.sets, self.which, self.verdicts = problem, sets, which, verdicts
        self.boxes, self.box, self.eps = boxes, box, eps

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
        """How robustly each label set can be produced; NaN where it is not argmaxable.

        rho, the proven lower bound, for radius="ball"; the paper's LP value for radius="box".
        """
        return self.set_radius[self.which]

    @property
    def set_radius(self) -> Floats:
        """`radius` of each distinct label set."""
        each = np.array([v.lower for v in self.verdicts]) if self.boxes is None else self.boxes
        return np.where([v.status == "argmaxable" for v in self.verdicts], each, np.nan)

    @property
    def fragile(self) -> NDArray[np.bool_]:
        """Argmaxable, but by less than the rounding of the stored weights."""
        lower = np.array([v.lower for v in self.verdicts])
        good = np.array([v.status == "argmaxable" for v in self.verdicts], dtype=bool)
        return (good & (lower < self.problem.rounding))[self.which]

    def at_least(self, eps: float | None = None) -> NDArray[Any]:
        """Whether rho >= eps (as given to `verify`), per label set: "yes", "no", "undecided"."""
        eps = check.number("eps", self.eps if eps is None else eps, low=0.0)
        low, high = self.bounds.T
        answer: NDArray[Any] = np.where(low >= eps, "yes", np.where(high < eps, "no", "undecided"))
        return answer

    def witness(self, i: int) -> NDArray[Any]:
        """An x with sign(W x + b) = y: float64, or exact fractions where float64 is too coarse."""
        verdict = self.verdicts[self.which[i]]
        if verdict.witness is None:
            raise ValueError(f"label set {i} is {verdict.status}: it has no witness")
        return np.array(verdict.witness)

    def certificate(self, i: int) -> tuple[NDArray[np.int64], tuple[Fraction, ...]]:
        """Labels and exact weights >= 0, not all 0, with sum of weights * y * w = 0.

        With a bias also sum of weights * y * b <= 0. No x can then satisfy all of these labels.
        """
        verdict = self.verdicts[self.which[i]]
        if verdict.status != "unargmaxable":
            raise ValueError(f"label set {i} is {verdict.status}: it has no certificate")
        return self.set_certificate(int(self.which[i]))

    def set_certificate(self, at: int) -> tuple[NDArray[np.int64], tuple[Fraction, ...]]:
        """`certificate` of a distinct label set."""
        verdict = self.verdicts[at]
        if verdict.rows is None:
            raise ProofFailed(f"label set {at}: it has no certificate")
        if verdict.weights is None:
            found = exact_certificate(self.problem, signs_of(self.sets[at])[0], verdict.rows)
            if found is None:
                raise ProofFailed(f"label set {at}: the certificate does not hold exactly")
            verdict = self.verdicts[at] = replace(verdict, rows=found[0], weights=found[1])
        assert verdict.rows is not None
        assert verdict.weights is not None
        return verdict.rows.copy(), verdict.weights

    # ---- for people and for files ---------------------------------------------------------------

    def headline(self) -> str:
        n, d = self.problem.weight.shape
        counts = ", ".join(f"{count:,} {kind}" for kind, count in self.counts().items() if count)
        return f"{len(self):,} label sets of {n:,} labels, {d:,} features: {counts or 'none'}"

    def records(self) -> list[dict[str, Any]]:
        """A line for each label set: its labels by number, the verdict, how robustly."""
        lines: list[dict[str, Any]] = []
        for which, status, radius in zip(self.which, self.status, self.radius, strict=True):
            start, end = self.sets.indptr[which : which + 2].tolist()
            values = None if self.sets.values is None else self.sets.values[start:end]
            labels = self.sets.indices[start:end]
            known = labels if values is None else labels[values == 1]
            record = {"labels": known.tolist(), "status": str(status), "radius": float(radius)}
            lines.append(record | ({"fragile": True} if self.fragile[len(lines)] else {}))
        return lines

    def panels(self) -> list[Panel]:
        """How many label sets can be produced how robustly, by powers of ten."""
        from labelset.charts import Bars, Panel, round_ticks

        radius = self.radius[np.isfinite(self.radius) & (self.radius > 0)]
        if not len(radius):
            return []
        counts = Counter(np.floor(np.log10(radius)).astype(int).tolist())
        low, high = min(counts), max(counts) + 1
        most = round_ticks(0.0, max(counts.values()))
        step = max(1, (high - low) // 5)
        return [
            Panel(
                title="Label sets that can be produced",
                x_label="rho: how robustly",
                y_label="label sets",
                marks=[Bars([(k + 0.03, k + 0.97, n) for k, n in sorted(counts.items())])],
                x=(low, high),
                y=(0.0, most[-1][0]),
                x_ticks=[(k, f"{10.0**k:g}") for k in range(low, high + 1, step)],
                y_ticks=most,
            )
        ]

    def table(self, names: Sequence[str] | None = None, most: int = 5) -> str:
        """How many can be produced, the smallest radii, and which fail through which labels."""
        counts, rows = self.counts(), len(self)
        n, d = self.problem.weight.shape
        lines = [
            f"{n:,} labels, {d:,} features; {rows:,} label sets, {len(self.verdicts):,} distinct",
            "",
        ]
        for status, count in counts.items():
            lines.append(f"  {status:13} {count:>9,}  {count / max(rows, 1):7.2%}")
        values = self.sets.values
        if values is not None and bool(values.isnan().any()):
            lines.append("  (unknown labels were left free: verdicts are about the known ones)")
        if self.problem.lines:
            shown = ", ".join(
                "{" + ", ".join(_name(r, names) for r, _ in g) + "}"
                for g in self.problem.lines[:most]
            )
            lines.append(f"  rows on one line, so never independent of each other: {shown}")
        if self.problem.empty.any():
            dead = np.flatnonzero(self.problem.empty)[: 2 * most].tolist()
            lines.append(
                f"  rows of zeros, neither on nor off: {', '.join(_name(i, names) for i in dead)}"
            )
        if self.fragile.any():
            lines.append(
                f"  of these {int(self.fragile.sum()):,} fragile: by less than the rounding of the "
                f"stored weights ({self.problem.rounding:.1e})"
            )
        return "\n".join([*lines, *_smallest(self, names, most), *_failing(self, names, most)])

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
        """Prove all verdicts and bounds of rho again from the weights, or raise `ProofFailed`.

        Radii in a box are not proven again.
        """
        for at, verdict in enumerate(self.verdicts):
            signs = signs_of(self.sets[at])[0]
            if verdict.status == "argmaxable":
                self._check_witness(at, verdict, signs)
            elif verdict.status == "unargmaxable":
                self._check_certificate(at, signs)
            elif verdict.status != "undecided":
                raise ProofFailed(f"label set {at}: no verdict is called {verdict.status!r}")
            if verdict.status != "unargmaxable" and signs.any():
                self._check_bounds(at, verdict, signs)

    def _check_witness(self, at: int, verdict: Verdict, signs: NDArray[np.int8]) -> None:
        if verdict.witness is None:
            raise ProofFailed(f"label set {at}: it has no witness")
        x = verdict.witness
        point = x if self.problem.bias is None else np.append(x, type(x[0])(1))
        if point.dtype != object and least_margin(self.problem, signs, point) > 0:
            return
        exact = _exact.margin_signs(self.problem.stored(), _exact.fractions(point))
        if not (exact == signs)[signs != 0].all():
            raise ProofFailed(f"label set {at}: the witness does not have its signs")

    def _check_bounds(self, at: int, verdict: Verdict, signs: NDArray[np.int8]) -> None:
        centre = verdict.witness if verdict.centre is None else verdict.centre
        lower = 0.0
        if verdict.lower > 0 and centre is not None:
            lower = least_margin(self.problem, signs, centre)
        upper = 1.0 if verdict.hull is None else least_norm(self.problem, signs, verdict.hull)
        if verdict.lower > lower * (1 + 1e-9) or verdict.upper < upper * (1 - 1e-9):
            raise ProofFailed(f"label set {at}: the bounds of rho do not hold")

    def _check_certificate(self, at: int, signs: NDArray[np.int8]) -> None:
        rows, weights = self.set_certificate(at)
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
            raise ProofFailed(f"label set {at}: the certificate does not hold")


def _smallest(result: Verification, names: Sequence[str] | None, most: int) -> list[str]:
    each = result.set_radius
    order = [int(i) for i in np.argsort(each) if np.isfinite(each[i])][:most]
    if not order:
        return []
    kind = "rho" if result.boxes is None else f"radius in the box, over {result.box:g}"
    lines = ["", f"Least robust label sets ({kind}):"]
    for i in order:
        value = each[i] if result.boxes is None else each[i] / result.box
        lines.append(f"  {value:.3e}  {_labels(result, i, names)}")
    return lines


def _failing(result: Verification, names: Sequence[str] | None, most: int) -> list[str]:
    lines, blame = list[str](), Counter[int]()
    for status, word in (("unargmaxable", "Never produced"), ("undecided", "Undecided")):
        hit = [i for i, v in enumerate(result.verdicts) if v.status == status]
        if hit:
            lines += ["", f"{word}, whatever the input:" if status != "undecided" else f"{word}:"]
        for i in hit[:most]:
            rows = int((result.which == i).sum())
            lines.append(f"  {rows:>5,} x  {_labels(result, i, names)}")
        if len(hit) > most:
            lines.append(f"  ... and {len(hit) - most:,} more")
        for i in hit:
            certificate = result.verdicts[i].rows
            blame.update(
                [] if certificate is None else certificate[certificate < result.problem.n].tolist()
            )
    if blame:
        worst = ", ".join(
            f"{_name(i, names)} ({count})" for i, count in blame.most_common(2 * most)
        )
        lines += ["", f"Labels that most certificates rest on: {worst}"]
    return lines


def _labels(result: Verification, i: int, names: Sequence[str] | None) -> str:
    labels = result.sets[i]
    known = labels.indices if labels.values is None else labels.indices[~labels.values.isnan()]
    shown = [_name(label, names) for label in known.tolist()]
    more = f", ... ({len(shown)} labels)" if len(shown) > 8 else ""
    return "{" + ", ".join(shown[:8]) + more + "}"


def _name(label: int, names: Sequence[str] | None) -> str:
    if names is None or label >= len(names):
        return str(label)
    return "".join(c if c.isprintable() else "?" for c in str(names[label]))
