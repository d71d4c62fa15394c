"""Tables from files, and what is wrong with them; stages; figures; ranks; special numbers."""

import re
import shlex
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch

from labelset import losses, retrieve
from labelset.heads.dft import DFT
from labelset.heads.linear import Linear
from labelset.labels import Labels
from labelset.metrics import build
from labelset.runs import draws
from labelset_studies import Candidate, cli, read_table, read_tables
from labelset_studies._figure import figure
from labelset_studies._ranking import ranks
from labelset_studies._read import Results
from labelset_studies._scored import Scored
from labelset_studies._special import epochs_to_loss, expressible, parameters, queries
from labelset_studies._start import start

ROOT = Path(__file__).parents[2]
HEAD = 'claim = 1\ntitle = "t"\nsource = "s"\nmetrics = ["raw map@class"]\n'
TWO = '[[candidates]]\nname = "bce"\n[[candidates]]\nname = "asl"\n'


def table(tmp_path, text):
    path = tmp_path / "table.toml"
    path.write_text(text)
    return read_table(path)


def test_the_tables_of_the_project_can_be_read():
    tables = read_tables([ROOT / "studies" / "tables"])
    assert {one.claim for one in tables} == {1, 2, 3, 4, 5, 6}
    for one in tables:
        assert one.data["short"]
        assert set(one.data["short"]) <= set(one.data["long"]) | {"hallmarks_cancer"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (HEAD + TWO + "colour = 1", "a candidate has no 'colour'"),
        (HEAD.replace("claim", "clam") + TWO, "did you mean|claim"),
        (HEAD + TWO + TWO, "is there twice"),
        (HEAD + '[[candidates]]\nname = "bcee"', "bce"),
        (HEAD.replace("raw map", "raw mop") + TWO, "map@class"),
        (HEAD.replace("raw ", "") + TWO, "with its stage"),
        (
            HEAD + TWO + '[[expect]]\nsays="x"\nbetter="bce"\nthan="hill"\nmetrics="raw map@class"',
            "'hill' is no candidate",
        ),
        (
            HEAD + TWO + '[[expect]]\nsays="x"\nbetter="bce"\nthan="asl"\nmetrics="raw map@sample"',
            "not among the metrics",
        ),
        (HEAD + TWO + '[[expect]]\nsays="x"\nbetter="bce"\nmetrics="raw map@class"', "nobody"),
        (
            HEAD + 'choose = "raw map@class"\n[tries]\nall = [{}]\nasl = [{}, {}]\n' + TWO,
            "of one length",
        ),
        (HEAD + "[tries]\nall = [{}]\n" + TWO, "choose"),
        (HEAD, "'candidates' is missing"),
    ],
)
def test_a_bad_table_says_what_is_wrong(tmp_path, text, why):
    with pytest.raises(ValueError, match=why) as caught:
        table(tmp_path, text)
    assert "table.toml" in str(caught.value)


def test_no_tables_and_no_file(tmp_path):
    with pytest.raises(ValueError, match="no table"):
        read_tables([tmp_path])
    with pytest.raises(ValueError, match="no such file"):
        read_tables([tmp_path / "x.toml"])


# ---- stages -------------------------------------------------------------------------------------


def scored(name, **settings):
    g = torch.Generator().manual_seed(0)
    y = Labels.from_dense((torch.rand(60, 3, generator=g) < 0.4).float())
    v = {part: torch.randn(60, 3, generator=g) + y.dense() for part in ("valid", "test")}
    return Scored(losses.build(name, **settings), v, {"valid": y, "test": y})


def test_stages_are_what_they_say():
    asl = scored("asl")
    v = asl.scores["test"]
    assert asl.given("raw", "map@class", "test") is v
    assert torch.equal(asl.given("sigmoid", "ace", "test"), torch.sigmoid(v))
    assert torch.equal(asl.given("link", "ace", "test"), losses.build("asl").link(v))
    assert torch.equal(asl.given("own", "f1-micro", "test").dense() > 0, asl.loss.link(v) > 0.5)
    f1 = scored("sigmoid-f1", eta=1.0)
    assert torch.equal(f1.given("own", "f1-micro", "test").dense() > 0, f1.scores["test"] > -1)
    assert torch.equal(f1.given("sigmoid", "f1-micro", "test").dense() > 0, f1.scores["test"] > 0)


