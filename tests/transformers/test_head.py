"""The last layer swapped, saved, loaded and trained."""

import json

import pytest
import torch

import labelset as ls

transformers = pytest.importorskip("transformers")

SIZES = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 16, "num_labels": 11}
OF = {
    "Bert": (transformers.BertForSequenceClassification, transformers.BertConfig, SIZES),
    "Roberta": (transformers.RobertaForSequenceClassification, transformers.RobertaConfig, SIZES),
    "DistilBert": (
        transformers.DistilBertForSequenceClassification,
        transformers.DistilBertConfig,
        {"vocab_size": 30, "dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16}
        | {"num_labels": 11},
    ),
    "GPT2": (
        transformers.GPT2ForSequenceClassification,
        transformers.GPT2Config,
        {"vocab_size": 30, "n_embd": 16, "n_layer": 1, "n_head": 2, "num_labels": 11}
        | {"pad_token_id": 0},
    ),
    "ViT": (
        transformers.ViTForImageClassification,
        transformers.ViTConfig,
        {key: v for key, v in SIZES.items() if key != "vocab_size"}
        | {"image_size": 8, "patch_size": 4},
    ),
}
PLACE = {"Roberta": "classifier.out_proj", "GPT2": "score"}


def made(name, **changes):
    cls, config, sizes = OF[name]
    torch.manual_seed(0)
    return cls(config(**(sizes | changes))).eval()


def inputs(name):
    g = torch.Generator().manual_seed(0)
    if name == "ViT":
        return {"pixel_values": torch.randn(3, 3, 8, 8, generator=g)}
    return {"input_ids": torch.randint(2, 30, (3, 5), generator=g)}


@pytest.mark.parametrize("name", OF)
def test_round_trip(name, tmp_path, small):
    model = made(name)
    order = torch.randperm(11, generator=torch.Generator().manual_seed(5))
    head = small.lt.swap_head(model, "dft", k=2, slack=3, order=order)
    place = PLACE.get(name, "classifier")
    assert model.get_submodule(place) is head
    torch.nn.init.normal_(head.projection.weight)
    want = model(**inputs(name)).logits
    assert want.shape == (3, 11)
    model.save_pretrained(tmp_path)
    again = small.lt.from_pretrained(tmp_path)
    assert type(again) is type(model)
    assert torch.equal(again(**inputs(name)).logits, want)
    assert torch.equal(again.get_submodule(place).order, order)
    saved = json.loads((tmp_path / "config.json").read_text())["labelset"]["head"]
    assert saved == {"name": "dft", "at": place, "settings": {"k": 2, "slack": 3}}
    again.save_pretrained(tmp_path / "twice")
    thrice = small.lt.from_pretrained(tmp_path / "twice", cls=type(model))
    assert torch.equal(thrice(**inputs(name)).logits, want)


def test_what_the_head_can_say_is_proven_after_loading(tmp_path, small):
    model = made("Bert")
    small.lt.swap_head(model, "dft", k=2)
    model.save_pretrained(tmp_path)
    head = small.lt.from_pretrained(tmp_path).classifier
    sets = [[i, j] for i in range(11) for j in range(i)]
    assert set(ls.verify(head, ls.Labels.from_lists(sets, n=11)).status) == {"argmaxable"}


def test_other_precision(tmp_path, small):
    model = made("Bert")
    small.lt.swap_head(model, "dft", k=2)
    model.save_pretrained(tmp_path)
    again = small.lt.from_pretrained(tmp_path, dtype=torch.bfloat16)
    fixed = again.classifier.frequencies
    assert fixed.dtype == torch.bfloat16
    assert torch.equal(fixed, model.classifier.frequencies.bfloat16())
    torch.testing.assert_close(
        again(**inputs("Bert")).logits.float(), model(**inputs("Bert")).logits, rtol=0.1, atol=0.1
    )
    half = made("Bert").bfloat16()
    assert small.lt.swap_head(half, "dft", k=1).projection.weight.dtype == torch.bfloat16


def test_swapped_twice_and_a_plain_model(tmp_path, small):
    model = made("Bert")
    small.lt.swap_head(model, "dft", k=2)
    small.lt.swap_head(model, "linear", rank=4)
    model.save_pretrained(tmp_path)
    again = small.lt.from_pretrained(tmp_path)
    assert again.classifier.settings["rank"] == 4
    plain = made("Bert")
    plain.save_pretrained(tmp_path / "plain")
    loaded = small.lt.from_pretrained(tmp_path / "plain")
    assert type(loaded.classifier) is torch.nn.Linear
    assert torch.equal(loaded(**inputs("Bert")).logits, plain(**inputs("Bert")).logits)


def test_which_layer(small):
    wide = made("Bert", num_labels=16)  # all layers inside are 16 wide, too
    assert small.lt.swap_head(wide, "linear", rank=2) is wide.classifier
    model = made("Bert")
    with pytest.raises(ValueError, match="must be a linear layer, got BertEncoder"):
        small.lt.swap_head(model, "dft", at="bert.encoder", k=2)
    with pytest.raises(ValueError, match="2 k \\+ 1 <= labels"):
        small.lt.swap_head(model, "dft", k=6)
    assert not hasattr(model.config, "labelset")
    model.classifier = torch.nn.Identity()
    with pytest.raises(ValueError, match="none has that width"):
        small.lt.swap_head(model, "dft", k=2)


def test_damaged_configs_are_refused(tmp_path, small):
    model = made("Bert")
    small.lt.swap_head(model, "dft", k=2)
    model.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    whole = json.loads(file.read_text())
    for head in ({}, {"at": "nowhere", "name": "dft", "settings": {}}, {"name": "dft"}, "x"):
        file.write_text(json.dumps(whole | {"labelset": {"head": head}}))
        with pytest.raises(ValueError, match="describes no head of this model"):
            small.lt.from_pretrained(tmp_path)
    for architectures in (["pipeline"], ["BertConfig"], []):
        file.write_text(json.dumps(whole | {"architectures": architectures}))
        with pytest.raises(ValueError, match="give `cls`"):
            small.lt.from_pretrained(tmp_path)


def test_a_trainer_trains_it(small, tmp_path):
    model = small.model()
    head = small.lt.swap_head(model, "dft", k=2)
    before, fixed = small.weights(model), head.frequencies.clone()
    made = small.trainer("ours", 12, 1, loss="spa", model=model)
    made.train()
    assert (small.weights(model) - before).abs().max() > 1e-3
    assert torch.equal(head.frequencies, fixed)
    made.save_model(str(tmp_path / "saved"))
    again = small.lt.from_pretrained(tmp_path / "saved")
    assert torch.equal(small.weights(again), small.weights(model))
