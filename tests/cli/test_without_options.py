"""A table without options: its columns are guessed, said, remembered; or asked for."""

import csv
import json
import shlex

import pytest

from labelset.cli import main
from labelset.data import Doubtful, load

TOPICS = ("sport", "money", "travel")
WORDS = {
    "sport": "the team won its match",
    "money": "shares fell on the market",
    "travel": "a trip to the sea",
}


def articles(path, separator=",", delimiter=";", names=("key", "day", "body", "topics", "part")):
    """Rows with an id, a date, a text, topics and a part."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file, delimiter=separator)
        rows.writerow(names)
        for i in range(120):
            on = [t for bit, t in enumerate(TOPICS) if (i + 1) % 8 >> bit & 1]
            body = " and ".join([f"number {i} in the news", *(WORDS[t] for t in on)])
            part = ("train", "train", "train", "valid", "test")[i // 8 % 5]
            rows.writerow([f"r{i:03}", f"2024-0{i % 9 + 1}-11", body, delimiter.join(on), part])
    return path


@pytest.mark.parametrize(("separator", "delimiter"), [(",", ";"), (";", "|"), ("\t", ",")])
def test_a_table_is_read_without_options(tmp_path, separator, delimiter):
    data = load(articles(tmp_path / "a.csv", separator, delimiter))
    assert set(data.names) == set(TOPICS)
    assert data.texts[0].startswith("number 0")
    assert (data.ids[0], data.sizes()) == ("r000", (72, 24, 24))
    assert data.card["guess"]["keys"]["delimiter"] == delimiter


def test_what_was_guessed_is_said_and_remembered(tmp_path, capsys):
    path, out = articles(tmp_path / "a.csv", ";", "|"), str(tmp_path / "run")
    command = ["compare", str(path), "--losses", "bce", "--seeds", "1", "--epochs", "2"]
    assert main([*command, "--out", out]) == 0
    said = capsys.readouterr().err
    for key in ("separator=;", "text_column=body", "label_column=topics", "id_column=key"):
        assert key in said
    assert "--data KEY=VALUE" in said
    assert main(["predict", out, str(path)]) == 0
    row = json.loads(capsys.readouterr().out.splitlines()[5])
    assert row["id"] == "r005"


def test_a_doubt_stops_with_commands_that_settle_it(tmp_path, capsys):
    path = tmp_path / "a.csv"
    with articles(path).open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    with path.open("w", newline="") as file:  # two columns of lists, neither called labels
        two = [[row[0], row[2], row[3], row[3]] for row in rows]
        csv.writer(file).writerows([["key", "body", "one", "two"], *two])
    command = ["train", str(path), "--epochs", "1", "--out", str(tmp_path / "run"), "--quiet"]
    assert main(command) == 2
    assert not (tmp_path / "run").exists()
    said = capsys.readouterr().err
    ready = [
        line.strip() for line in said.splitlines() if line.strip().startswith("labelset train")
    ]
    assert len(ready) >= 2
    assert main(shlex.split(ready[0])[1:]) == 0
    with pytest.raises(Doubtful, match="label_column=one") as caught:
        load(path)
    assert caught.value.guess.doubts
    capsys.readouterr()
    assert main(["data", "inspect", str(path)]) == 2
    said = capsys.readouterr()
    assert "label list" in said.out
    assert "labelset data inspect" in said.err


def test_inspect_lists_columns_the_guess_and_common_labels(tmp_path, capsys):
    path = articles(tmp_path / "a.csv")
    assert main(["data", "inspect", str(path)]) == 0
    said = capsys.readouterr().out
    for words in ("day     date", "dates such as", "delimiter=;", "commonest       money 60"):
        assert words in said
    assert main(["data", "inspect", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["common"] == dict.fromkeys(TOPICS, 60)
    kinds = {column["name"]: column["kind"] for column in report["guess"]["columns"]}
    assert kinds["topics"] == "label list"
    assert report["guess"]["reasons"]["split_column"].startswith("train 72")


def test_cells_with_lists_are_lists(tmp_path):
    path = tmp_path / "a.csv"
    for write in (json.dumps, repr):
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["text", "tags"])
            rows.writerows(
                [f"text number {i} is here", write(["a", "b|c"][: i % 3])] for i in range(9)
            )
        data = load(path, text_column="text", label_column="tags")
        assert data.names == ["a", "b|c"]
        assert data.labels.counts().tolist() == [0, 1, 2] * 3


def test_objects_with_names_are_labels(tmp_path):
    """Film tables list genres so; half of them as JSON, half as Python prints it."""
    genres = [[{"id": at, "name": name} for at, name in enumerate("abc") if i >> at & 1]
              for i in range(40)]  # fmt: skip
    texts = [f"a story of number {i} and its many friends" for i in range(40)]
    for write in (json.dumps, repr):
        with (tmp_path / "films.csv").open("w", newline="") as file:
            csv.writer(file).writerows(
                [("overview", "genres"), *zip(texts, map(write, genres), strict=True)]
            )
        data = load(tmp_path / "films.csv")
        assert data.names == ["a", "b", "c"]
        assert data.labels.counts()[:9].tolist() == [0, 1, 1, 2, 1, 2, 2, 3, 0]
        bare = write([{"key": 1}])
        with (tmp_path / "bare.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("overview", "genres"), *((t, bare) for t in texts)])
        with pytest.raises(Doubtful, match="no column looks like labels"):
            load(tmp_path / "bare.csv")
    with (tmp_path / "films.jsonl").open("w") as file:
        for text, named in zip(texts, genres, strict=True):
            file.write(json.dumps({"text": text, "labels": named}) + "\n")
    assert load(tmp_path / "films.jsonl").names == ["a", "b", "c"]
    arrow, parquet = (pytest.importorskip(f"pyarrow{m}") for m in ("", ".parquet"))
    kind = arrow.list_(arrow.struct([("id", arrow.int64()), ("name", arrow.string())]))
    table = arrow.table({"overview": texts, "genres": arrow.array(genres, kind)})
    parquet.write_table(table, tmp_path / "films.parquet")
    assert load(tmp_path / "films.parquet").names == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('a,b\n"unclosed,2\n3,4\n', "line 2: a quote that opens in this row is never closed"),
        ("a,b\rx,2\ry,4\r", "line 1: a line ends in a carriage return alone"),
    ],
)
def test_a_damaged_table_is_named_before_it_is_guessed(tmp_path, capsys, text, said):
    (tmp_path / "a.csv").write_bytes(text.encode())
    assert main(["data", "inspect", str(tmp_path / "a.csv")]) == 2
    assert said in capsys.readouterr().err


def test_numbered_chinese_texts_are_texts(tmp_path):
    rows = [f"{i},今天天气很好我们去公园{i},{'体育|新闻' if i % 2 else '财经'}" for i in range(30)]
    (tmp_path / "a.csv").write_text("编号,文本,标签\n" + "\n".join(rows) + "\n", encoding="utf-8")
    data = load(tmp_path / "a.csv")
    assert data.texts[3] == "今天天气很好我们去公园3"
    assert set(data.names) == {"体育", "新闻", "财经"}


def test_an_id_with_a_point_is_an_id_and_no_feature(tmp_path):
    rows = [f"0704.{i:04},{i % 7}.5,{i % 2},{i % 3 // 2}" for i in range(30)]
    (tmp_path / "a.csv").write_text("id,x,on,off\n" + "\n".join(rows) + "\n")
    data = load(tmp_path / "a.csv")
    assert data.features.shape == (30, 1)
    assert data.ids[3] == "0704.0003"


def test_the_command_for_a_short_text_names_it_once(tmp_path):
    (tmp_path / "a.csv").write_text("body,tags\n" + "one,a|b\ntwo,a\none,b\nthree,a|b\n" * 2)
    with pytest.raises(Doubtful) as doubtful:
        load(tmp_path / "a.csv")
    guess = doubtful.value.guess
    assert "ignore_columns" in guess.flags()
    (answer,) = guess.doubts[-1].answers
    assert guess.flags(answer).endswith("--data text_column=body")
    assert "ignore_columns" not in guess.flags(answer)


def test_names_that_hold_a_separator_are_doubted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,tags\none text,red;blue\nanother text,green\na third,red;blue\n")
    data = load(path, text_column="text", label_column="tags", delimiter="|")
    assert any("'red;blue' holds ';'" in note for note in data.card["notes"])
    assert "delimiter=;" in data.card["notes"][-1]


def test_the_same_id_in_two_parts_is_a_leak(tmp_path, capsys):
    path = tmp_path / "a.csv"
    rows = [
        f"k{i % 6},text number {i},{'ab'[i % 2]},{'train' if i < 6 else 'test'}" for i in range(9)
    ]
    path.write_text("id,text,tags,part\n" + "\n".join(rows) + "\n")
    keys = ("text_column=text", "label_column=tags", "id_column=id", "split_column=part")
    assert main(["data", "inspect", str(path), *(w for k in keys for w in ("--data", k))]) == 0
    assert "test in train: 3 rows (100.0%) have the same id" in capsys.readouterr().out
