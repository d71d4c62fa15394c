"""Encoders against scikit-learn and by hand; round trips; the cache."""

import json

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from labelset import encode
from labelset.data import Dataset, SparseRows, load

WORDS = [
    "red",
    "green",
    "blue",
    "fork",
    "knife",
    "spoon",
    "apple",
    "pear",
    "Über",
    "naïve",
    "42nd",
    "x",
    "a1",
]


def texts(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    return [", ".join(rng.choice(WORDS, rng.integers(0, 12))) for _ in range(rows)]


def text_data(rows=60):
    split = torch.arange(rows) % 3
    return Dataset.from_arrays(None, torch.ones(rows, 1), texts=texts(rows), split=split)


def every_kind():
    rng = torch.Generator().manual_seed(0)
    y, split = torch.ones(30, 1), [0, 1, 2] * 10
    dense = Dataset.from_arrays(torch.randn(30, 4, generator=rng), y, split=split)
    thin = sparse.random(30, 8, 0.3, format="csr", random_state=0)
    images = torch.randint(0, 256, (30, 3, 9, 12), generator=rng).to(torch.uint8)
    return {
        "features": dense,
        "sparse": Dataset.from_arrays(thin, y, split=split),
        "tfidf": text_data(30),
        "svd": text_data(30),
        "words": text_data(30),
        "conv": Dataset.from_arrays(images=images, labels=y, split=split),
    }


SETTINGS = {
    "sparse": ("features", {}),
    "svd": ("tfidf", {"svd": 3}),
    "words": ("tfidf", {"characters": 0}),
}


def made(kind):
    name, settings = SETTINGS.get(kind, (kind, {}))
    return encode.build(name, **settings)


def plain(x):
    return x.dense() if isinstance(x, SparseRows) else x


def test_dense_features_are_standardised_by_training_rows():
    x = np.random.default_rng(0).normal(3, [1, 10, 0.1, 1], (50, 4)).astype(np.float32)
    x[3, 1] = x[40, 1] = np.nan
    x[:, 3] = 1e6  # never changes
    split = np.arange(50) >= 30
    data = Dataset.from_arrays(x, np.ones((50, 1)), split=2 * split)
    got = encode.encoded(encode.build("features"), data)[1]
    want = StandardScaler().fit(x[~split].astype(np.float64)).transform(x)
    np.testing.assert_allclose(got[:, :3], np.nan_to_num(want)[:, :3], atol=2e-4)
    assert (got[:, 3] == 0).all()


def test_a_wild_number_stays_finite():
    data = Dataset.from_arrays([[0.0], [1e-30], [3e38]], [[1]] * 3, split=[0, 0, 2])
    assert encode.encoded(encode.build("features"), data)[1].isfinite().all()


def test_sparse_features_are_scaled_by_the_largest():
    x = sparse.random(
        40, 12, 0.3, format="csr", random_state=1, data_rvs=lambda n: np.arange(n) - 20.0
    )
    data = Dataset.from_arrays(x, np.ones((40, 1)), split=[0] * 25 + [2] * 15)
    got = encode.encoded(encode.build("features"), data)[1]
    assert isinstance(got, SparseRows)
    want = MaxAbsScaler().fit(x[:25]).transform(x)
    np.testing.assert_allclose(got.dense(), want.toarray(), rtol=1e-6)


def test_missing_sparse_numbers_become_0():
    x = SparseRows.from_csr([0, 1, 2], [0, 0], 2, [float("nan"), 4.0])
    data = Dataset.from_arrays(x, [[1], [1]])
    assert encode.build("features").fit(data)(data).dense().tolist() == [[0, 0], [1, 0]]


def test_svd_spans_what_scikit_learns_does():
    data = text_data(90)
    encoder = encode.build("tfidf", svd=4, characters=0).fit(data)
    x = encode.build("tfidf", characters=0).fit(data)(data).dense()
    v = encoder.learnt["directions"]
    best = TruncatedSVD(4, algorithm="arpack").fit(x.numpy()).components_
    kept, most = (x @ v).square().sum(), ((x.numpy() @ best.T) ** 2).sum()
    torch.testing.assert_close(v.T @ v, torch.eye(4), atol=1e-4, rtol=0)
    assert kept >= 0.999 * most
    got = encoder(data)
    torch.testing.assert_close(got.mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(got.std(0, correction=0), torch.ones(4), atol=1e-4, rtol=0)


def test_bad_input_is_named():
    data = text_data(9)
    with pytest.raises(ValueError, match="lower `least`"):
        encode.build("tfidf", least=100).fit(data)
    with pytest.raises(ValueError, match="svd must be at most"):
        encode.build("tfidf", svd=500).fit(data)
    with pytest.raises(ValueError, match="has no features"):
        encode.build("features").fit(data)
    with pytest.raises(ValueError, match="needs images"):
        encode.build("conv").fit(data)
    with pytest.raises(RuntimeError, match="fitted first"):
        encode.build("tfidf")(data)
    with pytest.raises(TypeError, match="svd"):
        encode.build("tfidf", sdv=3)
    with pytest.raises(ValueError, match="no features, texts or images"):
        encode.default_for(Dataset.from_arrays(None, [[1]]))
    two, three = (Dataset.from_arrays(torch.ones(2, n), [[1]] * 2) for n in (2, 3))
    with pytest.raises(ValueError, match="trained on 2 features, got 3"):
        encode.build("features").fit(two)(three)


@pytest.mark.parametrize("kind", ["features", "sparse", "tfidf", "svd", "words", "conv"])
def test_round_trip_through_json_and_tensors(kind):
    data = every_kind()[kind]
    encoder = made(kind).fit(data.part("train"))
    if encoder.module is not None:
        encoder.module(data.images)  # batch norm learns something
    saved = json.loads(json.dumps(encoder.as_json()))
    twin = encode.from_json(saved, {k: t.clone() for k, t in encoder.state().items()})
    assert torch.equal(plain(twin(data)), plain(encoder(data)))
    unfitted = encode.from_json(made(kind).as_json(), {})
    assert not unfitted.fitted


@pytest.mark.parametrize("kind", ["tfidf", "svd"])
def test_what_is_costly_is_computed_once(kind, tmp_path, monkeypatch):
    data = every_kind()[kind]
    first, x = encode.encoded(made(kind), data, tmp_path)
    (file,) = tmp_path.iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(type(first), "fit", None)
        patch.setattr(type(first), "prepare", None)
        second, again = encode.encoded(made(kind), data, tmp_path)
    assert torch.equal(plain(x), plain(again))
    assert torch.equal(plain(second(data)), plain(x))
    file.write_bytes(file.read_bytes()[:200])  # damaged: made anew
    assert torch.equal(plain(encode.encoded(made(kind), data, tmp_path)[1]), plain(x))
    other = Dataset.from_arrays(
        None, data.labels, texts=[*data.texts[:-1], "new"], split=data.split
    )
    encode.encoded(made(kind), other, tmp_path)
    encode.encoded(encode.build("tfidf", words=1), data, tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_what_another_version_has_kept_is_not_read(tmp_path, monkeypatch):
    data = text_data()
    x = encode.encoded(encode.build("tfidf"), data, tmp_path)[1]
    for name, other in (("labelset.__version__", "0.0"), ("labelset.encode._cache.FORMAT", -1)):
        with monkeypatch.context() as patch:
            patch.setattr(name, other)
            patch.setattr("labelset.encode._cache._read", None)  # would fail
            assert torch.equal(
                plain(encode.encoded(encode.build("tfidf"), data, tmp_path)[1]), plain(x)
            )
    assert len(list(tmp_path.iterdir())) == 3


def test_what_does_not_fit_together_is_computed_again(tmp_path):
    """A file as long as it should be, of which a tensor says something else."""
    data = text_data()
    x = encode.encoded(encode.build("tfidf"), data, tmp_path)[1]
    (path,) = tmp_path.iterdir()
    with np.load(path) as file:
        held = dict(file)
    for name in ("state.words.starts", "facts"):
        changed = "{}" if name == "facts" else held[name][::-1]
        with path.open("wb") as file:
            np.savez(file, **held | {name: changed})
        coder, again = encode.encoded(encode.build("tfidf"), data, tmp_path)
        assert torch.equal(plain(again), plain(x))
        assert torch.equal(plain(coder(data)), plain(x))


def test_the_test_part_teaches_nothing():
    for kind, data in every_kind().items():
        held = made(kind).fit(data.part("train"))
        torch.manual_seed(0)
        one = encode.encoded(made(kind), data)[0]
        assert one.facts == held.facts
        for name, t in held.learnt.items():
            assert torch.equal(one.learnt[name], t), (kind, name)


def test_conv_takes_bytes_floats_and_large_pictures():
    torch.manual_seed(0)
    images = torch.randint(0, 256, (4, 3, 100, 40)).to(torch.uint8)
    data = Dataset.from_arrays(images=images, labels=[[1]] * 4)
    encoder = encode.build("conv", width=16, side=32).fit(data)
    assert encoder(data).shape == (4, 16)
    same = Dataset.from_arrays(images=images.float(), labels=[[1]] * 4)
    torch.testing.assert_close(encoder(same), encoder(data))
    tiny = Dataset.from_arrays(images=images[..., :3, :2], labels=[[1]] * 4)
    assert encoder(tiny).isfinite().all()


def test_modules_of_ones_own():
    data = every_kind()["conv"]
    flat = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 9 * 12, 5))
    encoder, inputs = encode.encoded(encode.as_encoder(flat, data), data)
    assert inputs.dtype == torch.uint8
    torch.testing.assert_close(encoder(data), flat(data.images / 255))
    with pytest.raises(ValueError, match="give it again"):
        encode.from_json(encoder.as_json(), {})
    with pytest.raises(TypeError, match="encoder must be"):
        encode.as_encoder(3, data)
    with pytest.raises(ValueError, match="images or features"):
        encode.as_encoder(flat, data).fit(text_data(3))


def test_times_in_seconds_keep_their_digits(tmp_path):
    """Float32 knows times since 1970 to two minutes only."""
    g = np.random.default_rng(0)
    x = np.stack([1.7e9 + g.integers(0, 60, 300), g.normal(size=300)], 1)
    y = (x[:, :1] > x[:, :1].mean()).astype(int)
    data = Dataset.from_arrays(x, y)
    due = (x - x.mean(0)) / x.std(0)
    encoder = encode.build("features").fit(data)
    got = encoder(data)
    assert got.dtype == torch.float32
    assert np.allclose(got, due, atol=1e-6)
    for row in (0, 299):  # whatever comes with it
        alone = encoder(Dataset.from_arrays(x[row : row + 1], y[row : row + 1]))
        assert torch.equal(alone[0], got[row])
    np.savez(tmp_path / "x.npz", X=x, Y=y)
    np.savetxt(
        tmp_path / "x.csv",
        np.concatenate([x, y], 1),
        delimiter=",",
        header="time,other,late",
        comments="",
        fmt="%.10f",
    )
    for name, flags in (("x.npz", {}), ("x.csv", {"labels": 1})):
        for memory in ({}, {"memory": 0}):
            read = load(tmp_path / name, **flags, **memory)
            found = encode.build("features").fit(read)(read)[:]
            assert np.allclose(found, due, atol=1e-6)


def test_ordinary_numbers_stay_in_float32():
    x = np.random.default_rng(0).normal(size=(9, 3))
    for given in (
        x,
        x * 1e5,
        np.float32(x * 1e9),
        (x * 1e3).astype(int),
        np.int64([[1 << 40]] * 9),
    ):
        assert Dataset.from_arrays(given, [[1]] * 9).features.dtype == torch.float32


def test_terms_of_further_texts_are_known_without_a_row_that_has_them():
    texts = ["red apple", "red fork, red knife"] * 60
    data = Dataset.from_arrays(None, torch.zeros(120, 1), texts=texts)
    plain = encode.build("tfidf", characters=0).fit(data)
    more = encode.build("tfidf", characters=0, also=["blue fork"]).fit(data)
    assert {*more.terms("words")} - {*plain.terms("words")} == {"blue", "blue fork"}
    columns = [more.terms("words").index(term) for term in plain.terms("words")]
    torch.testing.assert_close(more(data).dense()[:, columns], plain(data).dense())
    again = encode.from_json(json.loads(json.dumps(more.as_json())), more.state())
    assert again.terms("words") == more.terms("words")
