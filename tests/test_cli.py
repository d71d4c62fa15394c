"""The command line: what it prints, and how it fails."""

import json

import pytest

from labelset import __version__, losses
from labelset.cli import main


def test_list_names_every_loss(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == losses.names()
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize("name", losses.names())
def test_list_shows_a_page(name, capsys):
    assert main(["list", name]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"# `{name}`")
    assert "## Hyperparameters" in out


def test_list_as_json(capsys):
    assert main(["list", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["asl"]["hyperparameters"]["gamma_neg"] == 4.0
    assert main(["list", "spa", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["spa"]


def test_a_wrong_name_is_one_line_and_status_two(capsys):
    assert main(["list", "sppa"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "did you mean 'spa'" in err


@pytest.mark.parametrize("argv", [[], ["lsit"], ["list", "--nope"]])
def test_wrong_usage_is_status_two(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    assert "usage: labelset" in capsys.readouterr().err


def test_version_and_help(capsys):
    for argv, word in (
        (["--version"], __version__),
        (["--help"], "list"),
        (["list", "-h"], "JSON"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(argv)
        assert stop.value.code == 0
        assert word in capsys.readouterr().out
