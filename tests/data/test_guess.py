"""Which columns are what, on tables as people have them; where nobody can know, a doubt."""

from __future__ import annotations

import csv
import io
import random
import shlex
import uuid

import pytest

from labelset.cli.options import settings
from labelset.data import Description
from labelset.data.guess import guess, separator_of
from labelset.data.label_column import alike, punctuated

TOPICS = ["politics", "sport", "economy", "science", "health", "arts", "travel", "weather"]
PHRASES = ["science fiction", "road movie", "film noir", "drama", "comedy", "war", "biography"]
NOUNS = ["river", "market", "player", "virus", "museum", "minister", "storm", "train", "garden"]
VERBS = ["meets", "leaves", "opens", "praises", "fears", "finds", "sells", "paints", "misses"]
CHINESE = "今天的新闻说政府开会讨论经济问题比赛很精彩观众多天气转冷医院增加床位学生参观博物馆"


class Zoo:
    """Made-up cells, the same in every run."""

    def __init__(self, rows: int = 200, seed: int = 0) -> None:
        self.rows, self.random = rows, random.Random(seed)

    def cells(self, make):
        return [make(at) for at in range(self.rows)]

    def texts(self, least=8, most=40):
        r = self.random

        def text(_):
            words = [
                f"the {r.choice(NOUNS)} {r.choice(VERBS)} the {r.choice(NOUNS)}," for _ in "12"
            ]
            while sum(len(w.split()) for w in words) < r.randint(least, most):
                words.append(
                    f"and a {r.choice(NOUNS)} {r.choice(VERBS)} it {r.randint(1, 999)} times;"
                )
            return " ".join(words).strip(",;").capitalize() + "."

        return self.cells(text)

    def sets(self, names=TOPICS, most=4, least=1):
        return self.cells(lambda _: self.random.sample(names, self.random.randint(least, most)))

    def joined(self, mark, **more):
        return [mark.join(labels) for labels in self.sets(**more)]

    def choice(self, values):
        return self.cells(lambda _: self.random.choice(values))

    def floats(self):
        return self.cells(lambda _: f"{self.random.gauss(0, 1):.3f}")

    def bits(self, share=0.2, off="0", on="1"):
        return self.cells(lambda at: on if at == 3 or self.random.random() < share else off)


def table(**columns):
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def guessed(said=None, types=None, separator=",", **columns):
    return guess(*table(**columns), said=said, types=types, separator=separator)


def sure(result):
    assert result.doubts == (), result.doubts
    return result.keys


@pytest.fixture
def zoo():
    return Zoo()


@pytest.mark.parametrize("mark", ["|", ";", ",", ", ", " ; ", "\t"])
def test_tags_between_separators(zoo, mark):
    keys = sure(guessed(body=zoo.texts(), tags=zoo.joined(mark)))
    assert keys == {
        "text_column": "body",
        "label_column": "tags",
        "delimiter": mark.strip() or mark,
    }


@pytest.mark.parametrize("mark", ["|", ";", ","])
def test_lists_are_seen_without_a_name_that_says_so(zoo, mark):
    keys = sure(guessed(body=zoo.texts(), about=zoo.joined(mark)))
    assert (keys["label_column"], keys["delimiter"]) == ("about", mark)


@pytest.mark.parametrize(
    "written",
    [
        lambda labels: "[" + ", ".join(f'"{x}"' for x in labels) + "]",
        lambda labels: str(labels),
        lambda labels: "[" + " ".join(f"'{x}'" for x in labels) + "]",
        lambda labels: "[" + ", ".join(labels) + "]",
    ],
    ids=["json", "python", "numpy", "bare"],
)
def test_lists_as_languages_write_them(zoo, written):
    cells = [written(labels) for labels in zoo.sets(least=0, names=TOPICS)]
    keys = sure(guessed(text=zoo.texts(), labels=cells))
    assert (keys["label_column"], keys["delimiter"]) == ("labels", "list")


def test_lists_of_label_numbers(zoo):
    ids = zoo.sets(names=list(range(28)), most=3)
    text = zoo.texts()
    assert sure(guessed(text=text, labels=list(map(str, ids))))["delimiter"] == "list"
    bare = [",".join(map(str, row)) for row in ids]
    assert sure(guessed(text=text, labels=bare)) == {
        "text_column": "text",
        "label_column": "labels",
        "delimiter": ",",
    }