def test_tuned_thresholds_are_no_worse_where_they_were_tuned():
    bce = scored("bce")
    for name in ("f1-micro", "f1-macro", "f1-weighted", "cf1", "of1"):
        y = bce.labels["valid"]
        tuned, fixed = (build(name)(bce.given(s, name, "valid"), y) for s in ("own/tuned", "own"))
        assert tuned >= fixed


# ---- special numbers ----------------------------------------------------------------------------


def test_what_a_head_can_say():
    flat = Linear(features=4, labels=12, rank=1, bias=False)
    y = Labels.from_dense((torch.rand(30, 12) < 0.3).float())
    said = expressible(flat, y, "cpu", seconds=5.0)
    assert said["expressible"] + said["unsayable"] == 1.0
    assert said["unsayable"] > 0.5  # one number sorts the labels once, or the other way round
    wide = Linear(features=12, labels=3)
    assert expressible(wide, torch.ones(2, 3), "cpu", seconds=5.0)["expressible"] == 1.0
    waves = DFT(features=4, labels=12, k=3, slack=2)
    few = Labels.from_lists([[0], [3, 7, 11], [1, 2]], n=12)
    assert expressible(waves, few, "cpu", seconds=5.0)["expressible"] == 1.0
    assert parameters(flat) == 4 + 1 + 12


def test_epochs_to_loss_by_hand():
    y = Labels.from_dense([[1.0, 0.0], [0.0, 0.0]])  # (log 2 + 0) / 2 = 0.3466; times 0.9: 0.312
    assert epochs_to_loss([{"loss": 0.32}, {"loss": 0.31}], y) == 2.0
    assert epochs_to_loss([{"loss": 0.32}], y) == 2.0  # never: one more than there were


def test_biases_start_at_the_best_constant_of_the_loss():
    share = torch.tensor([0.03, 0.2, 0.6])

    def started(name, kind="own"):
        head = Linear(features=2, labels=3)
        with torch.no_grad():
            head.classifier.bias.copy_(torch.logit(share))
        start(head, losses.build(name), kind)
        return head.classifier.bias.detach()

    for name in ("bce", "spa", "asl", "focal", "wan"):
        assert torch.allclose(losses.build(name).link(started(name)[None])[0], share, atol=0.01)
    # splc is its base in the first epoch; hill has no link, and still a best constant
    assert torch.equal(started("splc"), started("focal-margin"))
    y = (torch.arange(1000)[:, None] < 1000 * share).float()
    hill, best = losses.build("hill"), started("hill")
    for shift in (-0.2, 0.2):
        assert hill(best.expand(1000, 3), y) < hill((best + shift).expand(1000, 3), y)
    assert torch.equal(started("two-way"), torch.logit(share))
    assert torch.equal(started("spa", "frequencies"), torch.logit(share))
    assert not started("spa", "zero").any()


def test_queries_and_their_resamples():
    asl = scored("asl")
    p, y = asl.probabilities("link", "test"), asl.labels["test"]
    found = queries(p, y, 3, 1000, draws(len(y), 60, seed=0))
    whole = retrieve.evaluate(p, y, most=3, queries=1000)
    assert [found[g.length][0] for g in whole.by_length] == [g.map for g in whole.by_length]
    for value, drawn in found.values():
        assert len(drawn) == 50
        assert abs(float(drawn.nanmean()) - value) < 0.05
        assert 0.001 < float(drawn.std()) < 0.2
    same = queries(p, y, 3, 1000, torch.ones(2, len(y)))
    assert all(torch.allclose(drawn, torch.tensor(v).double()) for v, drawn in same.values())


# ---- figures, ranks, the command ----------------------------------------------------------------


def results(tables, values):
    return Results(tables, values, [], {}, [], {})


