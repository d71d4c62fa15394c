"""What is shown while people wait, and tables that fit."""

import pytest

from labelset import terminal
from labelset.terminal import ProgressBar, minutes, phase, progress, styled, table, wrapped


@pytest.fixture
def at(monkeypatch):
    """Standard output and error are a terminal with so many columns."""

    def at(columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        for stream in (terminal.sys.stdout, terminal.sys.stderr):
            monkeypatch.setattr(stream, "isatty", lambda: True)

    return at


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(terminal.time, "perf_counter", lambda: now[0])
    return now


def last_line(capsys):
    return capsys.readouterr().err.split("\r")[-1]


# ---- progress ------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [12, 40, 60, 80, 200])
def test_no_line_of_progress_is_wider_than_the_terminal(columns, at, capsys):
    at(columns)
    bar = ProgressBar()
    for done, total in ((0, 1_000_000), (999_999, 1_000_000), (0.4, 3.0), (3.0, 3.0)):
        bar(done, total, "two-way/linear epoch 17, loss 0.1234, " + "x" * 99)
    bar.phase("proving " + "x" * 300)
    bar.clear()
    written = capsys.readouterr().err
    assert "\n" not in written
    assert max(map(len, written.split("\r"))) == columns - 1
    assert written.endswith("\r")  # at the end the line is empty again


def test_the_bar_grows_and_tells_the_time_left(clock, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "140")
    bar = ProgressBar()
    clock[0] = 30
    bar(1, 4, "red\x1b[31m")
    assert last_line(capsys) == f"[{'#' * 7}{'.' * 23}] 1/4, 1:30 left  red\\x1b[31m"
    clock[0] = 60
    bar(2, 4)
    assert last_line(capsys) == f"[{'#' * 15}{'.' * 15}] 2/4, 1:00 left"


def test_the_time_left_is_never_more_than_the_budget_has(clock, capsys):
    bar = ProgressBar(budget=120)
    clock[0] = 20
    for done, left in ((0.001, "1:40"), (0.02, "1:40"), (0.5, "0:20")):
        bar(done, 1.0)
        assert f"%, {left} left" in last_line(capsys)
    clock[0] = 500
    bar(0.999, 1.0)  # the budget is spent: the pace alone is known
    assert "100%, 0:01 left" in last_line(capsys)


def test_an_early_pace_is_no_forecast(clock, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "140")
    bar = ProgressBar()
    clock[0] = 5
    bar(0.001, 1.0, "epoch 1")
    assert last_line(capsys) == f"[{'.' * 30}] 0%  epoch 1"


def test_phases_are_named_on_the_display_of_a_verb(clock, at, capsys):
    at(60)
    with progress(True, budget=90) as bar:
        clock[0] = 30
        phase("reading a.csv")
        assert last_line(capsys) == "reading a.csv ... 1:00 left"
        bar(0.5, 1.0, "epoch 3")
        phase("judging bce")
        assert last_line(capsys).endswith("50%, 0:30 left  judging bce")
        bar(1.0, 1.0)
        clock[0] = 95
        phase("proving")
        assert last_line(capsys) == "proving ..."
    assert last_line(capsys) == ""
    phase("reading b.csv")
    assert capsys.readouterr().err == ""


def test_nothing_is_displayed_where_nobody_looks(at, monkeypatch, capsys):
    with progress(True) as bar:
        phase("reading")
    assert bar is None
    at(80)
    with progress(False) as bar:
        phase("reading")
    assert bar is None
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("seconds", "shown"), [(0.2, "0:00"), (59.6, "1:00"), (3600, "1:00:00")])
def test_times_are_those_of_a_clock(seconds, shown):
    assert minutes(seconds) == shown


# ---- tables --------------------------------------------------------------------------------------

NAMES = ["bce+linear", "bce+text:model=a-network-with-a-very-long-name-indeed"]
WIDE = [["candidate", *(f"metric{i}" for i in range(12))]]
WIDE += [[name, *["0.123+"] * 12] for name in NAMES]
NOTED = [
    ["metric", "value", ""],
    ["nll", "-", "no probabilities: fit a map with labelset calibrate"],
]


def test_a_table_is_aligned_and_shows_no_escape_codes():
    shown = table([["name", "f1"], ["a\x07", "0.5"], ["grain", "10"]])
    assert shown == "name    f1\na\\x07  0.5\ngrain   10"


@pytest.mark.parametrize("columns", [40, 60, 80, 140, 200])
@pytest.mark.parametrize(("rows", "left"), [(WIDE, (0,)), (NOTED, (0, 2)), (WIDE, (0, 1, 12))])
def test_a_table_fits_the_terminal(columns, rows, left, at):
    at(columns)
    assert max(map(len, table(rows, left).split("\n"))) < columns


def test_in_a_pipe_a_table_is_whole():
    assert max(map(len, table(WIDE).split("\n"))) > 140


def test_the_last_columns_go_first_and_are_named(at):
    at(60)
    *rows, below, names = table(WIDE).split("\n")
    assert [len(row.split()) for row in rows] == [4, 4, 4]
    assert rows[0].split() == ["candidate", "metric0", "metric1", "metric2"]
    assert f"{below} {names}".startswith("(no room for metric3, metric4, ")
    at(140)
    assert "metric11" in table(WIDE).split("\n")[0]


def test_notes_go_on_below_themselves(at):
    at(50)
    assert table(NOTED, (0, 2)).split("\n") == [
        "metric  value",
        "nll         -  no probabilities: fit a map with",
        "               labelset calibrate",
    ]


def test_a_marked_row_is_bold_where_colours_are_welcome(at, monkeypatch):
    rows = [["name", "f1"], ["a", "1"], ["b", "2"]]
    assert table(rows, marked=2) == table(rows)
    at(60)
    assert table(rows, marked=2).split("\n")[1:] == ["a      1", "\x1b[1mb      2\x1b[0m"]
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert styled("x", "1") == "x"


def test_sentences_are_broken_between_words(at):
    sentence = "one-two three " * 20
    assert wrapped(sentence) == sentence
    at(60)
    lines = wrapped(sentence).split("\n")
    assert max(map(len, lines)) < 60
    assert {word for line in lines for word in line.split()} == {"one-two", "three"}


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_what_follows_a_name_stays_in_its_column(columns, at):
    at(columns)
    line = "commonest       " + ", ".join(f"label {i}" for i in range(40))
    shown = wrapped(f"{line}\n  remedy: {'fit a rule, ' * 20}\nshort").split("\n")
    assert max(map(len, shown)) < columns
    assert shown[0].startswith("commonest       label 0")
    assert shown[1].startswith(" " * 16)
    assert shown[1][16] != " "
    remedy = next(i for i, text in enumerate(shown) if text.startswith("  remedy"))
    assert shown[remedy + 1].startswith("    ")
    assert not shown[remedy + 1].startswith("     ")
    assert shown[-1] == "short"
    assert " ".join(" ".join(shown).split()) == " ".join(
        f"{line} remedy: {'fit a rule, ' * 20} short".split()
    )