def test_angle_brackets(zoo):
    cells = ["".join(f"<{x}>" for x in labels) for labels in zoo.sets()]
    keys = sure(guessed(Id=zoo.cells(str), Title=zoo.texts(4, 8), Tags=cells))
    assert keys == {
        "text_column": "Title",
        "label_column": "Tags",
        "delimiter": "<>",
        "id_column": "Id",
    }


def test_toxic_comments(zoo):
    names = ["toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate"]
    labels = {name: zoo.bits(0.05) for name in names}
    labels["threat"] = ["0"] * zoo.rows
    ids = zoo.cells(lambda _: f"{zoo.random.getrandbits(64):016x}")
    keys = sure(guessed(id=ids, comment_text=zoo.texts(), **labels))
    assert keys == {"text_column": "comment_text", "label_columns": names, "id_column": "id"}


@pytest.mark.parametrize(
    ("off", "on"), [("0", "1"), ("no", "yes"), ("False", "True"), ("0.0", "1.0"), ("N", "Y")]
)
def test_label_columns_with_a_prefix(zoo, off, on):
    labels = {f"tag:{name}": zoo.bits(0.3, off, on) for name in TOPICS}
    keys = sure(guessed(abstract=zoo.texts(), **labels, split=zoo.choice(["train", "test"])))
    assert keys == {
        "text_column": "abstract",
        "label_columns": ["tag:*"],
        "split_column": "split",
    }


def test_many_label_columns_at_the_end_are_counted(zoo):
    labels = {word: zoo.bits(0.1) for word in "abcdefghijklmnopqrst"}
    result = guessed(text=zoo.texts(), **labels)
    assert sure(result)["labels"] == 20
    assert result.flags() == "--data text_column=text --data labels=20"


def test_a_table_of_numbers_with_labels_at_the_end(zoo):
    features = {f"Att{at}": zoo.floats() for at in range(10)}
    labels = {f"Class{at}": zoo.bits(0.3) for at in range(5)}
    assert sure(guessed(**features, **labels)) == {"label_columns": ["Class*"]}
    named = {name: zoo.bits(0.3) for name in ("Beach", "Sunset", "Field")}
    assert sure(guessed(**features, **named)) == {"label_columns": list(named)}


def test_binary_features_beside_labels_are_a_doubt(zoo):
    result = guessed(
        age=zoo.floats(), weight=zoo.floats(), smoker=zoo.bits(), stroke=zoo.bits(), fall=zoo.bits()
    )
    assert "may be features" in result.doubts[0].question
    assert result.doubts[0].answers == ({"label_columns": ["smoker", "stroke", "fall"]},)


def test_only_zeros_and_ones_are_a_doubt(zoo):
    result = guessed(**{name: zoo.bits() for name in ("a", "b", "c", "d")})
    assert result.doubts


def test_labels_named_as_such_among_other_binary_columns(zoo):
    columns = {name: zoo.bits() for name in ("smoker", "female")}
    labels = {f"label_{name}": zoo.bits() for name in ("fever", "cough", "pain")}
    assert sure(guessed(age=zoo.floats(), **columns, **labels)) == {"label_columns": ["label_*"]}


def test_binary_columns_in_two_places_are_a_doubt(zoo):
    result = guessed(
        text=zoo.texts(),
        reply=zoo.bits(),
        score=zoo.floats(),
        toxic=zoo.bits(),
        obscene=zoo.bits(),
    )
    (doubt,) = result.doubts
    assert {"label_columns": ["toxic", "obscene"]} in doubt.answers
    assert {"label_columns": ["reply", "toxic", "obscene"]} in doubt.answers


def test_emotions_as_raters_gave_them(zoo):
    emotions = ["admiration", "amusement", "anger", "joy", "sadness", "neutral"]
    result = guessed(
        text=zoo.texts(),
        id=zoo.choice([f"e{at:05d}x" for at in range(60)]),
        author=zoo.choice([f"user{at}" for at in range(40)]),
        created_utc=zoo.cells(lambda at: f"15483{at:05d}.0"),
        rater_id=zoo.choice(list("123456789")),
        example_very_unclear=zoo.bits(0.05, "False", "True"),
        **{name: zoo.bits() for name in emotions},
    )
    assert sure(result) == {"text_column": "text", "label_columns": emotions}
    assert "'example_very_unclear'" in result.remarks[0]
    kinds = {c.name: c.kind for c in result.columns}
    assert kinds["id"] == kinds["rater_id"] == kinds["author"] == "group"


