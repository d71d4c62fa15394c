"""Errors say what is wrong; neutral values are the documented ones."""

import pytest
import torch

import labelset as ls
from labelset.metrics import build, names


def test_names_of_the_api():
    promised = """map@class map@sample f1-micro f1-macro f1-weighted f1-samples of1 cf1 precision@k
    recall@k f1@k ndcg@k hamming subset-accuracy ace mce ece brier nll"""
    assert set(promised.split()) <= set(names())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build("map@clas"), "map@class"),
        (lambda: build("precision@5", k=3), "states k already"),
        (lambda: build("precision@0"), "at least 1"),
        (lambda: build("ace", bins=0), "at least 1"),
        (lambda: build("psp@k"), "needs either"),
        (lambda: build("psp@k", propensity=[0.0])([[1.0]], [[1]]), r"\(0, 1\]"),
        (lambda: build("psp@k", propensity=[0.5])([[1.0, 2.0]], [[1, 0]]), "for 1 labels, not 2"),
        (lambda: build("f1-micro")([[0.3, 0.7]], [[1, 0]]), "label sets are due"),
        (lambda: build("f1-micro")([[1, 0]], [[0.5, 0]]), "soft"),
        (lambda: build("map@class")([[0.3, float("nan")]], [[1, 0]]), "row 0, label 1"),
        (lambda: build("ace")([[0.3, 1.5]], [[1, 0]]), "got 1.5 at row 0, label 1"),
        (lambda: build("ace")([[0.3, -0.5]], [[1, 0]]), "got -0.5"),
        (lambda: build("map@class")([[0.3, 0.1]], [[0, 0]]), "no class has a positive row"),
        (
            lambda: build("auroc@class")([[0.3, 0.1]], [[1, 0]]),
            "no class is positive in one row",
        ),
        (
            lambda: build("auroc-micro")([[0.3, 0.1]], [[1, 1]]),
            "no entry is positive and another",
        ),
        (lambda: build("map-micro")([[0.3, 0.1]], [[0, 0]]), "no entry is positive"),
        (lambda: build("map@sample")([[0.3, 0.1]], [[0, 0]]), "no row has a positive label"),
        (lambda: build("map@sample")([0.3, 0.1], [0, 0]), "2-D"),
        (lambda: build("map@sample")([[0.3]], [[0, 1]]), r"\(1, 1\), labels \(1, 2\)"),
        (lambda: build("map@sample")(ls.Labels.from_lists([[0]], n=1), [[1]]), "got Labels"),
        (lambda: build("map@sample").stream().compute(), "call update"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_one_row_one_class_and_nothing_predicted_have_values():
    assert build("map@class")([[0.3]], [[1]]) == 1.0
    assert build("f1-micro")([[0, 0]], [[1, 0]]) == 0.0
    assert build("f1-micro")([[0, 0]], [[0, 0]]) == 0.0
    assert build("f1-micro", zero_division=1)([[0, 0]], [[0, 0]]) == 1.0
    assert build("precision")([[0, 0]], [[1, 0]]) == 0.0
    assert build("ace")([[0.0, 1.0]], [[0, 1]]) == 0.0


def test_streams_must_match():
    stream, other = build("f1@3").stream(), build("f1@4").stream()
    with pytest.raises(ValueError, match="same settings"):
        stream.merge(other)
    stream.update([[0.1, 0.2]], [[1, 0]])
    with pytest.raises(ValueError, match="equal numbers of labels"):
        stream.update([[0.1]], [[1]])
    other = build("f1@3").stream()
    other.update([[0.1]], [[1]])
    with pytest.raises(ValueError, match="equal numbers of labels"):
        stream.merge(other)


def test_top_k_streams_hold_sums_only():
    stream = build("ndcg@3").stream()
    for _ in range(10):
        stream.update(torch.randn(50, 7), torch.rand(50, 7) < 0.5)
    assert sum(t.numel() for t in stream.total.values()) == 3


def test_a_stream_keeps_batches_in_memory_of_its_own():
    g = torch.Generator().manual_seed(0)
    buffer, whole = torch.empty(10, 4), build("map@class").stream()
    scores, y = torch.randn(30, 4, generator=g), torch.rand(30, 4, generator=g) < 0.5
    for first in (0, 10, 20):
        buffer.copy_(scores[first : first + 10])
        whole.update(buffer, y[first : first + 10])
    assert whole.compute() == build("map@class")(scores, y)


def test_a_refused_batch_leaves_a_stream_as_it_was():
    stream = build("psp@k", propensity=[0.5, 0.5]).stream()
    with pytest.raises(ValueError, match="not 3"):
        stream.update([[0.1, 0.2, 0.3]], [[1, 0, 0]])
    stream.update([[0.1, 0.2]], [[1, 0]])
    assert stream.compute() == 1.0
