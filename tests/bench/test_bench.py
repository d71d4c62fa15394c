"""The benchmark: its columns, its honesty, and that a bad case is a row and not a crash."""

import math
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from labelset import Labels, losses
from labelset.bench import (
    COLUMNS,
    Bench,
    BenchRow,
    Case,
    chosen,
    lines,
    merged,
    plot,
    read_rows,
    shape,
    usual,
    usual_density,
    write_rows,
)
from labelset.bench import cases as implementations
from labelset.bench.measure import (
    Errors,
    _Drawn,
    bounded,
    errors,
    is_out_of_memory,
    largest_errors,
    peak,
    truth,
)
from labelset.bench.timing import (
    BESIDE,
    copy_bandwidth,
    first_call,
    floor_bytes,
    spread,
    timings,
)

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


def measured(implementations, seconds=0.02, **case):
    case = Case(**({"loss": "asl", "rows": 7, "labels": 11, "density": 0.2} | case))
    bench = Bench(cases=[case], implementations=implementations, seconds=seconds, bandwidth=1e9)
    return [row for found in bench.rows() for row in found]


@pytest.fixture(scope="module")
def rows():
    cases = [
        Case(loss=loss, rows=5, labels=n, dtype=dtype, density=0.3)
        for loss in ("bce", "hill")
        for n in (8, 40)
        for dtype in ("float32", "bfloat16")
    ]
    peers = {"torch": {"bce": lambda: binary_cross_entropy_with_logits}}
    bench = Bench(
        cases=cases, implementations=["eager", "auto", "torch"], seconds=0.01, peers=peers
    )
    found = [row for rows in bench.rows() for row in rows]
    assert bench.total == len(found) == 4 * 3 + 4 * 2
    return found


# ---- what is measured ------------------------------------------------------------------------


def test_times_are_quantiles_and_ratios_are_to_the_floor(rows):
    for row in rows:
        assert 0 < row.p20_ms <= row.p50_ms <= row.p80_ms
        assert row.samples >= 1
        assert row.ratio_to_floor == pytest.approx(row.p50_ms / row.floor_ms)
        assert row.timing == "wall clock"
        assert row.peak_bytes is None


def test_the_floor_reads_scores_and_a_byte_of_target_and_writes_the_gradient():
    assert measured(["eager"])[0].floor_ms == pytest.approx(1e3 * 77 * (4 + 1 + 4) / 1e9)
    half = measured(["eager"], dtype="bfloat16")[0]
    assert half.floor_ms == pytest.approx(1e3 * 77 * (2 + 1 + 2) / 1e9)
    assert floor_bytes(77, 4) == 77 * 9


def test_bandwidth_is_that_of_a_copy(monkeypatch):
    monkeypatch.setattr("labelset.bench.timing.COPIED", {"cpu": 2**24})
    assert 1e7 < copy_bandwidth(CPU, 0.05) < 1e13


def test_the_peer_is_only_where_it_corresponds(rows):
    assert {row.loss for row in rows if row.implementation == "torch"} == {"bce"}


def test_nothing_is_wrong_here(rows):
    assert [row.note for row in rows if row.note and not row.note.startswith("noisy")] == []
    for row in rows:
        assert row.gradient_error < (1e-5 if row.dtype == "float32" else 1e-2)
        assert row.value_error < 1e-2
        assert row.checked_rows == row.rows
        assert row.torch == torch.__version__


def test_forward_and_backward_are_both_timed(monkeypatch):
    """Every sample makes a new gradient: the old one is dropped, not added to."""
    seen = []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            return v.sum()

        @staticmethod
        def backward(ctx, g):
            seen.append("backward")
            return g.expand(7, 11)

    def function(scores, labels):
        seen.append("forward" if scores.grad is None else "stale gradient")
        return Watched.apply(scores)

    give = implementations.Ready(function, torch.zeros(7, 11, dtype=torch.bool))
    monkeypatch.setattr("labelset.bench.measure.ready", lambda *_: give)
    (row,) = measured(["eager"])
    assert set(seen) == {"forward", "backward"}
    assert seen.count("forward") == seen.count("backward") > row.samples


