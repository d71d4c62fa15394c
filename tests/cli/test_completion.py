"""The scripts for zsh and fish complete in the shells themselves; bash: test_conventions.py."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time

import pytest

from labelset import encode, losses

ZSH = """autoload -Uz compinit && compinit -D -u; source {script}; bindkey '^I' complete-word
show() {{ print -r -- "<$BUFFER>"; exit }}; zle -N show; bindkey '^X' show; print rea''dy
"""
LIMIT = 60
"""Seconds after which a shell is given up."""


@pytest.fixture(scope="module", params=["zsh", "fish"])
def shell(request, tmp_path_factory):
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    script = tmp_path_factory.mktemp("shell") / f"labelset.{request.param}"
    command = [sys.executable, "-m", "labelset", "completion", request.param]
    script.write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    return request.param, script


def offered_by_fish(script, line):
    """The words that fish would show."""
    command = ["fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", script, line]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT)
    assert done.stderr == ""
    return done.stdout.split()


def completed_by_zsh(script, line):
    """The line after the tabulator key, pressed in a terminal."""
    mine, its = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "PS1": ""}
    process = subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=its, stdout=its, stderr=its, env=environment
    )
    os.close(its)
    try:
        os.write(mine, ZSH.format(script=script).encode())
        read_until(mine, "ready")
        os.write(mine, f"{line}\t\x18".encode())
        return read_until(mine, r"<(labelset [^>\r\n]*)>")[1].split()
    finally:
        process.kill()
        process.wait()
        os.close(mine)


def read_until(terminal, pattern):
    seen, end = "", time.monotonic() + LIMIT
    while time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            seen += os.read(terminal, 1 << 16).decode(errors="replace")
        found = re.search(pattern, seen)
        if found:
            return found
    raise AssertionError(f"zsh never showed {pattern}: {seen}")


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("labelset eval", "evaluate"),
        ("labelset compare --los", "--losses"),
        ("labelset compare x --losses bce two", "two-way"),
        ("labelset evaluate r --metrics map@c", "map@class"),
        ("labelset compare --parallel m", "models"),
    ],
)
def test_a_verb_an_option_and_a_name_are_completed(shell, line, word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").touch()
    name, script = shell
    if name == "fish":
        assert offered_by_fish(script, line) == [word]
    else:
        assert completed_by_zsh(script, line) == [*line.split()[:-1], word]


def test_files_are_offered_where_a_file_is_due(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.safetensors").touch()
    name, script = shell
    line = "labelset pack r --head mod"
    ask = offered_by_fish if name == "fish" else completed_by_zsh
    assert ask(script, line)[-1] == "model.safetensors"
    if name == "fish":
        assert ask(script, "labelset train --encoder ") == encode.names()
        assert ask(script, "labelset compare x --losses ") == losses.names()
