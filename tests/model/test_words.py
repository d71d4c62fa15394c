"""Words of a text before a network: what each adds, by slopes, adds up to the score."""

import pytest
import torch
from torch import nn

from labelset import encode, heads
from labelset.data import Dataset
from labelset.model import SavedModel
from labelset.model.words import Texts

TEXTS = ["Red, red fork!", "", "a zebra and the small green spoon", "blue"]


def model(encoder, head="linear"):
    encoder.fit(Dataset.from_arrays(None, [[1]] * len(TEXTS), texts=TEXTS))
    encoder.module.eval()
    encoder = encoder if head == "linear" else encoder.by_place()
    width = encoder(Dataset.from_arrays(None, [[1]], texts=["a"])).shape[-1]
    built = heads.build(head, features=width, labels=2)
    g = torch.Generator().manual_seed(0)
    for p in built.parameters():
        p.data = torch.randn(p.shape, generator=g)
    return SavedModel(names=["one", "two"], loss="bce", head=built, encoder=encoder)


def networks(folder):
    return {
        "transformer": encode.build("transformer", model=str(folder)),
        "windows": encode.build("transformer", model=str(folder), length=5, windows=3),
        "text": encode.build("text", width=8, vocabulary=300),
    }


@pytest.mark.parametrize("head", ["linear", "label-attention"])
@pytest.mark.parametrize("name", ["transformer", "windows", "text"])
def test_words_add_up_to_the_score(text_model, name, head):
    saved = model(networks(text_model)[name], head)
    scores = saved.predict_proba(TEXTS).logit()
    found = saved.explain(TEXTS, labels=["one", "two"], top=20)
    for at, reason in enumerate(found):
        row, label = divmod(at, 2)
        assert reason.score == pytest.approx(float(scores[row, label]), abs=1e-4)
        words = {word.strip("!,").lower() for word in TEXTS[row].split()}
        assert {name.strip('"') for name, _ in reason.terms} <= words
        values = [value for _, value in reason.terms]
        assert reason.base + sum(values) + reason.rest == pytest.approx(reason.score)
        assert abs(reason.rest) < 0.01 * (sum(map(abs, values)) + 0.1)


def test_of_a_sum_of_words_each_adds_what_it_is_worth(text_model):
    """A network without layers, whose mean of embeddings is known."""
    saved = model(networks(text_model)["text"])
    inner = saved.encoder.module
    for layer in inner.layers:
        nn.init.zeros_(layer.weight), nn.init.zeros_(layer.bias)
    (reason,) = saved.explain(["red fork red"], labels=["two"])
    tokens = saved.encoder.prepare(Dataset.from_arrays(None, [[1]], texts=["red fork red"]))[0]
    _, slots = saved.encoder.words_in("red fork red")
    each = inner.embedding((tokens + 1).long()).detach() / len(tokens)
    worth = each @ saved.head.classifier.weight[1, -8:].detach()
    want = {'"red"': worth[slots[0] == 0].sum(), '"fork"': worth[slots[0] == 1].sum()}
    assert dict(reason.terms) == pytest.approx({k: float(v) for k, v in want.items()}, abs=1e-4)


def test_tokens_know_their_words(text_model):
    encoder = model(networks(text_model)["windows"]).encoder
    words, slots = encoder.words_in("Red, red fork spoon")
    assert words == ["red", "fork", "spoon"]
    rows = Dataset.from_arrays(None, [[1]], texts=["Red, red fork spoon"])
    assert slots.shape == (2, 5)
    assert slots[0].tolist() == [-1, 0, 0, 0, -1]  # a comma belongs to its word
    assert slots[1].tolist() == [-1, 1, 2, -1, -1]
    filled = encoder.prepare(rows)[0].view(2, 5)
    assert ((filled < 0) == torch.tensor([[0] * 5, [0] * 4 + [1]]).bool()).all()
    assert Texts(encoder, rows).shape == (1, 3)
