"""The scripts in benchmarks/ that use the benchmark: peers, and the tables of a page."""

import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace

import pytest
from torch.nn.functional import binary_cross_entropy_with_logits

from labelset.bench import COLUMNS, IMPLEMENTATIONS, Bench, BenchRow, Case, write_rows

ROOT = Path(__file__).parents[2]


def script(name):
    spec = spec_from_file_location(f"benchmarks_{name}", ROOT / "benchmarks" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


losses, pages = script("losses"), script("pages")
filled, markdown = pages.filled, pages.markdown


def row(loss="bce", implementation="eager", **facts):
    what = {"rows": 5, "labels": 8, "dtype": "float32", "device": "cpu", "label_kind": "dense"}
    figures = {"density": 0.3, "timing": "wall clock", "p50_ms": 2.0, "ratio_to_floor": 8.0}
    return BenchRow(**({"loss": loss, "implementation": implementation} | what | figures | facts))


@pytest.fixture(scope="module")
def rows():
    return [row(loss, name) for loss in ("bce", "hill") for name in ("eager", "auto")]


def old_timm_asl(gamma_neg=4, gamma_pos=1, clip=0.05):
    """The published formula, summed, as versions without `reduction` give it."""

    def loss(v, y):
        p, q = v.sigmoid(), (1 - v.sigmoid() + clip).clamp(max=1)
        weight = (1 - p * y - q * (1 - y)) ** (gamma_pos * y + gamma_neg * (1 - y))
        return -(weight * (y * p.log() + (1 - y) * q.log())).sum()

    return loss


def new_timm_asl(gamma_neg=4, gamma_pos=1, clip=0.05, reduction="batchmean"):
    assert reduction == "mean"
    total = old_timm_asl(gamma_neg, gamma_pos, clip)
    return lambda v, y: total(v, y) / v.numel()


def focal(inputs, targets, alpha=0.25, gamma=2, reduction="none"):
    assert (alpha, reduction) == (-1.0, "mean")
    p = inputs.sigmoid()
    ce = binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    return (ce * (1 - p * targets - (1 - p) * (1 - targets)) ** gamma).mean()


@pytest.mark.parametrize("asl", [old_timm_asl, new_timm_asl])
def test_peers_compute_the_loss_they_stand_beside(asl, monkeypatch):
    def bce(smoothing=0.1):
        assert smoothing == 0.0
        return binary_cross_entropy_with_logits

    timm = SimpleNamespace(BinaryCrossEntropy=bce, AsymmetricLossMultiLabel=asl)
    monkeypatch.setitem(sys.modules, "timm.loss", timm)
    monkeypatch.setitem(sys.modules, "torchvision.ops", SimpleNamespace(sigmoid_focal_loss=focal))
    for package, known in losses.PEERS.items():
        cases = [Case(loss=loss, rows=7, labels=11, density=0.2) for loss in known]
        settings = {"seconds": 0.02, "bandwidth": 1e9, "peers": losses.PEERS}
        for (found,) in Bench(cases=cases, implementations=[package], **settings).rows():
            assert found.gradient_error < 1e-5, (package, found.loss, found.note)
            assert found.value_error < 1e-5


def test_a_script_adds_rows_to_a_csv(tmp_path, monkeypatch):
    out = tmp_path / "a.csv"
    write_rows(out, [row("zlpr", "auto")])
    monkeypatch.setattr(losses, "installed", lambda name: name == "torch")
    monkeypatch.setattr("labelset.bench.timing.COPIED", {"cpu": 2**20})
    few = ["--shapes", "4x6", "--dtypes", "float32", "--limit", "0.01"]
    monkeypatch.setattr(sys, "argv", ["losses.py", "--out", str(out), *few])
    losses.main()
    found = [(r.loss, r.implementation) for r in pages.read_rows(out)]
    assert found == [("zlpr", "auto"), ("bce", "torch")]


def test_losses_down_and_implementations_across(rows):
    failed = row("x|y", p50_ms=None, note="out of memory")
    text = markdown([*rows, failed, row("mse", note="WRONG: far off")])
    assert text.splitlines()[0] == "| loss | eager | auto |"
    assert "| `bce` | 2 ms, 8 x | 2 ms, 8 x |" in text
    assert "out of memory" in text
    assert "x, wrong |" in text


def test_the_tables_of_a_page_come_from_the_csv(rows, tmp_path):
    write_rows(tmp_path / "a.csv", rows)
    mark = "<!-- bench {} 5x8 float32 dense wall clock -->\nold\n<!-- end bench -->\n"
    page = "before\n" + mark.format("a.csv") + "between\n" + mark.format("none.csv") + "after\n"
    made = filled(page, tmp_path)
    assert "old" not in made
    assert "| `hill` | " in made
    assert "There is no none.csv yet." in made
    assert [w for w in ("before", "between", "after") if w not in made] == []
    assert filled(made, tmp_path) == made
    assert "no figures for 9x9" in filled(page.replace("5x8", "9x9"), tmp_path)


def test_the_page_of_speed_is_not_stale():
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    again = "run `python benchmarks/pages.py docs/speed.md benchmarks`"
    assert filled(page, ROOT / "benchmarks") == page, again
    assert [name for name in COLUMNS if f"`{name}`" not in page] == []
    assert [n for n in (*IMPLEMENTATIONS, *losses.PEERS) if f"`{n}`" not in page] == []


def test_what_was_measured_by_turns_with_bce_is_told_by_it(tmp_path):
    case = {"rows": 2, "labels": 3, "dtype": "float32", "device": "cuda", "density": 0.5}
    kinds = {"label_kind": "dense", "timing": "synchronised"}
    turn = BenchRow(
        loss="asl",
        implementation="triton",
        **case,
        **kinds,
        p50_ms=3.0,
        ratio_to_floor=9.0,
        bce_ms=2.0,
    )
    alone = replace(turn, implementation="eager", bce_ms=None)
    assert "| `asl` | 3 ms, 1.50 x bce | 3 ms, 9 x |" in markdown([turn, alone])
    write_rows(tmp_path / "a.csv", [turn, alone])
    mark = "<!-- bench a.csv 2x3 float32 dense synchronised -->\n<!-- end bench -->"
    page = filled(mark, tmp_path)
    assert "1.50 x bce" in page
    assert "eager" not in page


@pytest.mark.slow
def test_fine_tuning_is_timed_beside_a_bare_loop(tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    finetune, out = script("finetune"), tmp_path / "out.csv"
    monkeypatch.delitem(finetune.WAYS, "trainer")
    small = "--shapes 4x8 --layers 1 --width 32 --labels 3 --steps 3 --repeats 1 --device cpu"
    argv = ["finetune.py", *small.split(), "--precision", "float32", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", argv)
    finetune.main()
    head, *lines = [line.split(",") for line in out.read_text().splitlines()]
    assert head == [*finetune.COLUMNS]
    assert [line[4] for line in lines] == ["bare", "labelset"]
    assert all(float(line[5]) > 0 for line in lines)
