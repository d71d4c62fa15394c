"""What is shown while people wait."""

import pytest

from labelset import terminal
from labelset.terminal import ProgressBar, table


@pytest.mark.parametrize("columns", [12, 40, 80, 200])
def test_no_line_of_progress_is_wider_than_the_terminal(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    bar = ProgressBar()
    for done, total in ((0, 1_000_000), (999_999, 1_000_000), (0.4, 3.0), (3.0, 3.0)):
        bar(done, total, "two-way/linear epoch 17, loss 0.1234, " + "x" * 99)
    written = capsys.readouterr().err
    assert "\n" not in written
    assert max(map(len, written.split("\r"))) == columns - 1
    assert written.endswith("\r")  # where all is done, the line is empty again


def test_the_bar_grows_and_tells_the_time_left(monkeypatch, capsys):
    clock = iter((0.0, 1.0, 2.0))
    monkeypatch.setattr(terminal.time, "perf_counter", lambda: next(clock))
    monkeypatch.setenv("COLUMNS", "80")
    bar = ProgressBar()
    bar(1, 4, "red\x1b[31m")
    bar(2, 4)
    first, second = (line for line in capsys.readouterr().err.split("\r") if "#" in line)
    assert first == f"[{'#' * 7}{'.' * 23}] 1/4, 3 s left  red\\x1b[31m"
    assert second == f"[{'#' * 15}{'.' * 15}] 2/4, 2 s left"


def test_a_table_is_aligned_and_shows_no_escape_codes():
    shown = table([["name", "f1"], ["a\x07", "0.5"], ["grain", "10"]])
    assert shown == "name    f1\na\\x07  0.5\ngrain   10"