def test_a_wrong_kernel_is_seen(monkeypatch):
    true = losses.build("asl")
    for fault in (lambda v, y: 1.01 * true(v, y), lambda v, y: true(v, y) + 0 * v.sum() / 0.0):
        monkeypatch.setattr(
            "labelset.bench.measure.ready",
            lambda *a, fault=fault: implementations.Ready(fault, a[2]),
        )
        (row,) = measured(["eager"])
        assert row.note.startswith("WRONG")
        assert not row.gradient_error <= 9e-3


def test_rounding_that_the_formula_has_too_is_not_wrong():
    plain = Errors(0.02, 0.05, 7)
    assert Errors(1e-4, 1e-4, 7).note(torch.float32, lambda: pytest.fail("not asked for")) == ""
    assert Errors(0.04, 0.01, 7).note(torch.float32, lambda: plain).startswith("ill-conditioned")
    assert Errors(1e-6, 0.05, 7).note(torch.float32, lambda: Errors(1e-9, 0.05, 7))[:3] == "ill"
    for off in (Errors(0.04, 0.3, 7), Errors(0.1, 0.05, 7), Errors(float("nan"), 0.0, 7)):
        assert off.note(torch.float32, lambda: plain).startswith("WRONG")
        nothing = Errors(float("inf"), float("nan"), 7)
        assert off.note(torch.float32, lambda: nothing).startswith("WRONG")  # noqa: B023


def test_errors_are_relative_and_normwise():
    case = Case(loss="bce", rows=4, labels=5, density=0.4)
    scores, labels = case.inputs()
    true = truth(losses.build("bce", impl="eager"), case.inputs())
    found = errors(lambda v, y: 1.5 * losses.build("bce")(v, y), scores, labels, true)
    assert found.value == pytest.approx(0.5, rel=1e-5)
    assert found.gradient == pytest.approx(0.5, rel=1e-5)
    assert scores.grad is None


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_order_of_the_rows_tells_how_far_rounding_reaches(kind):
    case = Case(loss="unbounded-f1", rows=256, labels=4000, density=0.01, label_kind=kind)
    (scores, labels), eager = case.inputs(), losses.build("unbounded-f1", impl="eager")
    given = scores, labels, truth(eager, case.inputs())
    assert largest_errors(eager, *given).gradient > errors(eager, *given).gradient
    tame = losses.build("bce", impl="eager")
    assert largest_errors(tame, scores, labels, truth(tame, case.inputs())).gradient < 1e-6


def test_too_little_memory_for_another_order_of_the_rows():
    case = Case(loss="bce", rows=4, labels=5, density=0.4)
    (scores, labels), eager = case.inputs(), losses.build("bce", impl="eager")
    true, calls = truth(eager, case.inputs()), []

    def short_of_memory(v, y):
        calls.append(v)
        if len(calls) == 2:
            raise torch.OutOfMemoryError
        return 1.5 * eager(v, y)

    found = largest_errors(short_of_memory, scores, labels, true)
    assert found.value == pytest.approx(0.5, rel=1e-5)
    with pytest.raises(RuntimeError, match="broken"):
        largest_errors(broken, scores, labels, true)


def broken(v, y):
    raise RuntimeError("broken")


def test_large_shapes_are_compared_on_their_first_rows(monkeypatch):
    monkeypatch.setattr("labelset.bench.measure.WHOLE", {"cpu": 33})
    for kind in ("dense", "float", "sparse"):
        (row,) = measured(["auto"], label_kind=kind)
        assert row.checked_rows == 3
        assert row.gradient_error < 1e-5


# ---- cases -----------------------------------------------------------------------------------


def test_inputs_are_fresh_and_repeatable():
    case = Case(loss="bce", rows=30, labels=40, density=0.25)
    one, same = case.inputs(), case.inputs()
    assert torch.equal(one.scores, same.scores)
    assert torch.equal(one.labels, same.labels)
    for other in (replace(case, seed=1), replace(case, loss="asl")):
        assert not torch.equal(one.scores, other.inputs().scores)
    assert 0.2 < one.labels.float().mean() < 0.3
    assert one.scores.requires_grad


