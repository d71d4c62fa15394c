"""Queries: the grammar, and errors that point at the place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelset.retrieve import And, Name, Not, Or, QueryError, certain, parse
from labelset.retrieve.query import names_of

A, B, C, D = map(Name, "abcd")


def all_of(*names):
    return And(tuple(map(Name, names)))


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ("a", A),
        ("  a\t\n", A),
        ("!a", Not(A)),
        ("!!a", A),
        ("!!!a", Not(A)),
        ("a & b & c", And((A, B, C))),
        ("a&!b", And((A, Not(B)))),
        ("a | b & c", Or((A, And((B, C))))),
        ("a & b | c & d", Or((And((A, B)), And((C, D))))),
        ("(a | b) & c", And((Or((A, B)), C))),
        ("!(a | b) & c", And((Not(Or((A, B))), C))),
        ("!a | b", Or((Not(A), B))),
        ("((a))", A),
        ("'hot dog' & \"red wine\"", all_of("hot dog", "red wine")),
        (r'"say \"hi\"" & b', all_of('say "hi"', "b")),
        (r"'it\'s' & 'back\\slash'", all_of("it's", "back\\slash")),
        ('"driver\'s licence"', Name("driver's licence")),
        ("'a & !b | (c'", Name("a & !b | (c")),
        ("c++ & c# & x-y_z.1:2/3", all_of("c++", "c#", "x-y_z.1:2/3")),
        ("köln & 犬 & हिन्दी", all_of("köln", "犬", "हिन्दी")),
        ("می\u200cشود & re\u0301sume\u0301", all_of("می\u200cشود", "re\u0301sume\u0301")),
        ("''", Name("")),
    ],
)
def test_grammar(query, tree):
    assert parse(query) == tree


@pytest.mark.parametrize(
    ("query", "at", "says"),
    [
        ("", None, "empty"),
        (" \n ", None, "empty"),
        ("a &", 3, "expected a name, ! or (, got the end"),
        ("& a", 0, "got '&'"),
        ("a && b", 3, "got '&'"),
        ("a | | b", 4, "got '|'"),
        ("a !", 2, "expected & or | before '!'"),
        ("!", 1, "the end"),
        ("()", 1, "got ')'"),
        ("(a & b", 0, "never closed"),
        ("a & ((b | c)", 4, "never closed"),
        ("a)", 1, "never opened"),
        ("(a | b)) & c", 7, "never opened"),
        ("hot dog", 4, "names with spaces go in quotes"),
        ("(hot dog)", 5, "names with spaces go in quotes"),
        ("a (b)", 2, "expected & or | before '('"),
        ("a & 'hot dog", 4, "this quote ' is never closed"),
        ('"a\\"', 0, "never closed"),
        ("a , b", 2, "unexpected ','"),
        ("~a", 0, "unexpected '~'"),
        ("“hot dog”", 0, "straight quotes"),
        ("a\x00b", 1, "unexpected '\\x00'"),
    ],
)
def test_errors_point_at_the_place(query, at, says):
    with pytest.raises(QueryError) as caught:
        parse(query)
    error = caught.value
    assert isinstance(error, ValueError)
    assert says in error.problem
    assert "\n" not in error.problem
    assert error.at == at
    if at is not None:
        assert f"(character {at + 1} of the query)" in str(error)
        shown, caret = str(error).splitlines()[-2:]
        assert len(caret) - 3 == at  # two spaces of margin, then as many as there are before it
        assert shown[2 + at : 3 + at].strip() == query[at : at + 1].strip().replace("\x00", "")


def test_the_caret_stands_below_the_place_in_long_and_wide_queries():
    with pytest.raises(QueryError) as caught:
        parse(" & ".join(["name"] * 1000) + " & | x" + " & name" * 1000)
    shown, caret = str(caught.value).splitlines()[-2:]
    assert len(shown) < 80
    assert shown[len(caret) - 1] == "|"
    with pytest.raises(QueryError) as caught:
        parse("犬 & re\u0301 & | b")
    assert str(caught.value).splitlines()[-1] == " " * (2 + 10) + "^"  # 犬 is two wide, é one


def test_not_a_string():
    with pytest.raises(TypeError, match="query must be a string, got int 3"):
        parse(3)


def test_names_are_listed_by_their_first_appearance():
    found = names_of(parse("b & (a | !b) & !(c | a) & b"))
    assert [(name.text, name.at) for name in found] == [("b", 0), ("a", 5), ("c", 17)]


def test_depth():
    assert parse("(" * 100 + "a" + ")" * 100) == A
    with pytest.raises(QueryError, match="100 deep"):
        parse("(" * 101 + "a" + ")" * 101)
    with pytest.raises(QueryError, match="100 deep"):
        parse("!(" * 100_000 + "a")
    assert parse("!" * 100_001 + "a") == Not(A)


NAMES = st.text(min_size=0, max_size=6).map(Name)
TREES = st.recursive(
    NAMES,
    lambda part: st.one_of(
        part.filter(lambda f: not isinstance(f, Not)).map(Not),
        st.lists(part, min_size=2, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(part, min_size=2, max_size=3).map(lambda parts: Or(tuple(parts))),
    ),
    max_leaves=12,
)


@given(TREES)
def test_what_is_written_is_read_again(tree):
    assert parse(str(tree)) == tree


@given(st.text(alphabet="ab&|!()'\"\\ \t,", max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        tree, at = parse(text), None
    except QueryError as error:
        tree, at = None, error.at
    assert at is None or 0 <= at <= len(text)
    assert tree is None or parse(str(tree)) == tree


def test_certain():
    assert certain("a & !a") is False
    assert certain("(a | b) & !a & !b") is False
    assert certain("!(a & b) | b") is True
    assert certain("(a | b) & (a | !b)") is None
    assert certain(And(())) is True
    assert certain(Or(())) is False
