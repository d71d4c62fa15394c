"""One way from rows to scores: whatever batch a row comes in, its score has the same bytes."""

import numpy as np
import pytest
import torch

from labelset import heads
from labelset.data import Dataset, SparseRows, ensure_split
from labelset.encode import build
from labelset.model import SavedModel, Scorer, scorer
from labelset.train import Settings, train

HEADS = [
    ("linear", {}),
    ("linear", {"rank": 5}),
    ("dft", {"k": 3, "slack": 2}),
]


def bytes_of(scores):
    assert scores.dtype == torch.float32
    return scores.numpy().tobytes()


def rows(count=300, width=40):
    drawn = np.random.default_rng(0).normal(size=(count, width)) * 3
    return np.where(np.random.default_rng(1).random((count, width)) < 0.5, drawn, 0.0)


@pytest.mark.parametrize(("name", "settings"), HEADS)
def test_scores_do_not_depend_on_the_batch(name, settings, monkeypatch):
    torch.manual_seed(0)
    score = Scorer(heads.build(name, features=40, labels=30, **settings)).of_features
    x = torch.from_numpy(rows()).float()
    whole = score(x)
    for size in (1, 7, 64):
        assert bytes_of(torch.cat([score(part) for part in x.split(size)])) == bytes_of(whole)
    assert bytes_of(score(x.flip(0)).flip(0)) == bytes_of(whole)
    monkeypatch.setattr(scorer, "MOST", 16)
    assert bytes_of(score(x)) == bytes_of(whole)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert bytes_of(score(x)) == bytes_of(whole)
    finally:
        torch.set_num_threads(before)


def test_float32_sums_would_depend_on_it():
    """The law above sees what it is there for."""
    torch.manual_seed(0)
    head = heads.build("linear", features=1000, labels=300)
    x = torch.randn(100, 1000) * 100
    shuffled = torch.randperm(1000)
    head_too = torch.nn.functional.linear(x[:, shuffled], head.matrix()[0][:, shuffled])
    assert not torch.equal(head_too, torch.nn.functional.linear(x, head.matrix()[0]))
    wide = head.matrix()[0].double()
    turned = (x.double()[:, shuffled] @ wide[:, shuffled].T).float()
    assert torch.equal(turned, (x.double() @ wide.T).float())


@pytest.mark.parametrize(("name", "settings"), HEADS)
def test_sparse_rows_score_as_dense_ones(name, settings):
    torch.manual_seed(0)
    made = Scorer(heads.build(name, features=40, labels=30, **settings))
    dense = torch.from_numpy(rows()).float()
    row, column = dense.nonzero(as_tuple=True)
    indptr = np.concatenate([[0], np.bincount(row.numpy(), minlength=len(dense)).cumsum()])
    sparse = SparseRows.from_csr(indptr, column.numpy(), 40, dense[row, column].numpy())
    assert bytes_of(made.of_features(sparse)) == bytes_of(made.of_features(dense))
    assert bytes_of(made.of_features(sparse[[5]])) == bytes_of(made.of_features(dense[[5]]))


def test_a_scorer_keeps_the_head_as_it_was():
    head = heads.build("linear", features=2, labels=2)
    made, x = Scorer(head), torch.ones(1, 2)
    before = made.of_features(x)
    assert torch.allclose(before, head(x), atol=1e-6)
    assert head.matrix()[0].dtype == torch.float32
    with torch.no_grad():
        head.matrix()[0].add_(1.0)
    assert torch.equal(made.of_features(x), before)
    assert made.of_features(x[:0]).shape == (0, 2)


def test_rows_go_through_encoder_and_head():
    x = rows(60, 4)
    data = ensure_split(Dataset.from_arrays(x, (x[:, :3] > 0).astype(float)), seed=0)
    trained = train(data, Settings(epochs=1))
    run = SavedModel(names=data.names, head=trained.head, encoder=trained.encoder)
    whole = run.score(data)
    assert torch.allclose(whole, trained.logits(data), atol=1e-5)
    each = run.scorer()
    parts = [each(data.rows(torch.arange(i, i + 20))) for i in (0, 20, 40)]
    assert bytes_of(torch.cat(parts)) == bytes_of(whole)
    with pytest.raises(ValueError, match="only scores"):
        SavedModel(names=["a"]).score(data)
    with pytest.raises(ValueError, match="of_features"):
        Scorer(trained.head)(data)
    assert build("features").fit(data)(data).shape == (60, 4)