def test_sparse_labels_are_the_same_labels():
    case = Case(loss="bce", rows=30, labels=40, density=0.25, label_kind="sparse")
    labels = case.inputs().labels
    assert isinstance(labels, Labels)
    assert 0.2 < float(labels.counts().sum()) / 1200 < 0.3


def test_shapes_are_read():
    assert shape("4096x131072") == (4096, 131072)
    for wrong in ("80", "x80", "0x80", "80x0", "-1x8", "8x8x8", "1e3x4", "", "axb"):
        with pytest.raises(ValueError, match=r"512x80|at least 1"):
            shape(wrong)


def test_the_usual_density_has_at_most_fifty_on():
    assert usual_density(80) == 0.01
    assert usual_density(131_072) * 131_072 == pytest.approx(50)


# ---- implementations -------------------------------------------------------------------------


def test_what_is_usual_on_a_cpu():
    assert usual("cpu")[0] == "eager"
    assert "torch.compile" not in usual("cpu")
    assert {"torch.compile", "compiled"} <= set(usual("cpu", everything=True))


def test_names_are_checked():
    assert chosen(["eager", "auto", "eager"]) == ["eager", "auto"]
    with pytest.raises(ValueError, match="did you mean 'eager'"):
        chosen(["eagre"])


def test_every_loss_has_an_eager_example():
    scores, on = torch.randn(3, 4), torch.rand(3, 4) < 0.5
    for loss in losses.names():
        function, labels = implementations.ready(loss, "eager", on, torch.float32, {})
        assert function.impl == "eager"
        assert function(scores, labels).isfinite()


# ---- what fails is a row ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), "out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 5"), "out of memory"),
        (RuntimeError("no kernel\nsecond line"), "RuntimeError: no kernel"),
        (ValueError(), "ValueError: "),
    ],
)
def test_a_case_that_fails_is_a_row(error, note, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr("labelset.bench.measure.ready", fail)
    (row,) = measured(["eager"])
    assert row.note == note
    assert row.p50_ms is None
    assert row.timing == "wall clock"


def test_an_unsupported_implementation_is_a_row():
    eager, native = measured(["eager", "native"], dtype="float16")
    assert "cannot be used here" in native.note
    assert native.p50_ms is None
    assert eager.p50_ms > 0


def test_inputs_beyond_memory_are_rows_and_the_rest_goes_on():
    cases = [
        Case(loss="bce", rows=10**9, labels=10**6),
        Case(loss="bce", rows=2, labels=2, density=0.5),
    ]
    bench = Bench(cases=cases, implementations=["eager", "auto"], seconds=0.01, bandwidth=1e9)
    notes = [row.note.split(":")[0] for rows in bench.rows() for row in rows]
    assert notes[:2] == ["out of memory"] * 2
    assert "out of memory" not in notes[2:]


@pytest.mark.skipif(sys.platform != "linux", reason="the bound is for Linux")
def test_memory_is_bounded_and_then_free_again():
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    with bounded(CPU):
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] < 2**50
        with pytest.raises(RuntimeError) as caught:
            torch.empty(2**52, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert not is_out_of_memory(RuntimeError("something else"))
    assert peak(lambda: None, CPU) is None


# ---- timing ----------------------------------------------------------------------------------


def test_quantiles():
    assert spread([0.003, 0.001, 0.002]) == pytest.approx((3, 1.4, 2.0, 2.6))
    assert spread([0.001, 0.001, 0.009, 0.009]).note().startswith("noisy")
    assert spread([0.004]).note() == ""


def test_sampling_stops_at_the_limit():
    clock = {"calls": 0}

    def call():
        clock["calls"] += 1

    assert len(timings(call, CPU, 10, 1e-9)["wall clock"]) == 1  # slower than the limit: once
    assert clock["calls"] == 1
    assert len(timings(call, CPU, 10, 5.0)["wall clock"]) == 200  # enough is enough
    assert first_call(call, CPU) >= 0


class Event:
    """An event of a GPU that is not there: each call takes it 2 ms, and is not waited for."""

    queued = 0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = Event.queued

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return 2.0 * (end.at - self.at)


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    return torch.device("cuda")


def test_on_a_gpu_calls_are_queued_and_small_ones_also_waited_for(gpu):
    def call():
        Event.queued += 1

    small, large = (timings(call, gpu, entries, 0.2) for entries in (1000, 2**30))
    assert set(small) == {"queued", "synchronised"}
    assert set(large) == {"queued"}
    assert large["queued"] == pytest.approx([0.002] * len(large["queued"]))
    turns = []
    both = timings(lambda: turns.append("own"), gpu, 1000, 0.2, lambda: turns.append("other"))
    assert len(both["synchronised"]) == len(both[BESIDE]) > 10
    assert turns[-4:] == ["other", "own"] * 2
    assert turns.count("other") == len(both[BESIDE]) + 1  # the first is not measured
    before = Event.queued
    assert len(timings(call, gpu, 2**30, 1e-12)["queued"]) == 1
    assert Event.queued - before == 2  # one to see how slow it is, one measured


def test_peak_is_what_a_call_adds(gpu, monkeypatch):
    held = {"now": 100, "most": 900}
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: held["now"])
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: held["most"])
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _: held.update(most=100))
    assert peak(lambda: held.update(most=175), gpu) == 75


