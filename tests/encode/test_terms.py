"""Terms of texts against scikit-learn, in C and without it, on texts of every kind."""

import copy
import json

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from labelset import encode
from labelset.data import Dataset
from labelset.encode import _terms

RNG = np.random.default_rng(0)
WORDS = ["red", "green", "fork", "Über", "naïve", "42nd", "x", "a1", "snake_case", "don't", "Σας"]
SCRIPTS = [
    "我喜欢吃苹果和梨,苹果很甜。",
    "ฉันชอบกินแอปเปิ้ล แอปเปิ้ลหวานมาก",
    "👩‍👩‍👧 family 👍🏽👍🏽 ok 🇩🇪",
    "e\u0301tude cafe\u0301 n\u0303 \u0301 \u0308\u0308",
    "İstanbul ISPARTA ΟΔΟΣ ΣΑΣ ß ẞ ǅ",
    "हिन्दी में लिखा हुआ पाठ ١٢٣ ²³ ½ Ⅷ",
    "nul\0inside \0\0 a\0b",
    "wide\u3000blank\u2028line\x1cseparator\x85next\xa0hard\u200bzero",
    "\U0001d4d0\U0001d4d1 \U00020000\U00020001 \U0010ffff",
    "lone\ud800 surrogate \udc00\udfff",
    "",
    " \t\n",
    "a",
    "é",
    "苹",
    "👍",
    "ab",
    "aaaaaaaaaaaaaaaaaaaaaaaa",
    "w" * 63 + " " + "v" * 62 + " " + "u" * 61 + " " + "é" * 31,
    "long " * 5000 + "x" * 5000,
]


def some_texts(rows=60):
    lines = [", ".join(RNG.choice(WORDS, RNG.integers(0, 12))) for _ in range(rows)]
    return [*lines, *SCRIPTS, *SCRIPTS[:9], *SCRIPTS[:4]]


TEXTS = some_texts()


@pytest.fixture(params=["C", "scikit-learn"])
def counted(request, monkeypatch):
    """Counted in C, or as where the extension was not built."""
    if request.param != "C":
        monkeypatch.setattr(_terms, "_ngrams", None)
    return request.param


def data_of(texts):
    return Dataset.from_arrays(texts=texts, labels=torch.ones(len(texts), 1))


def oracle(kind, n, **settings):
    low, analyzer = (1, "word") if kind == "words" else (min(2, n), "char_wb")
    return TfidfVectorizer(analyzer=analyzer, ngram_range=(low, n), **settings)


@pytest.mark.parametrize("kind", ["words", "characters"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 9])
@pytest.mark.parametrize(("least", "sublinear"), [(1, True), (2, False), (3, True)])
def test_terms_and_weights_are_scikit_learns(counted, kind, n, least, sublinear):
    settings = {"words": 0, "characters": 0} | {kind: n}
    coder = encode.build("tfidf", least=least, sublinear=sublinear, **settings)
    got = coder.fit(data_of(TEXTS))(data_of([*reversed(TEXTS), "quite new 新 words"]))
    want = oracle(kind, n, min_df=least, sublinear_tf=sublinear).fit(TEXTS)
    assert coder.terms(kind) == [*want.get_feature_names_out()]
    due = want.transform([*reversed(TEXTS), "quite new 新 words"])
    np.testing.assert_allclose(got.dense(), due.toarray(), rtol=3e-7, atol=0)


def test_words_and_characters_lie_side_by_side(counted):
    got = encode.build("tfidf", least=3).fit(data_of(TEXTS))(data_of(TEXTS))
    both = [
        oracle(*kind, min_df=3, sublinear_tf=True) for kind in (("words", 2), ("characters", 5))
    ]
    want = sparse.hstack([one.fit_transform(TEXTS) for one in both]).toarray()
    np.testing.assert_allclose(got.dense(), want, rtol=3e-7, atol=0)
    assert (got.indices[1:] > got.indices[:-1])[got.rows().diff() == 0].all()


def test_texts_at_random_are_cut_as_scikit_learn_does():
    letters = [
        *"ab_ 1\0",
        " ",
        "é",
        "\u0301",
        "ไ",
        "苹",
        "👍",
        "\x1f",
        "\u2003",
        "²",
        "\udc80",
        "Ⅷ",
    ]
    texts = ["".join(RNG.choice(letters, RNG.integers(0, 40))) for _ in range(300)]
    for kind, n in (("words", 3), ("characters", 4)):
        settings = {"words": 0, "characters": 0, kind: n}
        coder = encode.build("tfidf", least=1, **settings).fit(data_of(texts))
        want = oracle(kind, n, sublinear_tf=True).fit(texts)
        assert coder.terms(kind) == [*want.get_feature_names_out()]
        due = want.transform(texts).toarray()
        np.testing.assert_allclose(coder(data_of(texts)).dense(), due, rtol=3e-7, atol=0)


