"""The command line: what it prints, and how it fails."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from labelset import __version__, heads, losses
from labelset.cli import main
from labelset.cli.list import KINDS
from labelset.proofs import Verification


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


def test_list_shows_what_any_entry_is_and_takes(capsys):
    assert main(["list", "top-k", "--kind", "rules"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# `top-k`\n\nThe k largest probabilities")
    assert "| `k` |  | how many labels are on in each row |" in out
    assert ">>>" not in out


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


@pytest.mark.parametrize("kind", KINDS)
def test_list_takes_a_kind_or_any_name_of_it(kind, capsys):
    assert main(["list", kind]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == KINDS[kind].names()
    for name in names:
        assert main(["list", name]) == 0
        assert capsys.readouterr().out.startswith(f"# `{name}`")
        assert main(["list", name, "--kind", kind, "--json"]) == 0
        assert list(json.loads(capsys.readouterr().out)) == [name]


def test_a_wrong_verb_gets_a_suggestion(capsys):
    with pytest.raises(SystemExit):
        main(["comprae", "a.csv"])
    assert "no verb is called 'comprae': did you mean 'compare'?" in capsys.readouterr().err


def test_a_folder_that_does_not_exist_is_called_so(tmp_path, capsys):
    assert main(["evaluate", str(tmp_path / "nothere")]) == 2
    assert "there is no such folder" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [[], ["lsit"], ["list", "--nope"]])
def test_wrong_usage_is_status_two(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "--help" in err


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


# ---- verify --------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    weight = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    np.savez(tmp_path / "m.npz", W=weight)
    save_file({"fc.weight": torch.from_numpy(weight)}, tmp_path / "m.safetensors")
    names = ["fork", "<b>apple</b>", "kni\x1bfe"]
    np.savez(tmp_path / "y.npz", Y=[[1, 1, 1], [1, 1, 0]], label_names=names, split=[0, 2])
    return tmp_path


@pytest.mark.parametrize("model", ["m.npz", "m.safetensors"])
def test_verify_prints_a_table_and_writes_proofs(files, model, capsys):
    out = files / "v.json"
    argv = ["verify", str(files / model), str(files / "y.npz"), "--check", "--eps", "0.1"]
    assert main([*argv, "--out", str(out)]) == 1
    text = capsys.readouterr().out
    assert "unargmaxable          1   50.00%" in text
    assert "{fork, <b>apple</b>}" in text
    assert "\x1b" not in text
    assert "every proof checked again" in text
    assert "rho >= 0.1: yes 1, no 1" in text
    assert Verification.load(out, np.load(files / "m.npz")["W"]).status.tolist() == [
        "argmaxable",
        "unargmaxable",
    ]


def test_verify_as_json_for_one_split(files, capsys):
    argv = ["verify", str(files / "m.npz"), str(files / "y.npz"), "--split", "0", "--json"]
    assert main(argv) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["argmaxable"] == 1


def test_verify_reads_the_head_it_saved(files, capsys):
    head = heads.build("dft", features=3, labels=7, k=2)
    heads.save(head, files / "head.safetensors")
    np.save(files / "y.npy", np.eye(7))
    assert main(["verify", str(files / "head.safetensors"), str(files / "y.npy")]) == 0
    assert "7 labels, 5 features" in capsys.readouterr().out


WRONG = {
    "no such file": ["none.npz", "y.npz"],
    "cannot read .txt": ["m.txt", "y.npz"],
    "damaged or not a .npz": ["bad.npz", "y.npz"],
    "damaged or not a .safetensors": ["bad.safetensors", "y.npz"],
    "which of A, B is it": ["two.npz", "y.npz"],
    "no entry 'C'": ["two.npz", "y.npz", "--weight", "C"],
    "the weights have 2 labels, the label sets 3": ["two.npz", "y.npz", "--weight", "A"],
    "has no splits": ["m.npz", "y.npy", "--split", "1"],
    "weights must be finite": ["nan.npz", "y.npz"],
    "cannot write to": ["m.npz", "y.npz", "--out", "/nonexistent/folder/o.json"],
    "--most must be at least 0": ["m.npz", "y.npz", "--most", "-1"],
    "eps must be": ["m.npz", "y.npz", "--eps", "nan"],
    "device must be 'cpu' or 'cuda'": ["m.npz", "y.npz", "--device", "meta"],
    "has 1 entries in label_names for 3": ["m.npz", "few.npz"],
    "has 1 entries in split for 2": ["m.npz", "short.npz"],
    "must be a list of label numbers": ["m.npz", "null.jsonl"],
    "does not hold the head it says": ["forged.safetensors", "y.npz"],
}


@pytest.mark.parametrize("message", WRONG)
def test_verify_fails_with_one_line(files, message, capsys):
    for name in ("m.txt", "bad.npz", "bad.safetensors"):
        (files / name).write_bytes(b"nonsense")
    np.savez(files / "two.npz", A=np.eye(2), B=np.eye(3))
    np.savez(files / "nan.npz", W=np.full((3, 2), np.nan))
    np.save(files / "y.npy", np.eye(3))
    np.savez(files / "few.npz", Y=np.eye(3), label_names=["a"])
    np.savez(files / "short.npz", Y=[[1, 0, 0], [0, 1, 0]], split=[0])
    (files / "null.jsonl").write_text('{"labels": null}\n')
    save_file({"a": torch.eye(2)}, files / "forged.safetensors", metadata={"labelset.head": "{}"})
    model, labels, *rest = WRONG[message]
    assert main(["verify", str(files / model), str(files / labels), *rest]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err