# ---- tables, pages and pictures --------------------------------------------------------------


def test_csv_round_trip(rows, tmp_path):
    odd = replace(rows[0], note='a "quoted", note', p50_ms=None, value_error=math.inf, loss="é")
    path = tmp_path / "b.csv"
    write_rows(path, [*rows, odd])
    assert read_rows(path) == [*rows, odd]
    assert path.read_text(encoding="utf-8").splitlines()[0].split(",") == list(COLUMNS)


def test_a_foreign_csv_is_refused(rows, tmp_path):
    path = tmp_path / "b.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="not those of this benchmark"):
        read_rows(path)
    write_rows(path, rows[:1])
    path.write_text(path.read_text().replace(",5,8,", ",five,8,"))
    with pytest.raises(ValueError, match="line 2"):
        read_rows(path)


def test_measuring_again_replaces(rows):
    again = replace(rows[0], p50_ms=9.0)
    both = merged(rows, [again, replace(rows[0], dtype="float16")])
    assert len(both) == len(rows) + 1
    assert both[0].p50_ms == 9.0
    assert both[-1].dtype == "float16"


def test_tables_show_what_there_is(rows):
    table = lines(rows)
    assert len({len(line) for line in table}) == 1
    assert len(table) == len(rows) + 1


def test_the_plot_renders(rows):
    slow = replace(rows[0], ratio_to_floor=12_345.0)
    picture = plot([*rows, slow, replace(slow, timing="synchronised"), replace(slow, loss="<b>")])
    root = ElementTree.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    named = [c for c in root.iter(f"{space}circle") if c.find(f"{space}title") is not None]
    assert len(named) == len(rows) + 2  # synchronised ones are left out
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    for circle in named:
        assert 0 <= float(circle.attrib["cx"]) <= width
        assert 0 <= float(circle.attrib["cy"]) <= height
    assert "nan" not in picture
    with pytest.raises(ValueError, match="no figure to plot"):
        plot([replace(rows[0], ratio_to_floor=None)])


def test_a_row_needs_no_figures():
    what = {"rows": 1, "labels": 2, "dtype": "float32", "device": "cpu", "label_kind": "dense"}
    row = BenchRow(loss="bce", implementation="eager", density=0.5, timing="wall clock", **what)
    assert lines([row])[1][0] == "bce"


def test_bce_beside_a_case_is_torchs_on_the_same_scores():
    drawn = _Drawn(Case(loss="two-way", rows=5, labels=7, label_kind="sparse"))
    drawn.bce()
    x = drawn.inputs.scores.detach().clone().requires_grad_()
    binary_cross_entropy_with_logits(x, drawn.inputs.labels.dense()).backward()
    assert torch.equal(drawn.inputs.scores.grad, x.grad)
