"""Pretrained networks in a folder: tiny ones, made here from a configuration."""

import json

import pytest
import torch

from labelset import encode
from labelset.data import Dataset

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vit")
    config = transformers.ViTConfig(
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=16,
        patch_size=8,
    )
    torch.manual_seed(0)
    transformers.ViTModel(config).save_pretrained(folder)
    look = {"image_mean": [0.4] * 3, "image_std": [0.2] * 3, "size": {"height": 16, "width": 16}}
    (folder / "preprocessor_config.json").write_text(json.dumps(look))
    return folder


def pictures(channels):
    g = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (6, channels, 16, 16), generator=g, dtype=torch.uint8)
    return Dataset.from_arrays(None, [[1], [0]] * 3, images=images)


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_go_through_a_network_from_a_folder(vit, channels):
    data = pictures(channels)
    encoder = encode.build("vision", model=str(vit), batch=4).fit(data)
    got = encoder(data)
    network = transformers.AutoModel.from_pretrained(str(vit)).eval()
    x = (data.images.float().expand(-1, 3, -1, -1) / 255 - 0.4) / 0.2
    with torch.no_grad():
        want = network(x).pooler_output
    want = (want - want.mean(0)) / want.std(0, correction=0)
    torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)
    again = encode.from_json(encoder.as_json(), encoder.state())
    assert torch.equal(again(data), got)


def test_pictures_of_another_size_are_made_to_fit(vit):
    images = torch.zeros(2, 3, 24, 40, dtype=torch.uint8)
    data = Dataset.from_arrays(None, [[1], [0]], images=images)
    assert encode.build("vision", model=str(vit)).fit(data)(data).shape == (2, 8)


def test_what_is_no_network_is_refused(tmp_path):
    for model, message in (("", "needs `model`"), (str(tmp_path), "no config.json")):
        with pytest.raises(ValueError, match=message):
            encode.build("vision", model=model).fit(pictures(1))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="cannot be read as a vision encoder"):
        encode.build("vision", model=str(tmp_path)).fit(pictures(1))
    with pytest.raises(ValueError, match="needs images"):
        encode.build("vision", model="x").fit(Dataset.from_arrays([[1.0]], [[1]]))


@pytest.mark.filterwarnings("ignore:Deprecated in 0.9.0")  # transformers 5.0 of its tokenizers
def test_texts_go_through_a_real_transformer(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "green", "apple", "fork"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    config = transformers.BertConfig(
        vocab_size=8,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
    )
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(tmp_path)
    texts = ["red apple", "green fork red", "fork", "red apple"]
    data = Dataset.from_arrays(None, [[1], [0]] * 2, texts=texts)
    got = encode.build("sentence", model=str(tmp_path), batch=3).fit(data)(data)
    assert got.shape == (4, 8)
    torch.testing.assert_close(got[0], got[3], atol=1e-5, rtol=1e-5)  # equal texts, equal rows
    assert not torch.allclose(got[0], got[1], atol=1e-2)
