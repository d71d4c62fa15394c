"""Cases and implementations to rows: times, memory, errors, or a note why there are none."""

from __future__ import annotations

import gc
import platform
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from labelset.bench.cases import (
    COMPILED,
    TORCH_DTYPES,
    Case,
    Inputs,
    Peers,
    as_target,
    example,
    ready,
)
from labelset.bench.results import COLUMNS, BenchRow
from labelset.bench.timing import (
    BESIDE,
    copy_bandwidth,
    first_call,
    floor_bytes,
    kind_of_timing,
    spread,
    timings,
    warm_up,
)
from labelset.files import versions
from labelset.losses import Loss
from labelset.torch_private import forget_compiled


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

    peers: Peers = field(default_factory=dict)
    """Implementations of other packages, measured beside the losses that correspond to them."""

    @property
    def total(self) -> int:
        """How many times `rows` yields."""
        return sum(len(self._of(case)) for case in self.cases)

    def _of(self, case: Case) -> list[str]:
        """Those of the implementations that the loss has."""
        names, peers = self.implementations, self.peers
        return [name for name in names if name not in peers or case.loss in peers[name]]

    def rows(self) -> Iterator[list[BenchRow]]:
        """The rows of one case and implementation after the other, one per kind of timing."""
        devices = {case.device for case in self.cases}
        speeds = {d: self.bandwidth or copy_bandwidth(torch.device(d)) for d in devices}
        for case in self.cases:
            yield from self._case(case, speeds[case.device])

    def _case(self, case: Case, bandwidth: float) -> Iterator[list[BenchRow]]:
        names = self._of(case)
        try:
            with bounded(torch.device(case.device)):
                drawn = _Drawn(case)
        except Exception as error:
            yield from ([_failed(case, name, error)] for name in names)
            return
        for name in names:
            try:
                with bounded(torch.device(case.device)):
                    found = _measured(drawn, name, self, bandwidth)
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
        scores = self.inputs.scores
        scores.grad = None
        binary_cross_entropy_with_logits(scores, self._target).backward()  # type: ignore[no-untyped-call]

    @cached_property
    def _target(self) -> Tensor:
        return as_target(self.inputs.labels, TORCH_DTYPES[self.case.dtype])

    @cached_property
    def truth(self) -> Truth | None:
        return truth(example(self.case.loss, "eager"), self.inputs)


def _measured(drawn: _Drawn, name: str, bench: Bench, bandwidth: float) -> list[BenchRow]:
    case, (scores, labels), seconds = drawn.case, drawn.inputs, bench.seconds
    function, labels = ready(case.loss, name, labels, TORCH_DTYPES[case.dtype], bench.peers)

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


def _timed(facts: dict[str, Any], kind: str, samples: list[float], floor: float) -> BenchRow:
    s = spread(samples)
    note = "; ".join(filter(None, (facts["note"], s.note())))
    found = s._asdict() | {"timing": kind, "ratio_to_floor": s.p50_ms / floor, "note": note}
    return BenchRow(**{**facts, **found})


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
        TORCH_DTYPES[drawn.case.dtype],
        lambda: largest_errors(plain, scores, drawn.inputs.labels, true),
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
    made_by = {key: text for key, text in versions().items() if key in COLUMNS}
    return facts | named | made_by | {"timing": kind_of_timing(device)}


def _failed(case: Case, name: str, error: Exception) -> BenchRow:
    lines = str(error).strip().splitlines() or [""]
    why = "out of memory" if is_out_of_memory(error) else f"{type(error).__name__}: {lines[0]}"
    return replace(BenchRow(**_blank(case, name)), note=why[:200])


def _forget(case: Case, name: str) -> None:
    """What one implementation compiled or held must not help or hinder the next."""
    _forget_compiled(name)
    if case.device != "cpu":
        gc.collect()
        torch.cuda.empty_cache()


def _forget_compiled(name: str) -> None:
    """Without it torch compiles for shapes in general from the second on, later not at all."""
    if name in COMPILED:
        forget_compiled()


