"""Label attention: what it computes, where rows end, and what it is trained and saved with."""

import math

import pytest
import torch

import labelset as ls
from labelset import encode, heads
from labelset.data import Dataset
from labelset.model import SavedModel, Split
from labelset.train import Settings, train

WORDS = ["red", "green", "blue", "apple", "fork", "spoon"]


def drawn(**settings):
    head = heads.build("label-attention", features=6, labels=4, **settings).double()
    g = torch.Generator().manual_seed(0)
    for p in head.parameters():
        p.data = torch.randn(p.shape, generator=g, dtype=torch.float64)
    return head.requires_grad_(False), torch.randn(3, 5, 6, generator=g, dtype=torch.float64)


@pytest.mark.parametrize("bias", [True, False])
def test_each_label_has_a_mean_of_its_own(bias):
    head, x = drawn(bias=bias)
    got = head(x)
    for row in range(3):
        for label in range(4):
            fits = [float(head.queries[label] @ h) / math.sqrt(6) for h in x[row]]
            shares = torch.tensor(fits, dtype=torch.float64).softmax(0)
            mean = (shares[:, None] * x[row]).sum(0)
            want = float(head.classifier.weight[label] @ mean)
            want += float(head.classifier.bias[label]) if bias else 0.0
            assert float(got[row, label]) == pytest.approx(want)


def test_it_begins_at_a_linear_head_on_the_mean():
    head = heads.build("label-attention", features=6, labels=4)
    x = torch.randn(2, 5, 6)
    torch.testing.assert_close(head(x), head.classifier(x.mean(1)))


def test_what_only_fills_a_row_up_counts_for_nothing():
    head, x = drawn()
    longer = torch.cat([x, torch.zeros(3, 7, 6, dtype=x.dtype)], 1)
    torch.testing.assert_close(head(longer), head(x))
    empty = head(torch.zeros(1, 7, 6, dtype=x.dtype))
    torch.testing.assert_close(empty[0], head.classifier.bias)


def test_there_is_nothing_to_verify_and_it_says_so():
    head, _ = drawn()
    with pytest.raises(heads.NoMatrix, match="no matrix to verify: each label has a mean"):
        ls.verify(head, [[1, 0, 0, 1]])


def texts(rows=120):
    g = torch.Generator().manual_seed(0)
    each = [[WORDS[i] for i in torch.randint(6, (1 + n % 9,), generator=g)] for n in range(rows)]
    y = [[int("red" in words), int("fork" in words)] for words in each]
    split = [0] * (rows - 40) + [1] * 20 + [2] * 20
    return Dataset.from_arrays(None, y, texts=[" ".join(words) for words in each], split=split)


def pictures(rows=60):
    images = torch.randint(0, 256, (rows, 3, 16, 16), dtype=torch.uint8)
    y = [[i % 2, int(i % 3 == 0)] for i in range(rows)]
    return Dataset.from_arrays(None, y, images=images, split=[0] * 40 + [1] * 10 + [2] * 10)


def test_it_is_trained_and_saved_with_its_network(tmp_path):
    data, settings = texts(), Settings(epochs=6, lr=0.02, head="label-attention")
    done = train(data, settings, encoder=encode.build("text", width=8, vocabulary=300))
    assert bool((done.head.queries != 0).any())
    assert done.history[done.best_epoch]["valid"] > 0.8
    part = data.part("test")
    torch.testing.assert_close(done.logits(part), done.scores["test"], atol=1e-5, rtol=1e-5)
    saved = SavedModel(
        names=["red", "fork"],
        loss="bce",
        splits={"valid": Split(data.part("valid").labels, done.scores["valid"])},
        head=done.head,
        encoder=done.encoder,
    )
    saved.save(tmp_path)
    assert torch.equal(SavedModel.open(tmp_path).score(part), done.logits(part))


def test_a_stopped_training_goes_on_to_the_same(tmp_path):
    data, settings = texts(), Settings(epochs=3, head="label-attention")
    encoder = encode.build("text", width=8, vocabulary=300)
    want = train(data, settings, encoder=encoder)

    def stopping(news):
        if news.epoch == 1:
            raise KeyboardInterrupt

    train(data, settings, tmp_path, encoder=encoder, progress=stopping)
    got = train(data, settings, tmp_path, resume=True, encoder=encoder)
    assert torch.equal(got.scores["test"], want.scores["test"])


def test_patches_of_pictures():
    data = pictures()
    settings = Settings(epochs=1, head="label-attention", monitor=None)
    done = train(data, settings, encoder=encode.build("conv", width=8))
    assert done.encoder(data.part("test")).shape == (10, 16, 8)
    torch.testing.assert_close(
        done.logits(data.part("test")), done.scores["test"], atol=1e-5, rtol=1e-5
    )


def test_only_networks_have_places():
    settings = Settings(epochs=1, head="label-attention")
    with pytest.raises(ValueError, match="'tfidf' gives a row as a whole; take transformer"):
        train(texts(), settings)
    with pytest.raises(ValueError, match="take the head label-attention"):
        train(texts(), Settings(), encoder=encode.build("text", width=8, places=True))