def test_a_figure_goes_through_its_points(tmp_path):
    text = HEAD + 'figure = { x = "gamma", metrics = ["raw map@class"] }\n'
    text += '[[candidates]]\nname = "focal"\nvary = { "settings.gamma" = [1, 2, 3] }\n'
    one = table(tmp_path, text)
    names = [c.name for c in one.candidates]
    values = {
        (one.name, "d", n, "raw map@class"): [y]
        for n, y in zip(names, (0.2, 0.4, 0.3), strict=True)
    }
    (drawn,) = figure(results([one], values), one)
    ElementTree.fromstring(drawn)
    assert "nan" not in drawn
    assert "inf" not in drawn
    assert figure(results([one], {}), one) == []
    more = {(t, f"d{i}", n, m): y for i in range(5) for (t, _, n, m), y in values.items()}
    rows = figure(results([one], more), one)
    assert [sum(f">d{i} " in row for i in range(5)) for row in rows] == [4, 1]  # none is dropped


def test_ranks_by_hand(tmp_path):
    text = HEAD.replace('"raw map@class"', '"raw map@class", "sigmoid ace", "link ace"') + TWO
    one = table(tmp_path, text)
    values = {
        **{(one.name, d, "bce", "sigmoid ace"): [v] for d, v in (("x", 0.1), ("y", 0.2))},
        **{(one.name, d, "asl", "sigmoid ace"): [v] for d, v in (("x", 0.3), ("y", 0.3))},
        **{(one.name, d, "asl", "link ace"): [v] for d, v in (("x", 0.2), ("y", 0.2))},
        (one.name, "x", "bce", "link ace"): [0.0],  # not on y: left out
    }
    found = ranks(results([one], values), one, "ace")
    assert [(name, stage, rank) for name, stage, rank, _ in found] == [
        ("bce", "sigmoid", 1.25),
        ("asl", "link", 1.75),
        ("asl", "sigmoid", 3.0),
    ]


def test_a_candidate_with_pairs_keeps_the_link_of_its_loss():
    v = torch.tensor([[0.3, -2.0]])
    with_pairs = Candidate(name="x", loss="asl", lpr=1.0).build_loss()
    assert torch.equal(with_pairs.link(v), losses.build("asl").link(v))


def test_the_command(tmp_path, capsys):
    import numpy as np

    x = np.random.default_rng(0).normal(size=(90, 4)).astype("float32")
    np.savez(tmp_path / "d.npz", X=x, Y=(x[:, :2] > 0.3).astype("uint8"))
    expect = '[[expect]]\nsays="s"\nbetter="bce"\nthan="asl"\nmetrics="raw map@class"'
    (tmp_path / "t.toml").write_text(HEAD + 'data = { short = ["d"] }\n' + TWO + expect)

    def studies(*given, status=0):
        assert cli.main([str(tmp_path / "t.toml"), *given]) == status
        said = capsys.readouterr()
        return said.err if status else said.out

    common = ("--data", str(tmp_path), "--out", str(tmp_path / "run"), "--jobs", "1")
    assert "about" in studies(*common, "--dry-run")
    assert not (tmp_path / "run").exists()
    assert "claim 1" in studies(*common, "--quiet", "--page", str(tmp_path / "page.md"))
    first = (tmp_path / "page.md").read_text()
    assert "--resume" in studies(*common, status=2)
    studies(*common, "--quiet", "--resume")
    studies(*common, "--report-only", "--page", str(tmp_path / "page.md"))
    assert (tmp_path / "page.md").read_text() == first
    nowhere = ("--data", str(tmp_path / "nowhere"), "--out", str(tmp_path / "other"))
    assert "a folder of data sets" in studies(*nowhere, status=2)


def test_the_commands_of_the_page_are_ones_that_there_are():
    page = (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
    lines = re.findall(r"^labelset-studies .*$", page, flags=re.M)
    assert len(lines) == 4
    for line in lines:
        _, *argv = shlex.split(line, comments=True)
        assert cli.parser().parse_args(argv).tables == ["studies/tables"]
        assert (ROOT / "studies" / "tables").is_dir()
