"""Networks that were trained with their heads, as ONNX files from tokens or pixels on."""

import numpy as np
import pytest
import torch

from labelset import encode, heads
from labelset.data import Dataset, Schema
from labelset.export import ExportFailed, begins, network, taken, to_onnx, to_torch
from labelset.model import SavedModel

onnxruntime = pytest.importorskip("onnxruntime")
TEXTS = ["red apple", "", "the green fork and a red spoon " * 3, "zebra", "red"]
NAMES = ["one", "two", "three"]


def saved(encoder, data, head="linear"):
    encoder.fit(data)
    encoder.module.eval()
    encoder = encoder.by_place() if head != "linear" else encoder
    built = heads.build(head, features=encoder(data).shape[-1], labels=3)
    g = torch.Generator().manual_seed(0)
    for p in built.parameters():
        p.data = torch.randn(p.shape, generator=g)
    about = {"schema": Schema.of(data).as_json()}
    return SavedModel(names=NAMES, loss="bce", head=built, encoder=encoder, about=about)


def texts(rows=TEXTS):
    return Dataset.from_arrays(None, [[1, 0, 1]] * len(rows), texts=rows, names=NAMES)


def pictures(size=(20, 24)):
    g = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (6, 3, *size), generator=g, dtype=torch.uint8)
    return Dataset.from_arrays(None, [[1, 0, 1]] * 6, images=images, names=NAMES)


def run(path, **given):
    got = onnxruntime.InferenceSession(path).run(None, given)
    return torch.from_numpy(got[0]), torch.from_numpy(got[2])


def networks(folder):
    return {
        "mean": encode.build("transformer", model=str(folder), length=12),
        "last": encode.build("transformer", model=str(folder), length=12, pooling="last"),
        "text": encode.build("text", width=8, vocabulary=300, length=9),
    }


@pytest.mark.parametrize(
    ("name", "head"),
    [("mean", "linear"), ("last", "linear"), ("mean", "label-attention"), ("text", "linear")],
)
def test_texts_have_the_same_scores_from_their_tokens_on(text_model, tmp_path, name, head):
    tokenizers = pytest.importorskip("tokenizers")
    model = saved(networks(text_model)[name], texts(), head)
    assert begins(model)
    to_onnx(model, tmp_path / "m.onnx")
    tokeniser = tokenizers.Tokenizer.from_file(str(tmp_path / "m.tokenizer.json"))
    for rows in (TEXTS, TEXTS[2:3], TEXTS[1:2] + TEXTS[:1]):
        each = tokeniser.encode_batch(rows)
        logits, sets = run(
            tmp_path / "m.onnx",
            input_ids=np.array([e.ids for e in each], dtype=np.int64),
            attention_mask=np.array([e.attention_mask for e in each], dtype=np.int64),
        )
        due = model.score(texts(rows))
        torch.testing.assert_close(logits, due, atol=1e-4, rtol=1e-4)
        assert torch.equal(sets, model.predictor.sets(due).dense() == 1)


@pytest.mark.parametrize("head", ["linear", "label-attention"])
@pytest.mark.parametrize("name", ["vision", "conv"])
def test_pictures_have_the_same_scores_from_their_pixels_on(picture_model, tmp_path, name, head):
    keys = {"model": str(picture_model)} if name == "vision" else {"width": 8}
    model = saved(encode.build(name, **keys), pictures(), head)
    to_onnx(model, tmp_path / "m.onnx")
    images = pictures().images
    logits, sets = run(tmp_path / "m.onnx", images=images.numpy())
    due = model.score(pictures())
    torch.testing.assert_close(logits, due, atol=1e-4, rtol=1e-4)
    assert torch.equal(sets, model.predictor.sets(due).dense() == 1)
    assert taken(model) == "images (uint8) of 3 x 20 x 24: channels, height, width"
    assert not (tmp_path / "m.tokenizer.json").exists()


def test_what_differs_is_not_written(text_model, tmp_path, monkeypatch):
    model = saved(networks(text_model)["mean"], texts())
    forward = network.Begun.forward
    monkeypatch.setattr(network.Begun, "forward", lambda *given: forward(*given) * 1.01)
    with pytest.raises(ExportFailed, match="logits differ"):
        to_onnx(model, tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_several_windows_begin_at_features(text_model, tmp_path):
    encoder = encode.build("transformer", model=str(text_model), length=6, windows=2)
    model = saved(encoder, texts())
    assert not begins(model)
    to_onnx(model, tmp_path / "m.onnx")
    logits, _ = run(tmp_path / "m.onnx", features=model.encoder(texts()).numpy())
    torch.testing.assert_close(logits, model.score(texts()), atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="several windows"):
        to_onnx(saved(encoder, texts(), "label-attention"), tmp_path / "m.onnx")
    alone = saved(networks(text_model)["mean"], texts(), "label-attention")
    with pytest.raises(ValueError, match="export an ONNX file"):
        to_torch(alone, tmp_path / "m.pt2")
