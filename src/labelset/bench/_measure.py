"""Cases and implementations to rows: times, memory, errors, or a note why there are none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import torch

from labelset.bench._case import DTYPES, Case, Inputs
from labelset.bench._errors import Truth, errors, largest_errors, truth
from labelset.bench._floor import copy_bandwidth, floor_bytes
from labelset.bench._implementations import COMPILED, Ready, example, of_loss, ready
from labelset.bench._memory import bounded, is_out_of_memory, peak
from labelset.bench._row import Row
from labelset.bench._timing import BESIDE, first_call, kind_of_timing, spread, timings, warm_up
from labelset.bench._versions import device_name, versions

__all__ = ["Bench"]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Forward and backward of every case by every implementation that its loss has.

    >>> bench = Bench(cases=[Case(loss="bce", rows=2, labels=3)], implementations=["eager"])
    >>> bench.total
    1
    """

    cases: list[Case]
    implementations: list[str]
    seconds: float = 0.5
    """How long to sample a case; a call that takes longer is measured once."""
    bandwidth: float | None = None
    """Bytes per second of a copy on the device; None: measured at the start of the run."""

    @property
    def total(self) -> int:
        """How many times `rows` yields."""
        return sum(len(of_loss(case.loss, self.implementations)) for case in self.cases)

    def rows(self) -> Iterator[list[Row]]:
        """The rows of one case and implementation after the other, one per kind of timing."""
        devices = {case.device for case in self.cases}
        speeds = {d: self.bandwidth or copy_bandwidth(torch.device(d)) for d in devices}
        for case in self.cases:
            yield from self._case(case, speeds[case.device])

    def _case(self, case: Case, bandwidth: float) -> Iterator[list[Row]]:
        names = of_loss(case.loss, self.implementations)
        try:
            with bounded(torch.device(case.device)):
                drawn = _Drawn(case)
        except Exception as error:
            yield from ([_failed(case, name, error)] for name in names)
            return
        for name in names:
            try:
                with bounded(torch.device(case.device)):
                    found = _measured(drawn, name, self.seconds, bandwidth)
            except Exception as error:  # one case that fails is a row, not the end
                found = [_failed(case, name, error)]
            _forget(case, name)
            yield found


class _Drawn:
    """A case with its inputs, and the truth about them once it is asked for."""

    def __init__(self, case: Case) -> None:
        self.case, self.device = case, torch.device(case.device)
        self.inputs: Inputs = case.inputs()

    def bce(self) -> None:
        """Forward and backward of torch's own bce on the same scores."""
        function, target = self._bce
        scores = self.inputs.scores
        scores.grad = None
        function(scores, target).backward()  # type: ignore[no-untyped-call]

    @cached_property
    def _bce(self) -> Ready:
        return ready("bce", "torch", self.inputs.labels, DTYPES[self.case.dtype])

    @cached_property
    def truth(self) -> Truth | None:
        return truth(example(self.case.loss, "eager"), self.inputs)


def _measured(drawn: _Drawn, name: str, seconds: float, bandwidth: float) -> list[Row]:
    case, (scores, labels) = drawn.case, drawn.inputs
    function, labels = ready(case.loss, name, labels, DTYPES[case.dtype])

    def call() -> None:
        scores.grad = None
        function(scores, labels).backward()  # type: ignore[no-untyped-call]

    first = first_call(call, drawn.device)
    if first < seconds:
        warm_up(call, drawn.device, seconds)
    times = timings(call, drawn.device, scores.numel(), seconds, drawn.bce)
    beside = spread(times.pop(BESIDE)).p50_ms if BESIDE in times else None
    scores.grad = None
    most = peak(call, drawn.device)
    scores.grad = None
    floor = 1e3 * floor_bytes(scores.numel(), scores.element_size()) / bandwidth
    facts = _blank(case, name) | {"first_call_ms": 1e3 * first, "floor_ms": floor}
    if most is not None:
        over = most / (scores.numel() * scores.element_size())
        facts |= {"peak_bytes": most, "peak_over_logits": over}
    facts |= _compared(drawn, name, function, labels)
    return [
        _timed(facts | {"bce_ms": beside if kind == "synchronised" else None}, kind, samples, floor)
        for kind, samples in times.items()
    ]


def _timed(facts: dict[str, Any], kind: str, samples: list[float], floor: float) -> Row:
    s = spread(samples)
    note = "; ".join(filter(None, (facts["note"], s.note())))
    found = s._asdict() | {"timing": kind, "ratio_to_floor": s.p50_ms / floor, "note": note}
    return Row(**{**facts, **found})


def _compared(drawn: _Drawn, name: str, function: Any, labels: Any) -> dict[str, Any]:
    """Errors against the truth; of a part of the rows, what is compiled is compiled for them."""
    if drawn.truth is None:
        return {"note": "errors not measured: too little memory for float64"}
    if drawn.truth.rows < drawn.case.rows:
        _forget_compiled(name)
    scores, true = drawn.inputs.scores, drawn.truth
    found = errors(function, scores, labels, true)
    plain = example(drawn.case.loss, "eager")
    note = found.note(
        DTYPES[drawn.case.dtype], lambda: largest_errors(plain, scores, drawn.inputs.labels, true)
    )
    return {
        "value_error": found.value,
        "gradient_error": found.gradient,
        "checked_rows": found.rows,
        "note": note,
    }


def _blank(case: Case, name: str) -> dict[str, Any]:
    facts = {key: value for key, value in asdict(case).items() if key != "seed"}
    device = torch.device(case.device)
    named = {"implementation": name, "device_name": device_name(device)}
    return facts | named | versions() | {"timing": kind_of_timing(device)}


def _failed(case: Case, name: str, error: Exception) -> Row:
    lines = str(error).strip().splitlines() or [""]
    why = "out of memory" if is_out_of_memory(error) else f"{type(error).__name__}: {lines[0]}"
    return replace(Row(**_blank(case, name)), note=why[:200])


def _forget(case: Case, name: str) -> None:
    """What one implementation compiled or held must not help or hinder the next."""
    _forget_compiled(name)
    if case.device != "cpu":
        gc.collect()
        torch.cuda.empty_cache()


def _forget_compiled(name: str) -> None:
    """Without it torch compiles for shapes in general from the second on, later not at all."""
    if name in COMPILED:
        torch._dynamo.reset()
