"""Texts of labels: what names say, what a file may say, and the ranking that they give."""

import logging
import random

import pytest
import torch

import labelset
from labelset.cli import main
from labelset.data import Dataset
from labelset.metrics import build
from labelset.model import SavedModel
from labelset.runs import Plan, choose_model, compare, read_label_texts, search
from labelset.runs.families import FAMILIES
from labelset.sklearn import MultiLabelClassifier

NAMES = ["kind::walnut", "kind::saffron", "kind::harbour", "useFor:lantern", "useFor:gravel"]
WORDS = ["walnut", "saffron", "harbour", "lantern", "gravel"]
OTHERS = ["we", "saw", "some", "people", "went", "over", "there", "with", "their", "things", "late"]
FEW = {1: 0, 2: 1, 4: 3}
"""Label -> its positives among the training rows; the others have as many as there are."""
LOSS = "squared-hinge"
KEY = f"{LOSS}+label-names"


def rows(names=NAMES):
    """Texts that have a word of a label where it is on, mostly, and seldom where it is off."""
    draw = random.Random(0)
    texts, labels = [], []
    left = dict(FEW)
    for row in range(240):
        on = {label for label in range(5) if draw.random() < 0.15}
        if row < 140:
            on = {label for label in on if left.get(label, 99) > 0}
            left = {label: count - (label in on) for label, count in left.items()}
        said = {label for label in range(5) if draw.random() < (0.95 if label in on else 0.01)}
        words = [draw.choice(OTHERS) for _ in range(12)] + [WORDS[label] for label in sorted(said)]
        draw.shuffle(words)
        texts.append(" ".join(words))
        labels.append([label in on for label in range(5)])
    split = [0] * 140 + [2] * 100
    return Dataset.from_arrays(None, labels, texts=texts, names=names, split=split)


def each(run, labels=range(5)):
    """Average precision on the test rows of each label, and how often it is on."""
    part = run.splits["test"]
    y, mean = part.labels.dense(), build("map@class")
    return {j: (mean(part.scores[:, [j]], y[:, [j]]), float(y[:, j].mean())) for j in labels}


@pytest.fixture(scope="module", autouse=True)
def _few_families():
    """What is slower has no part in this."""
    with pytest.MonkeyPatch.context() as patch:
        families = {name: FAMILIES[name] for name in ("frequency", "linear", "label-names")}
        patch.setattr(search, "FAMILIES", families)
        yield


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    plan = Plan(losses=(LOSS,), baseline=LOSS, optimise="map@class")
    return compare(rows(), plan, tmp_path_factory.mktemp("named") / "run")


def test_names_rank_rows_for_labels_without_positives(found):
    named, plain = each(found.run(KEY)), each(found.run(f"{LOSS}+linear"))
    assert int(rows().part("train").labels.T.counts()[1]) == 0
    for label in FEW:
        value, floor = named[label]
        assert value > 4 * floor, label
        assert value > 0.7, label
    assert plain[1][0] < 0.5
    for label in (0, 3):  # whose rows say it all
        assert named[label][0] > plain[label][0] - 0.02


def test_labels_with_many_positives_are_those_of_the_plain_head(found, monkeypatch, tmp_path):
    monkeypatch.setattr("labelset.runs.label_text.RARE", 5)
    answer = compare(rows(), found.plan, tmp_path / "r")
    heads = (answer.run(key).head for key in (KEY, f"{LOSS}+linear"))
    named, plain = (head.requires_grad_(False).classifier for head in heads)
    often = [j for j in range(5) if j not in FEW]
    assert torch.equal(named.weight[often], plain.weight[often])
    assert torch.equal(named.bias[often], plain.bias[often])
    for label in FEW:
        assert float((named.weight[label] - plain.weight[label]).abs().max()) > 0.1


def test_it_is_a_linear_head_that_is_saved_and_predicts(found):
    assert found.best == KEY
    assert "a linear head that begins at label names" in found.recommendation
    run, test = SavedModel.open(found.out), rows().part("test")
    assert run.head is not None
    assert run.head.name == "linear"
    assert torch.equal(run.score(test), run.splits["test"].scores)


