"""The small network for texts that is trained from scratch."""

import json

import pytest
import torch

from labelset import encode
from labelset.data import Dataset
from labelset.train import Settings, train

pytest.importorskip("tokenizers")
WORDS = ["red", "green", "apple", "fork", "spoon", "table", "日本語", "ไทย", "naïve"]


def text_data(rows=120):
    g = torch.Generator().manual_seed(0)
    texts = [
        " ".join(WORDS[i] for i in torch.randint(len(WORDS), (1 + row % 7,), generator=g))
        for row in range(rows)
    ]
    labels = [[int(w in text.split()) for w in ("red", "fork", "日本語")] for text in texts]
    split = [0] * (rows - 40) + [1] * 20 + [2] * 20
    return Dataset.from_arrays(None, labels, texts=texts, split=split)


def test_features_are_maxima_of_convolutions_and_the_mean():
    data = text_data()
    encoder = encode.build("text", width=6, vocabulary=300).fit(data.part("train"))
    network = encoder.module.eval()
    ids = encoder.prepare(data)
    row = int((ids >= 0).sum(1).argmin())
    tokens = ids[row][ids[row] >= 0].long() + 1
    with torch.no_grad():
        e = network.embedding(tokens).T
        want = [torch.relu(layer(e[None])[0]).amax(1) for layer in network.layers]
    want = torch.cat([*want, e.mean(1)])
    torch.testing.assert_close(encoder(data)[row], want)


def test_no_letter_is_unknown_and_a_text_may_be_empty():
    encoder = encode.build("text", width=4, vocabulary=300).fit(text_data())
    rows = Dataset.from_arrays(None, [[1]] * 3, texts=["ελληνικά 😀", "", "x" * 5000])
    ids = encoder.prepare(rows)
    assert (ids[0] >= 0).sum() > 5
    assert ids.shape[1] == 512
    assert encoder(rows).isfinite().all()


def test_it_learns_is_saved_and_resumed(tmp_path):
    data = text_data()
    settings = Settings(epochs=8, lr=0.02, batch=16)
    encoder = encode.build("text", width=16, vocabulary=400)
    done = train(data, settings, encoder=encoder)
    assert done.history[done.best_epoch]["valid"] > 0.95
    saved = json.loads(json.dumps(done.encoder.as_json()))
    again = encode.from_json(saved, {k: t.clone() for k, t in done.encoder.state().items()})
    assert torch.equal(again(data), done.encoder(data))

    def stop(news):
        if news.epoch == 3:
            raise KeyboardInterrupt

    train(data, settings, tmp_path, encoder=encoder, progress=stop, save_seconds=0.0)
    resumed = train(data, settings, tmp_path, resume=True, encoder=encoder)
    assert torch.equal(resumed.scores["test"], done.scores["test"])


def test_crafted_files_are_refused():
    encoder = encode.build("text", width=4, vocabulary=300).fit(text_data())
    state = encoder.state()
    facts = encoder.as_json()
    with pytest.raises(ValueError, match="not as many rows"):
        encode.from_json(facts | {"facts": {"tokens": 1 << 40}}, state)
    with pytest.raises(ValueError, match="tokeniser as bytes"):
        encode.from_json(facts, {k: t for k, t in state.items() if k != "tokeniser"})
    broken = encode.from_json(facts, state | {"tokeniser": state["tokeniser"][:40]})
    with pytest.raises(ValueError, match="tokeniser is damaged"):
        broken(text_data())
    with pytest.raises(ValueError, match="needs texts"):
        encode.build("text").fit(Dataset.from_arrays([[1.0]], [[1]]))
