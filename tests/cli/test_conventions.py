"""What holds for every verb: configuration files, JSON, exit statuses, no escape codes, shells."""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import termios
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from labelset import encode, heads, losses, metrics
from labelset.cli import main, make_parser
from labelset.cli.config import leaves, options
from labelset.model import SavedModel

VERBS = dict(leaves(make_parser()))
RED = "\x1b[31mred"
PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, flags=re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of 60 rows whose features are known, with a label name that would colour a terminal."""
    path = tmp_path_factory.mktemp("conventions")
    g = torch.Generator().manual_seed(0)
    x = torch.randn(60, 4, generator=g)
    y = (x @ torch.randn(4, 3, generator=g) > 0).float()
    np.save(path / "v.npy", (x @ torch.randn(4, 3, generator=g) + y).numpy())
    np.savez(path / "y.npz", Y=y.numpy())
    np.savez(path / "rows.npz", X=x.numpy(), Y=y.numpy(), split=np.arange(60) % 3)
    (path / "names.txt").write_text(f"fork\nknife\n{RED}")
    heads.save(heads.build("linear", features=4, labels=3), path / "head.safetensors")
    return path


def packed(folder, name="run", *more):
    pair = [str(folder / "v.npy"), str(folder / "y.npz")]
    given = ["--valid", *pair, "--test", *pair, "--names", str(folder / "names.txt")]
    given += ["--loss", "bce", "--head", str(folder / "head.safetensors")]
    assert main(["pack", str(folder / name), *given, *more]) == 0
    return str(folder / name)


# ---- configuration files -------------------------------------------------------------------------

CONFIG = """
losses = ["bce", "asl:gamma_neg=2"]
time_budget = 90
out = "run"
quiet = true
missing = 0.25
[train]
ema = 0.99
optimiser = "sgd"
[data]
valid = 50
"""


def resolved(capsys, *argv):
    assert main([*argv, "--print-config"]) == 0
    (table,) = tomllib.loads(capsys.readouterr().out).values()
    return table


def test_a_file_gives_options_and_the_command_line_overrides_it(tmp_path, capsys):
    file = tmp_path / "c.toml"
    file.write_text(CONFIG)
    got = resolved(capsys, "compare", "--config", str(file))
    assert got["losses"] == ["bce", "asl:gamma_neg=2"]
    assert (got["time-budget"], got["missing"], got["quiet"]) == ("90", 0.25, True)
    assert got["train"] == ["ema=0.99", "optimiser=sgd"]
    assert (got["source"], got["baseline"]) == ("digits", "bce")  # not in the file: as without one
    changes = ["--losses", "spa", "--out", "other", "--no-quiet", "--train", "ema=0.5"]
    got = resolved(capsys, "compare", "yeast", f"--config={file}", *changes)
    assert (got["losses"], got["out"], got["quiet"]) == (["spa"], "other", False)
    assert got["source"] == "yeast"
    assert got["train"] == ["ema=0.99", "optimiser=sgd", "ema=0.5"]  # the last one counts


def test_what_is_printed_can_be_fed_back(tmp_path, capsys):
    argv = ["train", 'a "b" \\ \x7f\té.csv', "--out", "r", "--lr", "1e-05", "--train", "ema=0.9"]
    assert main([*argv, "--print-config"]) == 0
    printed = capsys.readouterr().out
    (tmp_path / "c.toml").write_text(printed)
    assert main(["train", "--config", str(tmp_path / "c.toml"), "--print-config"]) == 0
    assert capsys.readouterr().out == printed
    assert tomllib.loads(printed)["train"]["lr"] == 1e-5


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_prints_its_options_and_reads_them_back(verb, tmp_path, capsys):
    needed = [a for a in options(VERBS[verb]).values() if a.required]
    argv = []
    for action in needed:
        value = next(iter(action.choices)) if action.choices else "x"
        argv += [*action.option_strings[-1:], value]
    assert main([*verb.split(), *argv, "--print-config"]) == 0
    printed = capsys.readouterr().out
    assert list(tomllib.loads(printed)) == [verb.split()[0]]
    (tmp_path / "c.toml").write_text(printed)
    assert main([*verb.split(), "--config", str(tmp_path / "c.toml"), "--print-config"]) == 0
    assert capsys.readouterr().out == printed


def test_a_table_for_each_verb_in_toml_and_yaml(folder, tmp_path, capsys):
    pytest.importorskip("yaml")
    run = packed(folder, "tables")
    capsys.readouterr()
    (tmp_path / "c.toml").write_text(
        f'[evaluate]\nmodel = "{run}"\nmetrics = ["hamming"]\njson = true\n[list]\nkind = "maps"\n'
    )
    (tmp_path / "c.yaml").write_text(f"model: {run}\nmetrics: [hamming]\njson: true\n")
    found = []
    for name in ("c.toml", "c.yaml"):
        assert main(["evaluate", "--config", str(tmp_path / name)]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]
    assert list(found[0]["metrics"]) == ["hamming"]


WRONG = {
    "no option 'losess': did you mean 'losses'": "losess = ['bce']",
    "epochs: expected int, got 2.5": "epochs = 2.5",
    "epochs: expected a number or a text, got True": "epochs = true",
    "quiet: expected true or false, got 'yes'": "quiet = 'yes'",
    "parallel: expected one of models, ddp, fsdp, got 'moddels'": "parallel = 'moddels'",
    "out: expected a number or a text, got ['a']": "out = ['a']",
    "losses: expected + values, got []": "losses = []",
    "data: expected a table, or texts KEY=VALUE, got [1]": "data = [1]",
    "has tables for evaluate, none for compare": "[evaluate]\nmodel = 'run'",
    "no option 'compare'": "seeds = 2\n[compare]\nepochs = 1",
    "no option 'help'": "help = true",
    "no option 'config'": "config = 'other.toml'",
    "Expected '=' after a key": "epochs 3",
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_file_is_one_line_and_status_two(message, tmp_path, capsys):
    (tmp_path / "c.toml").write_text(WRONG[message])
    assert main(["compare", "--out", "r", "--config", str(tmp_path / "c.toml")]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert "c.toml" in err


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.yaml", "a: [", "c.yaml"),
        ("c.yml", "- 1\n- 2", "expected options by name"),
        ("c.yaml", "1: 2", "expected options by name"),
        ("c.yaml", "!!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("c.json", "{}", ".toml, .yaml or .yml"),
        ("none.toml", None, "No such file"),
    ],
)
def test_other_wrong_files(name, text, message, tmp_path, capsys):
    pytest.importorskip("yaml")
    if text is not None:
        (tmp_path / name).write_text(text)
    assert main(["list", "--config", str(tmp_path / name)]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_config_without_a_file_is_wrong_usage(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["list", "--config"])
    assert "expected one argument" in capsys.readouterr().err


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    (config,) = blocks("toml")
    (tmp_path / "compare.toml").write_text(config)
    monkeypatch.chdir(tmp_path)
    for line in "".join(blocks("sh")).splitlines():
        labelset, *argv = shlex.split(line)
        assert labelset == "labelset"
        assert main(argv) == 0, (line, capsys.readouterr().err)
    assert json.loads((tmp_path / "run" / "plan.json").read_text())
    assert '"again"' in capsys.readouterr().out


def test_the_page_names_every_verb():
    named = "".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    assert [verb for verb in VERBS if f"`{verb}`" not in named] == []


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("compare digits --otu x", "labelset compare has no option --otu: did you mean '--out'?"),
        ("train digits --out x --ephocs=3", "no option --ephocs: did you mean '--epochs'?"),
        ("data inspect digits --jsno", "labelset data inspect has no option --jsno"),
        ("compare digits --out x --effort nromal", "no 'nromal': did you mean 'normal'?"),
        ("data inspcet digits", "no 'inspcet': did you mean 'inspect'?"),
        ("compare digits --out x --losses bec", "no loss is called 'bec': did you mean 'bce'?"),
        ("compare digits --out x --optimise f1-mikro", "did you mean 'f1-micro'?"),
        ("comprae digits", "did you mean 'compare'?"),
        ("list losses bec", "too many words: bec"),
    ],
)
def test_what_is_misspelt_is_asked_back(words, asked, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        status = main(words.split())
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    said = capsys.readouterr().err
    assert asked in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


# ---- JSON ----------------------------------------------------------------------------------------


def strictly(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_json(verb):
    assert "json" in options(VERBS[verb])


def test_json_of_what_works_on_a_run(folder, capsys):
    packed(folder, "first", "--json")
    assert strictly(capsys.readouterr().out)["rows"] == {"valid": 60, "test": 60}
    run = str(folder / "first")
    rows = str(folder / "v.npy")
    commands = [
        ["calibrate", run],
        ["decide", run],
        ["evaluate", run],
        ["query", run, "fork"],
        ["doctor", run, "--seconds", "1"],
        ["verify", run],
        ["export", run, "--safetensors", str(folder / "e.safetensors")],
        ["predict", run, rows, "--scores", "--out", str(folder / "p.jsonl")],
        ["data", "inspect", str(folder / "rows.npz")],
        ["bench", "--losses", "bce", "--shapes", "2x3", "--limit", "0.001", "--impl", "eager"],
        ["list"],
        ["completion", "bash"],
    ]
    for command in commands:
        assert main([*command, "--json"]) in (0, 1), command
        assert strictly(capsys.readouterr().out), command
    assert main(["predict", run, rows, "--scores", "--json"]) == 0
    assert len([strictly(line) for line in capsys.readouterr().out.splitlines()]) == 60
    assert main(["predict", run, rows, "--scores", "--json", "--to", "csv"]) == 2


def test_json_of_what_trains(folder, tmp_path, capsys):
    source, out = str(folder / "rows.npz"), str(tmp_path / "c")
    short = ["--epochs", "1", "--json", "--quiet"]
    argv = ["compare", source, "--out", out, "--losses", "bce", "--seeds", "1", "--jobs", "1"]
    assert main([*argv, *short]) == 0
    assert "plan" in strictly(capsys.readouterr().out)
    assert main(["report", out, "--json"]) == 0
    assert strictly(capsys.readouterr().out)["written"] == [f"{out}/report.html"]
    assert main(["train", source, "--out", str(tmp_path / "t"), *short]) == 0
    found = strictly(capsys.readouterr().out)
    assert SavedModel.open(found["model"]).names == ["0", "1", "2"]
    assert {"metric", "stage", "value"} == set(found["values"][0])
    pytest.importorskip("optuna")
    argv = ["tune", source, "--loss", "spa", "--trials", "1", "--out", str(tmp_path / "u")]
    assert main([*argv, *short]) == 0
    assert set(strictly(capsys.readouterr().out)["settings"]) <= set(losses.build("spa").__dict__)


# ---- no escape codes -----------------------------------------------------------------------------


def test_label_names_cannot_send_escape_codes(folder, capsys):
    run = packed(folder, "escapes")
    commands = [
        ["evaluate", run, "--per-label", "f1-macro"],
        ["calibrate", run],
        ["decide", run],
        ["query", run, "fork"],
        ["doctor", run, "--seconds", "1"],
        ["verify", run],
        ["predict", run, "test"],
    ]
    for command in commands:
        assert main(command) in (0, 1), command
        shown = capsys.readouterr()
        assert "\x1b" not in shown.out + shown.err, command


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 80, 140])
def test_a_comparison_fits_the_terminal_without_escape_codes(columns, folder, tmp_path):
    argv = ["compare", str(folder / "rows.npz"), "--out", str(tmp_path / "r"), "--losses", "bce"]
    more = ["--seeds", "1", "--jobs", "1", "--epochs", "1"]
    own = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    main_end, end = pty.openpty()
    termios.tcsetwinsize(end, (40, columns))
    child = subprocess.Popen(
        [sys.executable, "-m", "labelset", *argv, *more],
        stdin=end,
        stdout=end,
        stderr=end,
        env={**own, "NO_COLOR": "1", "TERM": "xterm-256color"},
    )
    os.close(end)
    shown = b""
    try:
        while piece := os.read(main_end, 65536):
            shown += piece
    except OSError:
        pass  # how Linux says that the other end was closed
    os.close(main_end)
    assert child.wait() == 0, shown.decode()
    assert b"\x1b" not in shown
    said = shown.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for phase in ("reading", "judging", "writing the report ..."):
        assert any(phase in line for line in said), phase
    assert any(line.startswith("> bce+linear") for line in said)
    assert said[-2].startswith("next: labelset predict ")
    paths = ("report: ", "model: ", "next: ", "reading ")  # which are never cut, to be copied
    assert max(len(line) for line in said if not line.startswith(paths)) <= columns


# ---- exit statuses -------------------------------------------------------------------------------


def test_exit_statuses_are_those_of_the_page(folder, capsys):
    stated = [line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("| ")]
    assert [s for s in stated if s.isdecimal()] == ["0", "1", "2", "130", "143"]
    weight, labels = str(folder / "w.npy"), str(folder / "two.npy")
    np.save(weight, [[1.0], [1.0]])
    np.save(labels, [[1, 0]])
    assert main(["verify", weight, labels]) == 1
    np.save(labels, [[1, 1]])
    assert main(["verify", weight, labels]) == 0
    assert main(["verify", weight, "none.npy"]) == 2


def interrupted(number, argv, tmp_path):
    code = (
        "import sys, os, signal\nfrom labelset import cli, runs\n"
        f"def stop(*a, **k): os.kill(os.getpid(), {int(number)}); import time; time.sleep(20)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background\n"
        "runs.compare = stop\nsys.exit(cli.main(sys.argv[1:]))"
    )
    got = subprocess.run(
        [sys.executable, "-c", code, *argv], capture_output=True, text=True, timeout=60
    )
    return got.returncode, got.stderr


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_stopped_by_a_signal(number, status, folder, tmp_path):
    argv = ["train", str(folder / "rows.npz"), "--out", str(tmp_path / "r"), "--quiet"]
    code, err = interrupted(number, argv, tmp_path)
    assert code == status
    assert "stopped" in err
    assert "Traceback" not in err


def test_python_m_and_a_reader_that_stops_early():
    argv = f"{sys.executable} -m labelset list --json | head -c 5"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {argv}"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


# ---- completion ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    script = tmp_path_factory.mktemp("shell") / "labelset.bash"
    made = subprocess.run(
        [sys.executable, "-m", "labelset", "completion", "bash"], capture_output=True, check=True
    )
    script.write_bytes(made.stdout)

    def ask(line):
        code = 'source "$1"; COMP_LINE="$2"; COMP_POINT=${#2}; _labelset; echo "${COMPREPLY[*]}"'
        done = subprocess.run(
            ["bash", "-c", code, "_", script, line], capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return done.stdout.split()

    return ask


def test_bash_completes(ask):
    assert {name.split()[0] for name in VERBS} == set(ask("labelset "))
    assert ask("labelset eval") == ["evaluate"]
    assert ask("labelset compare --los") == ["--losses"]
    assert set(ask("labelset train --")) == {
        s for a in VERBS["train"]._actions for s in a.option_strings if s[:2] == "--"
    } - {f"--no-{name}" for name in ("resume", "force", "json", "quiet")}
    assert ask("labelset compare x --losses ") == losses.names()
    assert ask("labelset compare x --losses bce sp") == ["spa", "spa+lpr", "splc"]
    assert ask("labelset train --encoder ") == encode.names()
    assert ask("labelset compare --parallel m") == ["models"]
    assert ask("labelset data i")[0] == "inspect"
    assert ask("labelset pack r --head ") == []  # a file: the shell's own completion
    # bash replaces what follows the @ only
    assert "map@class" in metrics.names()
    assert ask("labelset evaluate r --metrics map@c") == ["class"]


def test_other_shells_are_told_the_same(capsys):
    for shell in ("zsh", "fish"):
        assert main(["completion", shell]) == 0
        script = capsys.readouterr().out
        assert all(name in script for name in (*losses.names(), *metrics.names()))
        assert script.count("'") % 2 == 0


@pytest.mark.parametrize(
    ("error", "size"),
    [
        (MemoryError(), ""),
        (MemoryError("Unable to allocate 14.9 GiB for an array with shape (9,)"), "14.9 GiB"),
        (RuntimeError("std::bad_alloc"), ""),
        (RuntimeError("can't allocate memory: you tried to allocate 800 bytes"), "800 bytes"),
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB."), "20.00 MiB"),
    ],
)
def test_too_little_memory_is_said_in_words(error, size, monkeypatch, capsys):
    def run(_):
        raise error

    monkeypatch.setattr("labelset.cli.list.run", run)
    assert main(["list"]) == 2
    asked = f", {size} more were asked for at once" if size else ""
    assert f"labelset: there is not enough memory{asked}; give fewer" in capsys.readouterr().err