def test_one_class_per_row(zoo):
    result = guessed(text=zoo.texts(), label=zoo.choice(["spam", "ham", "other"]))
    assert sure(result) == {"text_column": "text", "label_column": "label"}
    assert "one in each row" in result.reasons["label_column"]


def test_a_class_without_a_name_that_says_so_is_a_doubt(zoo):
    result = guessed(text=zoo.texts(), colour=zoo.choice(["red", "blue"]))
    assert result.doubts[0].answers == ({"label_column": "colour"},)


def test_two_classes_are_a_doubt(zoo):
    result = guessed(text=zoo.texts(), category=zoo.choice("abc"), topic=zoo.choice("xyz"))
    assert [a["label_column"] for a in result.doubts[0].answers] == ["category", "topic"]


def test_two_columns_of_lists(zoo):
    genres, words = zoo.joined("|", names=PHRASES), zoo.joined("|")
    keys = sure(guessed(overview=zoo.texts(), genres=genres, keywords=words))
    assert keys["label_column"] == "genres"
    result = guessed(overview=zoo.texts(), genres=genres, tags=words)
    assert {"label_column": "tags", "delimiter": "|"} in result.doubts[0].answers


def test_movies(zoo):
    keys = sure(
        guessed(
            movieId=zoo.cells(lambda at: str(at + 1)),
            title=zoo.cells(lambda at: f"The {zoo.random.choice(NOUNS)} of number {at} (1995)"),
            overview=zoo.texts(),
            release_date=zoo.cells(lambda at: f"19{at % 90 + 10}-0{at % 9 + 1}-1{at % 9}"),
            runtime=zoo.floats(),
            genres=zoo.joined("|", names=PHRASES),
        )
    )
    assert keys == {
        "text_column": "overview",
        "label_column": "genres",
        "delimiter": "|",
        "id_column": "movieId",
    }


@pytest.mark.parametrize(
    "date",
    [
        "2024-0{m}-1{d}",
        "2024-0{m}-1{d}T12:3{d}:00Z",
        "2024/0{m}/1{d}",
        "1{d}.0{m}.2024",
        "{m}/2{d}/2024",
        "{d}/{m}/24 1{d}:00",
        "Mar {d}, 2024",
        "1{d} January 2024",
        "Tue, 1{d} Nov 2024 10:00:00 +0000",
        "2024年{m}月{d}日",
    ],
)
def test_dates(zoo, date):
    cells = zoo.cells(lambda at: date.format(m=at % 9 + 1, d=at % 7 + 1))
    result = guessed(text=zoo.texts(), tags=zoo.joined(";"), when=cells)
    sure(result)
    assert result.column("when").kind == "date"


def test_numbers_of_seconds_are_dates_by_name(zoo):
    cells = zoo.cells(lambda at: str(1_700_000_000 + 997 * at))
    result = guessed(text=zoo.texts(), tags=zoo.joined(";"), created_at=cells, amount=cells)
    assert result.column("created_at").kind == "date"
    assert result.column("amount").kind == "number"


def test_ids_and_groups(zoo):
    result = guessed(
        uid=zoo.cells(lambda at: str(uuid.UUID(int=zoo.random.getrandbits(128)))),
        user_id=zoo.choice([str(at) for at in range(50)]),
        patient=zoo.choice([f"P{at}" for at in range(30)]),
        url=zoo.cells(lambda at: f"https://example.org/{at}"),
        text=zoo.texts(),
        tags=zoo.joined(";"),
    )
    assert sure(result)["id_column"] == "uid"
    kinds = {c.name: c.kind for c in result.columns}
    assert kinds["user_id"] == kinds["patient"] == "group"


def test_an_index_without_a_name(zoo):
    keys = sure(
        guess(
            ["", "text", "tags"],
            [list(r) for r in zip(zoo.cells(str), zoo.texts(), zoo.joined(","), strict=True)],
        )
    )
    assert keys["id_column"] == ""


