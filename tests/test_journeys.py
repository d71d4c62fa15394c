"""What a user's step loads of labelset: no more modules than it needs, so that a reader of it opens
few files."""

import subprocess
import sys

import pytest
import torch

import labelset as ls

COUNT = (
    "import sys; loaded = [m for name, m in sys.modules.items() if name.split('.')[0] == "
    "'labelset' and str(m.__file__).endswith('.py')]; print(len(loaded), file=sys.stderr)"
)
FIRST_CALL = (
    "import torch, labelset as ls; x = torch.zeros(4, 3, requires_grad=True); "
    "ls.losses.build('asl')(x, torch.ones(4, 3)).backward(); "
)
VERB = "import sys; from labelset.cli import main; main(sys.argv[1:]); "


def loaded(folder, code, *argv):
    """How many modules of labelset a program loads, those in C aside."""
    program = [sys.executable, "-c", code + COUNT, *argv]
    done = subprocess.run(program, capture_output=True, text=True, check=True, cwd=folder)
    return int(done.stderr.split()[-1])


def test_a_first_call_of_a_loss(tmp_path):
    assert loaded(tmp_path, FIRST_CALL) <= 23


def test_verify(tmp_path):
    head = ls.heads.build("linear", features=2, labels=3)
    ls.heads.save(head, tmp_path / "head.safetensors")
    (tmp_path / "sets.jsonl").write_text('{"labels": [0, 2]}\n{"labels": []}\n')
    assert loaded(tmp_path, VERB, "verify", "head.safetensors", "sets.jsonl") <= 38


@pytest.mark.slow
def test_compare_from_a_table_to_its_report(tmp_path):
    draw = torch.Generator().manual_seed(0)
    words = ("apple", "banana", "cherry", "dog", "elephant", "fox", "grape", "ink", "jam", "kite")
    rows = torch.rand(90, len(words), generator=draw) < 0.4
    lines = [" ".join(w for w, on in zip(words, row.tolist(), strict=True) if on) for row in rows]
    tags = [";".join(t for t in ("apple", "dog", "ink") if t in line.split()) for line in lines]
    pairs = zip(lines, tags, strict=True)
    table = "text,tags\n" + "".join(f"{line},{tag}\n" for line, tag in pairs)
    (tmp_path / "articles.csv").write_text(table)
    argv = ("compare", "articles.csv", "--out", "run", "--time-budget", "60s", "--quiet")
    assert loaded(tmp_path, VERB, *argv) <= 131
    assert (tmp_path / "run" / "report.html").is_file()
