"""What needs no torch does not load it, and so answers at once."""

import json
import subprocess
import sys

import pytest

from labelset.cli import VERBS

COUNTED = """
import contextlib, io, json, sys, time
start = time.process_time()
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    try:
        from labelset.cli import main
        status = main(sys.argv[1:])
    except SystemExit as end:
        status = end.code
spent = time.process_time() - start
heavy = [name for name in ("torch", "numpy", "pyarrow", "sklearn") if name in sys.modules]
print(json.dumps({"status": status, "seconds": spent, "heavy": heavy}))
"""
SECONDS = 1.5
"""Far above the 0.1 to 0.2 that are measured on an idle core, far below the 2 of torch."""


def started(*argv):
    command = [sys.executable, "-c", COUNTED, *argv]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


QUICK = [
    (0, ["--help"]),
    (0, ["--version"]),
    (0, ["list"]),
    (0, ["list", "metrics", "--json"]),
    (0, ["list", "spa"]),
    (2, ["list", "sppa"]),
    (2, []),
    (2, ["comprae"]),
    (2, ["compare"]),
    (2, ["train", "a.csv", "--epochs", "many"]),
    (2, ["evaluate", "run", "--on", "nothing"]),
    (0, ["compare", "--out", "run", "--print-config"]),
    *((0, ["completion", shell]) for shell in ("bash", "zsh", "fish")),
]


@pytest.mark.parametrize(
    ("status", "argv"),
    QUICK,
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_quick_commands_load_nothing_heavy(status, argv):
    found = started(*argv)
    assert (found["status"], found["heavy"]) == (status, [])
    assert found["seconds"] < SECONDS


def test_the_help_of_no_verb_loads_anything_heavy():
    code = (
        "import contextlib, io, sys; from labelset.cli import main\n"
        f"for verb in {[*VERBS]}:\n"
        "    said = io.StringIO()\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(said):\n"
        "        main([verb, '--help'])\n"
        "    assert 'usage: labelset ' + verb in said.getvalue(), verb\n"
        "    heavy = {'torch', 'numpy', 'pyarrow', 'sklearn'} & {*sys.modules}\n"
        "    assert not heavy, (verb, heavy)\n"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_the_package_and_its_catalogues_load_nothing_heavy():
    code = (
        "import sys, labelset as ls; from labelset import encode; "
        "from labelset.data import builtin; "
        "rooms = [ls.losses, ls.heads, ls.calibrate, ls.decide, ls.metrics, encode, builtin]; "
        "assert all(room.names() for room in rooms); "
        "print([m for m in ('torch', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_building_a_loss_loads_no_other():
    code = (
        "import sys, labelset as ls; ls.losses.build('mse'); "
        "loaded = {m.removeprefix('labelset.losses.').replace('_', '-') for m in sys.modules}; "
        "print(sorted(loaded & set(ls.losses.names())))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['mse']"