def test_splits(zoo):
    for values in (["train", "test"], ["Train", "Dev", "Test"], ["training", "validation"]):
        keys = sure(guessed(text=zoo.texts(), tags=zoo.joined(";"), kind=zoo.choice(values)))
        assert keys["split_column"] == "kind"
    keys = sure(guessed(text=zoo.texts(), tags=zoo.joined(";"), split=zoo.choice("012")))
    assert keys["split_column"] == "split"
    keys = sure(guessed(text=zoo.texts(), tags=zoo.joined(";"), stars=zoo.choice("012")))
    assert "split_column" not in keys
    keys = sure(guessed(text=zoo.texts(), tags=zoo.joined(";"), fold=zoo.choice("01234")))
    assert "split_column" not in keys


def test_several_texts(zoo):
    result = guessed(title=zoo.texts(4, 6), body=zoo.texts(60, 90), tags=zoo.joined(";"))
    assert sure(result)["text_column"] == "body"
    assert "'title'" in result.remarks[0]
    assert [c.name for c in result.columns if c.kind == "text"] == ["title", "body"]
    result = guessed(question1=zoo.texts(), question2=zoo.texts(), tags=zoo.joined(";"))
    questions = ["question1", "question2"]
    assert [a["text_column"] for a in result.doubts[0].answers] == [*questions, questions]


def test_chinese_texts_and_labels(zoo):
    texts = zoo.cells(lambda _: "".join(zoo.random.choices(CHINESE, k=zoo.random.randint(12, 40))))
    labels = zoo.joined(",", names=["政治", "经济", "体育", "天气"], most=3)
    keys = sure(guessed(内容=texts, 标签=labels))
    assert keys == {"text_column": "内容", "label_column": "标签", "delimiter": ","}
    for mark in "\u3001\uff1b\uff0c":
        labels = zoo.joined(mark, names=["政治", "经济", "体育", "天气"], most=3)
        assert sure(guessed(内容=texts, 标签=labels))["delimiter"] == mark


def test_pictures(zoo):
    keys = sure(guessed(file=zoo.cells(lambda at: f"img/{at}.JPG"), labels=zoo.joined("|")))
    assert keys == {"image_column": "file", "label_column": "labels", "delimiter": "|"}


def test_blanks_between_labels_are_a_doubt(zoo):
    result = guessed(
        text=zoo.texts(), categories=zoo.joined(" ", names=["cs.LG", "stat.ML", "q-bio"], most=3)
    )
    assert result.doubts[0].answers == (
        {"label_column": "categories", "delimiter": " "},
        {"label_column": "categories", "delimiter": "|"},
    )


def test_names_of_several_words_are_not_split(zoo):
    keys = sure(guessed(text=zoo.texts(), genre=zoo.choice(PHRASES)))
    assert keys == {"text_column": "text", "label_column": "genre"}


def test_single_labels_that_hold_commas_are_not_split(zoo):
    names = ["Science, Technology", "Arts, Leisure", "Crime", "Food; Drink", "Law | Order"]
    keys = sure(guessed(text=zoo.texts(), category=zoo.choice(names)))
    assert keys == {"text_column": "text", "label_column": "category"}
    several = zoo.joined("|", names=names[:3], most=2)
    assert sure(guessed(text=zoo.texts(), category=several))["delimiter"] == "|"


def test_two_separators_are_a_doubt(zoo):
    cells = zoo.cells(
        lambda _: ";".join(
            ",".join(zoo.random.sample(TOPICS, zoo.random.randint(1, 2))) for _ in "12"
        )
    )
    result = guessed(text=zoo.texts(), tags=cells)
    assert "';'" in result.doubts[0].question
    assert {a["delimiter"] for a in result.doubts[0].answers} == {";", ","}


def test_places_are_not_label_lists(zoo):
    towns = {"Paris": "France", "Lyon": "France", "Rome": "Italy", "Milan": "Italy"}
    place = zoo.choice([f"{a}, {b}" for a, b in towns.items()])
    keys = sure(guessed(text=zoo.texts(), place=place, tags=zoo.joined(";")))
    assert keys["label_column"] == "tags"
    assert guessed(text=zoo.texts(), place=place).doubts