def device_name(device: torch.device) -> str:
    """The GPU, or the processor and how many threads torch uses there."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_processor()}, {torch.get_num_threads()} threads"


def _processor() -> str:
    try:
        about = Path("/proc/cpuinfo").read_text()
    except OSError:
        about = ""
    named = re.search(r"^model name\s*:\s*(.+)$", about, flags=re.M)
    return named[1].strip() if named else platform.machine()


WHOLE = {"cpu": 2**22, "cuda": 2**27}
"""Entries up to which all rows are compared."""
ALLOWED = {torch.float32: 1e-3, torch.bfloat16: 2e-2, torch.float16: 2e-2}
"""Errors above these are not rounding, but where those of the formula itself are as large."""
SIMILAR = 4.0
ORDERS = 8


class Truth(NamedTuple):
    """Value and gradient in float64, of the first rows of the inputs."""

    rows: int
    value: Tensor
    gradient: Tensor


class Errors(NamedTuple):
    """Relative error of the value; of the gradient, norm of the difference by norm."""

    value: float
    gradient: float
    rows: int

    def note(self, dtype: torch.dtype, plain: Callable[[], Errors]) -> str:
        """A warning where they are more than rounding; `plain`: those of the formula in the dtype.

        Where a sum of the formula cancels, rounding is all that is left of it.
        """
        allowed = ALLOWED[dtype]
        if self.value <= allowed and self.gradient <= allowed:  # False for NaN too
            return ""
        bounds = [max(allowed, SIMILAR * own) for own in plain()[:2] if isfinite(own)]
        if len(bounds) == 2 and self.value <= bounds[0] and self.gradient <= bounds[1]:
            return "ill-conditioned: the formula in this dtype is as far from float64"
        return "WRONG: value or gradient is not that of the formula"


def truth(eager: Loss, inputs: Inputs) -> Truth | None:
    """The formula in float64 on the same scores: of all rows, or of as many as memory allows."""
    scores = inputs.scores.detach()
    rows, n = scores.shape
    most = max(1, min(rows, WHOLE[scores.device.type] // n))
    for some in (most, -(-most // 16)):
        try:
            wide = scores[:some].double().requires_grad_()
            value = eager(wide, inputs.labels[:some])
            (gradient,) = torch.autograd.grad(value, wide)
            return Truth(some, value.detach(), gradient)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
    return None


def errors(
    function: Callable[[Tensor, Any], Tensor], scores: Tensor, labels: Any, true: Truth
) -> Errors:
    """Of one implementation on the rows that the truth has."""
    some = scores.detach()[: true.rows].requires_grad_()
    value = function(some, labels[: true.rows])
    value.backward()  # type: ignore[no-untyped-call]
    assert some.grad is not None
    tiny = torch.finfo(torch.float64).tiny
    off = (value.detach().double() - true.value).abs() / true.value.abs().clamp(min=tiny)
    apart = (some.grad.double() - true.gradient).norm() / true.gradient.norm().clamp(min=tiny)
    return Errors(float(off), float(apart), true.rows)


def largest_errors(
    function: Callable[[Tensor, Any], Tensor], scores: Tensor, labels: Any, true: Truth
) -> Errors:
    """The largest over several orders of the rows, which change how sums along them are rounded.

    A sum that cancels is near the truth in one order, by luck, and far from it in another.
    """
    g = torch.Generator().manual_seed(0)
    found = [errors(function, scores, labels, true)[:2]]
    for _ in range(ORDERS - 1):
        order = torch.randperm(true.rows, generator=g).to(scores.device)
        try:
            same = Truth(true.rows, true.value, true.gradient[order])
            found.append(errors(function, scores.detach()[order], labels[order], same)[:2])
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            break  # the orders until then will do
    value, gradient = torch.tensor(found, dtype=torch.float64).amax(0).tolist()  # (NaN is largest)
    return Errors(value, gradient, true.rows)


def peak(call: Callable[[], object], device: torch.device) -> int | None:
    """Bytes that a call adds at its worst to what is allocated; None where torch does not count."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated(device) - before


@contextmanager
def bounded(device: torch.device) -> Iterator[None]:
    """On Linux: what is beyond the free memory is refused, instead of ending the process.

    A GPU refuses by itself, and its driver maps more than there is.
    """
    free, used = (
        _kilobytes("/proc/meminfo", "MemAvailable"),
        _kilobytes("/proc/self/status", "VmData"),
    )
    if device.type != "cpu" or sys.platform != "linux" or free is None or used is None:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    room = 1024 * (used + free)
    limits = [room, *(x for x in (soft, hard) if x != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _kilobytes(path: str, name: str) -> int | None:
    try:
        found = re.search(rf"^{name}:\s*(\d+) kB", Path(path).read_text(), flags=re.M)
    except OSError:
        return None
    return int(found[1]) if found else None


def is_out_of_memory(error: Exception) -> bool:
    """Whether the device, or the machine, had too little of it.

    >>> is_out_of_memory(MemoryError())
    True
    """
    kinds = (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, kinds) or "can't allocate memory" in str(error)