def test_of_too_many_terms_the_most_frequent_stay(counted):
    data = data_of(["bb bb cc", "bb aa cc", "dd dd dd aa"])
    coder = encode.build("tfidf", words=1, characters=0, most=3, least=1).fit(data)
    assert coder.terms("words") == ["aa", "bb", "dd"]  # aa ties with cc
    counts = oracle("characters", 5, use_idf=False, norm=None, min_df=2)
    often = np.sort(counts.fit_transform(TEXTS).sum(0).A1)[::-1]
    coder = encode.build("tfidf", words=0, most=500, least=2).fit(data_of(TEXTS))
    kept = (
        counts.transform(TEXTS)
        .sum(0)
        .A1[np.isin(counts.get_feature_names_out(), coder.terms("characters"))]
    )
    np.testing.assert_array_equal(np.sort(kept)[::-1], often[:500])


@pytest.mark.parametrize(("rows", "words", "characters"), [(30, 1, 1), (60, 2, 2), (150, 2, 3)])
def test_a_few_dozen_texts_have_features(rows, words, characters):
    texts = [f"word{i % 20} only{i}" for i in range(rows)]
    coder = encode.build("tfidf").fit(data_of(texts))
    for kind, n, least in (("words", 2, words), ("characters", 5, characters)):
        assert coder.terms(kind) == [
            *oracle(kind, n, min_df=least).fit(texts).get_feature_names_out()
        ]


def test_a_row_is_the_same_alone_among_others_and_by_several_threads(monkeypatch):
    coder = encode.build("tfidf").fit(data_of(TEXTS))
    every = coder(data_of(TEXTS)).dense()
    alone = torch.cat([coder(data_of([text])).dense() for text in TEXTS])
    assert torch.equal(alone, every)
    monkeypatch.setattr(_terms, "LETTERS", 500)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert torch.equal(coder(data_of(TEXTS)).dense(), every)
        again = encode.build("tfidf").fit(data_of(TEXTS))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(t, again.learnt[name]) for name, t in coder.learnt.items())


def test_words_that_are_forgotten_are_looked_up_again():
    """More distinct words than are remembered."""
    words = [
        f"{word:x}-" + "of many letters".replace(" ", f"{word:x}") * 2 for word in range(24_000)
    ]
    texts = [" ".join(words[at : at + 1000]) for at in range(0, len(words), 1000)]
    texts = [*texts, *texts[:2]]
    coder = encode.build("tfidf", words=0, least=2, most=1 << 20).fit(data_of(texts))
    want = oracle("characters", 5, min_df=2, sublinear_tf=True)
    due = want.fit_transform(texts)
    assert coder.terms("characters") == [*want.get_feature_names_out()]
    got = coder(data_of(texts))
    np.testing.assert_array_equal(got.indptr, due.indptr)
    due.sort_indices()
    np.testing.assert_array_equal(got.indices, due.indices)
    np.testing.assert_allclose(got.values, due.data, rtol=3e-7, atol=0)


@pytest.mark.parametrize(("settings", "limit"), [({"characters": 0}, 200), ({"words": 0}, 1500)])
def test_memory_is_bounded_by_forgetting_rare_terms(monkeypatch, settings, limit):
    rng = np.random.default_rng(1)
    often = [f"often{word}" for word in range(40)]
    rows = [" ".join([*rng.choice(often, 30), f"only{row} once{row * 7}"]) for row in range(600)]
    data = data_of(rows)
    want = encode.build("tfidf", words=1, least=100).fit(data)
    everything = encode.build("tfidf", least=1, **settings).fit(data)
    (kind,) = {"words", "characters"} - {*settings}
    monkeypatch.setattr(_terms, "COUNTED", limit)
    coder = encode.build("tfidf", **{"words": 1, "least": 100} | settings).fit(data)
    assert coder.terms(kind) == want.terms(kind)
    assert torch.isin(coder.learnt["idf"], want.learnt["idf"]).all()
    fewer = encode.build("tfidf", least=1, **settings).fit(data)
    assert len(fewer.terms(kind)) <= limit < len(everything.terms(kind))


def test_no_rows_and_rows_without_terms(counted):
    coder = encode.build("tfidf").fit(data_of(["red fork", "red apple"]))
    x = coder(data_of(["", "苹果", "?"]))
    assert not x.dense().any()
    none = Dataset.from_arrays(texts=[], labels=torch.ones(0, 1))
    assert coder(none).shape == (0, x.width)
    for texts in (["", " "], ["?"]):
        with pytest.raises(ValueError, match="lower `least`"):
            encode.build("tfidf", characters=0).fit(data_of(texts))