def test_long_names_are_labels_where_they_come_back(zoo):
    names = [f"{name} as it was seen in / {other}" for name in TOPICS[:4] for other in TOPICS[4:]]
    keys = sure(guessed(text=zoo.texts(), about=zoo.joined(";", names=names, most=6)))
    assert (keys["label_column"], keys["delimiter"]) == ("about", ";")


def test_texts_with_commas_are_texts(zoo):
    keys = sure(guessed(review=zoo.texts(), tags=zoo.joined(",")))
    assert keys["text_column"] == "review"


def test_a_file_without_a_header(zoo):
    _, rows = table(text=zoo.texts(), tags=zoo.joined(";"))
    result = guess(rows[0], rows[1:])
    assert sure(result) == {
        "header": False,
        "text_column": "0",
        "label_column": "1",
        "delimiter": ";",
    }
    assert result.rows == zoo.rows
    assert "'text_column=\"0\"'" in result.flags()
    _, rows = table(a=zoo.floats(), b=zoo.floats(), c=zoo.bits(), d=zoo.bits())
    assert guess(rows[0], rows[1:]).keys["header"] is False
    assert "header" not in guess(["0", "1", "2", "3"], rows).keys


def test_numbers_with_a_decimal_comma(zoo):
    comma = [cell.replace(".", ",") for cell in zoo.floats()]
    labels = {f"label{at}": zoo.bits() for at in range(3)}
    result = guessed(separator=";", width=comma, height=zoo.floats(), **labels)
    assert sure(result) == {"label_columns": ["label*"], "decimal": ","}
    assert guessed(separator=",", width=comma, **labels).doubts


def test_categories_and_dates_of_a_table_of_numbers_are_left_out(zoo):
    labels = {f"label{at}": zoo.bits() for at in range(3)}
    keys = sure(
        guessed(
            colour=zoo.choice(["red", "blue"]),
            x=zoo.floats(),
            when=zoo.cells(lambda at: f"2024-01-{at % 28 + 1:02d}"),
            flag=zoo.bits(0.5, "no", "yes"),
            **labels,
        )
    )
    assert keys == {"label_columns": ["label*"], "ignore_columns": ["colour", "when", "flag"]}
    result = guessed(colour=zoo.choice(["red", "blue"]), x=zoo.floats(), **labels)
    assert result.remarks == ("--data category_columns=colour reads these as well",)


def test_columns_that_repeat_the_lists_are_no_features(zoo):
    sets = zoo.sets()
    wide = {name: ["1" if name in labels else "0" for labels in sets] for name in TOPICS}
    result = guessed(
        x=zoo.floats(), y1=zoo.floats(), tags=["|".join(labels) for labels in sets], **wide
    )
    assert sure(result)["label_column"] == "tags"
    assert result.keys["ignore_columns"] == TOPICS
    assert "repeat" in result.remarks[0]


def test_what_the_user_said_is_not_guessed(zoo):
    columns = {"body": zoo.texts(), "note": zoo.texts(), "tags": zoo.joined(";")}
    assert sure(guessed(said={"text_column": "note"}, **columns)) == {
        "label_column": "tags",
        "delimiter": ";",
    }
    said = {"text_column": "note", "label_column": "tags"}
    assert sure(guessed(said=said, **columns)) == {"delimiter": ";"}
    assert sure(guessed(said={**said, "delimiter": ","}, **columns)) == {}
    columns = {"x": zoo.floats(), "a": zoo.bits(), "b": zoo.bits()}
    assert sure(guessed(said={"labels": 2}, **columns)) == {}
    assert sure(guessed(said={"label_columns": ["a", "b"]}, **columns)) == {}


def test_nothing_to_learn_from_and_no_labels_are_doubts(zoo):
    assert "no column looks like labels" in guessed(text=zoo.texts()).doubts[0].question
    questions = [d.question for d in guessed(tags=zoo.joined(";")).doubts]
    assert any("what is to be learned from" in q for q in questions)


def test_vectors_are_no_label_lists(zoo):
    cells = zoo.cells(lambda _: str([round(zoo.random.random(), 3) for _ in range(4)]))
    result = guessed(text=zoo.texts(), embedding=cells, tags=zoo.joined(";"))
    assert sure(result)["label_column"] == "tags"
    assert result.column("embedding").kind == "vector"