def test_stopped_half_way_it_goes_on_to_the_same_end(found, tmp_path):
    def stop(task, news):
        if task.key == f"{LOSS}+linear":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(rows(), found.plan, tmp_path / "r", progress=stop)
    again = compare(rows(), found.plan, tmp_path / "r", resume=True)
    assert again.rows == found.rows


@pytest.mark.parametrize(
    "names", [["L0", "L1", "L2", "L3", "L4"], [f"label_{i}" for i in range(5)]]
)
def test_names_that_are_no_words_serve_nobody(names):
    choice = choose_model(rows(names), Plan(losses=(LOSS,), baseline=LOSS, optimise="map@class"))
    assert KEY not in {candidate.name for candidate in choice.candidates}


def test_texts_that_are_given_take_the_place_of_names(caplog):
    names, y = ["L0", "L1", "L2", "L3", "L4"], rows().labels.dense()
    texts = dict(zip(names[:4], WORDS, strict=False))
    data = rows(names)
    with caplog.at_level(logging.WARNING):
        answer = labelset.compare(
            data.texts, y, names=names, split=data.split, losses=[LOSS], label_texts=texts
        )
    assert "1 of 5 labels have no text, so that their names serve: L4" in caplog.text
    named = next(task.key for task in answer.tasks if task.head == "label-names")
    assert each(answer.run(named))[1][0] > 0.7
    model = MultiLabelClassifier(model="auto", label_texts={"1": "walnut"}, time_budget=20)
    model.fit(data.texts[:140], y[:140].numpy())
    assert any("label-names" in one["candidate"] for one in model.search_["candidates"])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"kind::walnuts": "nuts"}, "no label is called so: did you mean 'kind::walnut'"),
        ({"kind::walnut": " "}, "the text of label 'kind::walnut' is empty"),
        ({"kind::walnut": 3}, "the text of label 'kind::walnut' must be a string, got int"),
    ],
)
def test_texts_that_are_wrong_are_named(texts, message):
    with pytest.raises((TypeError, ValueError), match=message):
        choose_model(rows(), Plan(label_texts=texts))


def test_rows_without_texts_are_like_no_text_of_a_label(tmp_path):
    data = Dataset.from_arrays(torch.randn(40, 3), torch.rand(40, 2) < 0.4, names=["a", "b"])
    plan = Plan(label_texts={"a": "walnuts"})
    with pytest.raises(ValueError, match="the rows have none that could be like them"):
        choose_model(data, plan)
    with pytest.raises(ValueError, match="leave them out, or what asks for training by epochs"):
        compare(data, Plan(seeds=1, label_texts={"a": "walnuts"}), tmp_path / "r")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,red"], r"line 1: expected the heading label,text, got 'a,red'"),
        (["label,text", "a,red", "a,blue"], r"line 3: label 'a' has a text already"),
        (["label,text", "a, "], r"line 2: the text of label 'a' is empty"),
        (["label,text", "a,red, and blue"], r"line 2: .*got 3 cells; put quotes around a text"),
        (["label,text"], "has no texts of labels, only a heading"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_its_line(tmp_path, lines, message):
    path = tmp_path / "texts.csv"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=message):
        read_label_texts(path)


def test_on_the_command_line(tmp_path, capsys):
    data = rows(["L0", "L1", "L2", "L3", "L4"])
    lines = ["text,labels,split"]
    for i, (text, labels) in enumerate(zip(data.texts, data.labels.dense(), strict=True)):
        on = "|".join(data.names[j] for j in labels.nonzero().flatten())
        lines.append(f"{text},{on},{'train' if i < 140 else 'test'}")
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    texts = ["label,description", *(f'L{i},"{word}, more"' for i, word in enumerate(WORDS))]
    (tmp_path / "texts.csv").write_text("\n".join(texts))
    command = ["compare", str(tmp_path / "rows.csv"), "--losses", LOSS, "--quiet"]
    out = ["--out", str(tmp_path / "run"), "--label-text", str(tmp_path / "texts.csv")]
    assert main([*command, *out]) == 0
    assert "+label-names" in capsys.readouterr().out