@pytest.mark.parametrize(
    ("apples", "forks"),
    [
        (["我喜欢吃苹果和梨", "苹果很甜很好吃"], ["桌上有刀和叉子", "叉子放在桌子上"]),
        (["ฉันชอบกินแอปเปิ้ล", "แอปเปิ้ลหวานมาก"], ["มีส้อมอยู่บนโต๊ะ", "วางส้อมไว้บนโต๊ะ"]),
    ],
    ids=["Chinese", "Thai"],
)
def test_scripts_without_blanks_are_told_apart(apples, forks):
    data = data_of([*apples, *forks])
    x = encode.build("tfidf").fit(data)(data).dense()
    alike = x @ x.T
    assert min(alike[0, 1], alike[2, 3]) > 2 * alike[:2, 2:].max()
    words = encode.build("tfidf", characters=0).fit(data)(data).dense()
    assert (words @ words.T)[0, 1] < alike[0, 1]


# ---- in files -----------------------------------------------------------------------------------


def saved(coder):
    return json.loads(json.dumps(coder.as_json())), {k: t.clone() for k, t in coder.state().items()}


def test_what_is_saved_gives_the_same_features_elsewhere(monkeypatch):
    coder = encode.build("tfidf").fit(data_of(TEXTS))
    x = coder(data_of(TEXTS)).dense()
    assert torch.equal(copy.deepcopy(coder)(data_of(TEXTS)).dense(), x)
    assert torch.equal(encode.from_json(*saved(coder))(data_of(TEXTS)).dense(), x)
    monkeypatch.setattr(_terms, "_ngrams", None)
    twin = encode.from_json(*saved(coder))
    assert twin.terms("characters") == coder.terms("characters")
    torch.testing.assert_close(twin(data_of(TEXTS)).dense(), x)


def changed(**tensors):
    return lambda facts, state: state.update(tensors)


def bent(name, bend):
    def change(facts, state):
        state[name] = bend(state[name])

    return change


@pytest.mark.parametrize(
    "crafted",
    [
        changed(more=torch.ones(1)),
        lambda facts, state: state.pop("idf"),
        lambda facts, state: facts.update(terms=3),
        lambda facts, state: facts.update(terms=None),
        lambda facts, state: facts.update(terms="many"),
        bent("idf", lambda t: t[1:]),
        bent("idf", lambda t: t.half()),
        bent("idf", lambda t: t * torch.nan),
        bent("words.starts", lambda t: t[:0]),
        bent("words.starts", lambda t: t + 1),
        bent("words.starts", lambda t: t.int()),
        bent("words.starts", lambda t: t[None]),
        bent("words.starts", lambda t: t.flip(0)),
        bent("words.starts", lambda t: torch.cat([t[:1], t[:-2], t[-1:]])),
        bent("words.starts", lambda t: torch.cat([t[:1], t[1:2] - (1 << 40), t[2:]])),
        bent("words.starts", lambda t: torch.cat([t[:2], t[1:2] + (1 << 40), t[3:]])),
        bent("words.letters", lambda t: t[:-1]),
        bent("words.letters", lambda t: t.char()),
        bent("characters.letters", lambda t: t * 0),
    ],
)
def test_a_crafted_file_is_refused(counted, crafted):
    facts, state = saved(encode.build("tfidf").fit(data_of(TEXTS[:40])))
    crafted(facts["facts"], state)
    with pytest.raises(ValueError, match=r"term|tfidf"):
        encode.from_json(facts, state)


def test_letters_that_are_no_text_break_nothing():
    facts, state = saved(encode.build("tfidf").fit(data_of(TEXTS[:40])))
    state["words.letters"] = state["words.letters"] | 0x80
    coder = encode.from_json(facts, state)
    assert coder(data_of(TEXTS)).dense().isfinite().all()
    with pytest.raises(ValueError, match="utf-8"):
        coder.terms("words")


def test_settings_that_mean_nothing():
    with pytest.raises(ValueError, match="both 0"):
        encode.build("tfidf", words=0, characters=0)
    with pytest.raises(ValueError, match="most must be"):
        encode.build("tfidf", most=0)
    with pytest.raises(TypeError, match="whole number"):
        encode.build("tfidf", words=1.5)
    coder = encode.build("tfidf").fit(data_of(TEXTS))
    with pytest.raises(ValueError, match="kind must be one of 'words', 'characters'"):
        coder.terms("letters")


def test_a_long_word_needs_no_memory_for_each_letter():
    text = "苹果" * 200_000
    coder = encode.build("tfidf", least=1).fit(data_of([text, "苹果"]))
    assert len(coder.terms("characters")) < 20
    assert len(coder(data_of([text])).indices) < 20