def test_multi_hot_lists_are_said_to_be_such(zoo):
    cells = zoo.cells(lambda _: str([zoo.random.randint(0, 1) for _ in range(5)]))
    result = guessed(text=zoo.texts(), labels=cells)
    assert result.doubts
    assert result.column("labels").kind == "vector"


def test_flags_can_be_pasted(zoo):
    columns = {"the text": zoo.texts(), "it's": zoo.joined(";"), "id": zoo.cells(str)}
    result = guessed(**columns)
    words = shlex.split(result.flags())
    assert words[::2] == ["--data"] * (len(words) // 2)
    assert settings(words[1::2]) == result.keys
    labels = {f"{name}, or not": zoo.bits() for name in TOPICS[:3]}
    result = guessed(text=zoo.texts(), **labels)
    assert settings(shlex.split(result.flags())[1::2]) == result.keys
    Description.of(result.keys)


def test_an_answer_takes_the_place_of_the_guess(zoo):
    result = guessed(overview=zoo.texts(), genres=zoo.joined("|"), tags=zoo.joined(";"))
    flags = [result.flags(answer) for answer in result.doubts[0].answers]
    assert flags == [
        "--data text_column=overview --data label_column=genres --data 'delimiter=|'",
        "--data text_column=overview --data label_column=tags --data 'delimiter=;'",
    ]


def test_types_that_the_file_states(zoo):
    result = guessed(
        types={"when": "date"}, text=zoo.texts(), when=zoo.cells(str), tags=zoo.joined(";")
    )
    assert result.column("when").kind == "date"


def test_missing_cells(zoo):
    tags = [cell if at % 3 else "" for at, cell in enumerate(zoo.joined(";"))]
    result = guessed(text=zoo.texts(), tags=tags, nothing=[""] * zoo.rows)
    assert sure(result)["delimiter"] == ";"
    assert result.column("nothing").kind == "constant"
    assert result.column("tags").missing == 67


def test_few_rows():
    rows = [
        ["Alien", "A crew meets a stranger in space", "space|horror", "train"],
        ["Up", "A house flies away with an old man", "adventure", "train"],
        ["Gravity", "Two people drift far above the earth", "space", "test"],
    ]
    result = guess(["title", "plot", "tags", "part"], rows)
    assert sure(result) == {
        "text_column": "plot",
        "label_column": "tags",
        "delimiter": "|",
        "id_column": "title",
        "split_column": "part",
    }


def test_the_separator_of_cells():
    def written(separator, rows):
        out = io.StringIO()
        csv.writer(out, delimiter=separator).writerows(rows)
        return out.getvalue().splitlines(keepends=True)

    rows = [["text", "tags"], ["one, two; and three", "a,b"], ["four", "a"], ["five | six", "b"]]
    for separator in (",", ";", "\t", "|"):
        assert separator_of(written(separator, rows)) == (separator, ())
    assert separator_of(written("\t", rows), usual="\t") == ("\t", ())
    assert separator_of(["just", "one", "column"]) == (",", ())
    numbers = [["1,5", "2,5", "0"], ["0,5", "1,25", "1"]]
    assert separator_of(written(";", [["a", "b", "c"], *numbers]))[0] == ";"
    assert separator_of(["1,5;2,5", "0,5;1,25"])[1] == (";",)


def test_names_with_separators_are_warned_of():
    assert punctuated(["red;blue", "green"], 2) is None
    assert punctuated(["red", "green"], 1) is None
    warning = punctuated(["green", "red | blue"], 1)
    assert warning is not None
    assert "--data 'delimiter=|'" in warning
    assert "delimiter=/" in (punctuated(["a/b", "b", "a"], 1) or "")
    assert punctuated(["a/b", "b"], 1) is None


@pytest.mark.parametrize(
    "pair", [("1", "1.0"), ("1", '"1"'), ("true", "1"), ("Sport", "sport "), ("a-b", "a b")]
)
def test_names_that_may_be_one_label_are_warned_of(pair):
    assert all(repr(name) in (alike(["other", *pair]) or "") for name in pair)
    assert alike(["1", "2", "10", "true story", "sport", "sports"]) is None
