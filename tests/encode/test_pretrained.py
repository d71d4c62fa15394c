"""Pretrained networks in a folder: tiny ones, made from a configuration."""

import copy
import json
import shutil
import sys

import pytest
import torch

from labelset import encode
from labelset.data import Dataset
from labelset.train import Settings, train

transformers = pytest.importorskip("transformers")
TEXTS = ["red apple", "the green fork and a red spoon", "fork", "red apple", "", "zebra"]


def text_data(texts=TEXTS):
    labels = [[int("red" in text), int("fork" in text)] for text in texts]
    return Dataset.from_arrays(None, labels, texts=texts)


def picture_data(channels=3, rows=6, size=16):
    g = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (rows, channels, size, size), generator=g, dtype=torch.uint8)
    return Dataset.from_arrays(None, [[i % 2] for i in range(rows)], images=images)


def hidden(folder, text):
    """What the network itself makes of one text."""
    tokeniser = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModel.from_pretrained(folder).eval()
    ids = torch.tensor([tokeniser.backend_tokenizer.encode(text).ids])
    with torch.no_grad():
        return network(input_ids=ids).last_hidden_state[0]


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
def test_texts_are_pooled_states_of_the_network(text_model, pooling):
    data = text_data()
    encoder = encode.build("transformer", model=str(text_model), pooling=pooling).fit(data)
    states = [hidden(text_model, text) for text in TEXTS]
    pooled = {"mean": lambda h: h.mean(0), "first": lambda h: h[0], "last": lambda h: h[-1]}
    want = torch.stack([pooled[pooling](h) for h in states])
    torch.testing.assert_close(encoder(data), want, atol=1e-5, rtol=1e-4)
    assert torch.equal(encoder(data)[0], encoder(data)[3])


def test_a_long_text_is_windows_pooled_together(text_model):
    long = "red green blue small large apple fork spoon"
    settings = {"model": str(text_model), "length": 5}
    data = text_data([long, "red"])
    cut = encode.build("transformer", **settings).fit(data)(data)
    all_of_it = encode.build("transformer", **settings, windows=3).fit(data)(data)
    parts = ["red green blue", "small large apple", "fork spoon"]
    want = torch.cat([hidden(text_model, part) for part in parts]).mean(0)
    torch.testing.assert_close(all_of_it[0], want, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(cut[0], hidden(text_model, parts[0]).mean(0), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(cut[1], all_of_it[1], atol=1e-5, rtol=1e-4)


def test_every_token_for_heads_that_attend(text_model):
    long = "red green blue small large apple fork spoon"
    data = text_data([long, "red"])
    settings = {"model": str(text_model), "length": 5, "windows": 3}
    states = encode.build("transformer", **settings, places=True).fit(data)(data)
    assert states.shape == (2, 15, 16)
    parts = ["red green blue", "small large apple", "fork spoon"]
    want = torch.cat([hidden(text_model, part) for part in parts])
    there = (states != 0).any(2)
    torch.testing.assert_close(states[0][there[0]], want, atol=1e-5, rtol=1e-4)
    assert there[1].tolist() == [True] * 3 + [False] * 12
    pooled = encode.build("transformer", **settings).fit(data)
    torch.testing.assert_close(pooled.by_place()(data), states)
    with pytest.raises(ValueError, match="places is for networks that are trained"):
        encode.build("transformer", model=str(text_model), layers=0, places=True)


def test_what_is_not_trained_stays_as_in_evaluation(text_model, picture_model):
    lower = encode.build("transformer", model=str(text_model), layers=1).fit(text_data()).module
    lower.train()
    inner = lower.inner
    assert not any(part.training for part in inner.embeddings.modules())
    assert not any(part.training for part in inner.encoder.layer[0].modules())
    assert all(part.training for part in inner.encoder.layer[1].modules())
    assert lower.dropout.training
    assert all(part.training for part in lower.eval().train().inner.encoder.layer[1].modules())


def test_windows_are_no_longer_than_the_network_has_places(text_model):
    data = text_data([" ".join(["red"] * 90)])
    encoder = encode.build("transformer", model=str(text_model), length=500, windows=9).fit(data)
    assert encoder(data).isfinite().all()
    assert encoder.prepare(data).shape == (1, 3 * 40)


@pytest.mark.parametrize("layers", [None, 1, 0])
def test_a_saved_one_gives_the_same_without_its_folder(text_model, layers, monkeypatch):
    data = text_data()
    encoder = encode.build("transformer", model=str(text_model), layers=layers).fit(data)
    saved = json.loads(json.dumps(encoder.as_json()))
    state = {name: t.clone() for name, t in encoder.state().items()}
    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", None)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", None)
    again = encode.from_json(saved, state)
    assert torch.equal(again(data), encoder(data))
    assert torch.equal(copy.deepcopy(again)(data), encoder(data))


def test_a_frozen_one_gives_standardised_features(text_model):
    data = text_data()
    encoder = encode.build("transformer", model=str(text_model), layers=0).fit(data)
    assert not encoder.learns
    assert encoder.costly
    x = encoder(data)
    torch.testing.assert_close(x.mean(0), torch.zeros(16), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std(0, correction=0), torch.ones(16), atol=1e-4, rtol=0)


def test_lower_layers_learn_slowly_or_not_at_all(text_model):
    data = text_data(TEXTS * 8)
    whole = encode.build("transformer", model=str(text_model), rate=0.5, decay=0.1).fit(data)
    rates = whole.rates()
    assert rates["inner.encoder.layer.1.output.dense.weight"] == pytest.approx(0.5)
    assert rates["inner.encoder.layer.0.output.dense.weight"] == pytest.approx(0.05)
    assert rates["inner.embeddings.word_embeddings.weight"] == pytest.approx(0.005)
    data = Dataset.from_arrays(None, data.labels, texts=data.texts, split=[0] * len(data))
    before = encode.build("transformer", model=str(text_model), layers=1).fit(data)
    start = {name: t.clone() for name, t in before.state().items()}
    trained = train(data, Settings(epochs=1), encoder=before).encoder.state()
    moved = {name for name, t in trained.items() if not torch.equal(t, start[name])}
    assert moved == {name for name in start if ".layer.1." in name}


def test_lora_trains_corrections_alone(text_model):
    pytest.importorskip("peft")
    data = text_data(TEXTS * 8)
    data = Dataset.from_arrays(None, data.labels, texts=data.texts, split=[0] * len(data))
    settings = {"model": str(text_model), "lora": 2, "rate": 1.0}
    plain = encode.build("transformer", model=str(text_model)).fit(data)
    before = encode.build("transformer", **settings).fit(data)
    torch.testing.assert_close(before(data), plain(data))  # they begin at 0
    start = {name: t.clone() for name, t in before.state().items()}
    done = train(data, Settings(epochs=2), encoder=before).encoder
    moved = {name for name, t in done.state().items() if not torch.equal(t, start[name])}
    assert moved
    assert all(".lora_" in name for name in moved)
    again = encode.from_json(json.loads(json.dumps(done.as_json())), done.state())
    assert torch.equal(again(data), done(data))
    with pytest.raises(ValueError, match="leave out layers"):
        encode.build("transformer", **settings, layers=1)


def test_training_with_its_rates_moves_lower_layers_less(text_model):
    data = text_data(TEXTS * 8)
    data = Dataset.from_arrays(None, data.labels, texts=data.texts, split=[0] * len(data))
    encoder = encode.build("transformer", model=str(text_model), decay=0.01, dropout=0.0)
    fitted = encoder.fit(data)
    start = {name: t.clone() for name, t in fitted.state().items()}
    done = train(data, Settings(epochs=2, weight_decay=0.0), encoder=fitted)
    after = done.encoder.state()
    name = "network.inner.encoder.layer.{}.output.dense.weight"
    low, high = ((after[n] - start[n]).abs().max() for n in (name.format(0), name.format(1)))
    assert 0 < 20 * low < high


def test_batches_have_rows_of_like_length(text_model):
    texts = ["red " * (1 + i % 30) for i in range(600)]
    data = text_data(texts)
    encoder = encode.build("transformer", model=str(text_model)).fit(data)
    ids = encoder.prepare(data)
    lengths = encoder.lengths(ids)
    assert lengths.tolist() == [3 + i % 30 for i in range(600)]
    from labelset.train.task import shuffled

    batches = shuffled(torch.arange(600), 32, 0, lengths)
    assert sorted(torch.cat(batches).tolist()) == list(range(600))
    used = sum(encoder.batch_of(ids[rows]).numel() for rows in batches)
    apart = sum(encoder.batch_of(ids[rows]).numel() for rows in shuffled(torch.arange(600), 32, 0))
    assert used < 1.15 * int(lengths.sum()) < 0.7 * apart
    other = shuffled(torch.arange(600), 32, 1, lengths)
    assert [b.tolist() for b in other] != [b.tolist() for b in batches]


def test_checkpointing_changes_no_gradient(text_model):
    data = text_data()
    slopes = []
    for checkpointing in (False, True):
        settings = {"model": str(text_model), "checkpointing": checkpointing, "dropout": 0.0}
        encoder = encode.build("transformer", **settings).fit(data)
        network = encoder.module.train()
        for part in network.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        network(encoder.prepare(data)).square().sum().backward()
        slopes.append([p.grad for p in network.parameters()])
    for a, b in zip(*slopes, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["transformer", "vision"])
def test_what_is_no_network_is_refused(name, tmp_path):
    data = text_data() if name == "transformer" else picture_data()
    for model, message in (
        ("", "needs `model`"),
        (str(tmp_path), "no config.json"),
        ("no_such_model", "neither a folder nor"),
    ):
        with pytest.raises(ValueError, match=message):
            encode.build(name, model=model).fit(data)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="cannot be read as a"):
        encode.build(name, model=str(tmp_path)).fit(data)
    wrong = picture_data() if name == "transformer" else text_data()
    with pytest.raises(ValueError, match=r"needs (texts|images)"):
        encode.build(name, model="json", layers=2).rows(wrong)


def test_a_folder_without_weights_or_of_another_kind(text_model, picture_model, tmp_path):
    (tmp_path / "config.json").write_text((text_model / "config.json").read_text())
    with pytest.raises(ValueError, match="cannot be read as a transformer"):
        encode.build("transformer", model=str(tmp_path)).fit(text_data())
    with pytest.raises(ValueError, match=r"cannot be read as|no text"):
        encode.build("transformer", model=str(picture_model)).fit(text_data())
    with pytest.raises(ValueError, match="none for pictures"):
        encode.build("vision", model=str(text_model)).fit(picture_data())


def changed(name, change):
    """For a copy of a folder: a file of it is changed as JSON."""

    def in_folder(folder):
        held = json.loads((folder / name).read_text())
        change(held)
        (folder / name).write_text(json.dumps(held))

    return in_folder


OWN_CODE = {"model_type": "x", "auto_map": {"AutoConfig": "a.B", "AutoModel": "a.C"}}


def cut_short(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def without_a_layer(folder):
    from safetensors.torch import load_file, save_file

    held = load_file(folder / "model.safetensors")
    rest = {name: t for name, t in held.items() if ".layer.1." not in name}
    save_file(rest, folder / "model.safetensors", metadata={"format": "pt"})


def without_a_tokeniser(folder):
    for file in folder.glob("token*"):
        file.unlink()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_a_layer, "16 of its weights, such as encoder.layer.1"),
        (changed("config.json", lambda c: c.update(hidden_size=32)), "of its weights, such as"),
        (cut_short, "cannot be read as"),
        (without_a_tokeniser, "no tokenizer.json, so that no word is known"),
        (lambda f: (f / "tokenizer.json").unlink(), "it has no tokenizer.json; networks"),
        (changed("tokenizer.json", lambda t: t["model"]["vocab"].update(red=99)), "up to 99"),
        (changed("config.json", lambda c: c.update(OWN_CODE)), "of its own, which is not run"),
    ],
)  # fmt: skip
def test_a_folder_that_is_incomplete_or_mixed_up(text_model, tmp_path, change, message):
    folder = shutil.copytree(text_model, tmp_path / "model")
    change(folder)
    with pytest.raises(ValueError, match=message):
        encode.build("transformer", model=folder).fit(text_data())
    with pytest.raises(ValueError, match=r"is a file; name the folder"):
        encode.build("transformer", model=folder / "config.json").fit(text_data())


def test_texts_may_hold_anything(text_model):
    odd = ["", " \n", "a\0b", "\ud800", "\U0001f389", "[SEP] [PAD]", "red " * 20_000]
    encoder = encode.build("transformer", model=text_model).fit(text_data())
    x = encoder(text_data(odd))
    assert x.isfinite().all()
    torch.testing.assert_close(encoder(text_data(odd[3:4])), x[3:4], atol=1e-5, rtol=1e-4)


def test_a_name_of_the_hub_without_a_network(monkeypatch):
    import socket

    def no(*_):
        raise OSError("no network")

    monkeypatch.setattr(socket, "getaddrinfo", no)
    monkeypatch.setattr("urllib.request.getproxies", dict)
    with pytest.raises(ValueError, match=r"nobody/nothing: no folder, and the hub is not reached"):
        encode.build("transformer", model="nobody/nothing").fit(text_data())


def test_without_transformers(text_model, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match="transformers"):
        encode.build("transformer", model=str(text_model)).fit(text_data())


def test_crafted_descriptions_are_refused(text_model):
    encoder = encode.build("transformer", model=str(text_model)).fit(text_data())
    state = encoder.state()

    def opened(change, left=state):
        saved = json.loads(json.dumps(encoder.as_json()))
        change(saved["facts"]["config"])
        return encode.from_json(saved, left)

    opened(lambda config: None)
    for key, value in (("hidden_size", 1 << 20), ("vocab_size", 1 << 40), ("num_hidden_layers", 3)):
        with pytest.raises(ValueError, match="not as its description says"):
            opened(lambda config, key=key, value=value: config.update({key: value}))
    with pytest.raises(ValueError, match="far more than its file holds"):  # nor takes forever
        opened(lambda config: config.update(num_hidden_layers=10**9))
    with pytest.raises(ValueError, match="no networks of type"):
        opened(lambda config: config.update(model_type="strange"))
    without = {name: t for name, t in state.items() if name != "tokeniser"}
    with pytest.raises(ValueError, match="keeps its tokeniser"):
        opened(lambda config: None, without)
    broken = state | {"tokeniser": state["tokeniser"].clone()[:50]}
    with pytest.raises(ValueError, match="tokeniser is damaged"):
        opened(lambda config: None, broken)(text_data())


# ---- pictures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_go_through_a_network_from_a_folder(picture_model, channels):
    data = picture_data(channels)
    encoder = encode.build("vision", model=str(picture_model)).fit(data)
    network = transformers.AutoModel.from_pretrained(str(picture_model)).eval()
    x = (data.images.float().expand(-1, 3, -1, -1) / 255 - 0.4) / 0.2
    with torch.no_grad():
        want = network(x).last_hidden_state.mean(1)
    torch.testing.assert_close(encoder(data), want, atol=1e-4, rtol=1e-4)
    again = encode.from_json(encoder.as_json(), encoder.state())
    assert torch.equal(again(data), encoder(data))
    frozen = encode.build("vision", model=str(picture_model), layers=0).fit(data)
    scaled = (want - want.mean(0)) / want.std(0, correction=0)
    torch.testing.assert_close(frozen(data), scaled, atol=1e-4, rtol=1e-4)


def test_pictures_of_another_size_are_made_to_fit(picture_model):
    images = torch.zeros(2, 3, 24, 40, dtype=torch.uint8)
    data = Dataset.from_arrays(None, [[1], [0]], images=images)
    assert encode.build("vision", model=str(picture_model)).fit(data)(data).shape == (2, 8)
    images = torch.zeros(2, 5, 24, 40, dtype=torch.uint8)
    data = Dataset.from_arrays(None, [[1], [0]], images=images)
    with pytest.raises(ValueError, match="got 5 channels"):
        encode.build("vision", model=str(picture_model)).fit(data).prepared(data)


def test_pictures_go_through_it_some_at_a_time(picture_model, monkeypatch):
    from labelset.encode import vision

    encoder = encode.build("vision", model=picture_model).fit(picture_data())
    together = encoder(picture_data())
    seen = []
    encoder.module.inner.register_forward_pre_hook(lambda _, x: seen.append(len(x[0])))
    monkeypatch.setattr(vision, "PIXELS", 2 * 16 * 16)
    torch.testing.assert_close(encoder(picture_data()), together, atol=1e-6, rtol=1e-5)
    assert seen == [2, 2, 2]


def test_layers_are_what_is_numbered_in_the_order_they_stand_in():
    from labelset.encode._pretrained import depths

    def line():
        return torch.nn.Linear(1, 1, bias=False)

    network = torch.nn.ModuleDict({"stem": line(), "a": torch.nn.Sequential(line(), line())})
    network.update({"b": torch.nn.Sequential(line()), "end": line()})
    assert [*depths(network)[0].values()] == [-1, 0, 1, 2, 2]
    assert depths(network)[1] == 3


def test_pictures_are_changed_in_training_only(picture_model):
    data = picture_data(size=64)
    encoder = encode.build("vision", model=str(picture_model), dropout=0.0).fit(data)
    augment = encoder.module.augment
    x = data.images.float() / 255
    assert torch.equal(encoder(data), encoder(data))
    for what in ("flip", "flip-vertical", "crop", "cutout", "colour"):
        augment.what = [what]
        torch.manual_seed(0)
        changed = torch.stack([augment(x) for _ in range(8)])
        assert changed.shape[1:] == x.shape
        assert not torch.equal(changed[0], changed[1]), what
    augment.what = ["flip"]
    one = augment(x)
    kept = [torch.equal(a, b) or torch.equal(a, b.flip(2)) for a, b in zip(one, x, strict=True)]
    assert all(kept)
    augment.what = []
    assert torch.equal(augment(x), x)
    with pytest.raises(ValueError, match="augment must be one of"):
        encode.build("vision", model="x", augment="flipp")


OWN = """
import torch

def small():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3, stride=2), torch.nn.ReLU())

def flat():
    return torch.nn.Conv2d(3, 6, 3)

def wrong():
    return 3
"""


def test_a_network_of_ones_own_is_made_by_a_function(tmp_path, monkeypatch):
    (tmp_path / "own_pictures.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    data = picture_data(size=32)
    encoder = encode.build("vision", model="own_pictures:small", side=32).fit(data)
    assert encoder(data).shape == (6, 6)
    saved, state = encoder.as_json(), encoder.state()
    assert torch.equal(encode.from_json(saved, state)(data), encoder(data))
    with pytest.raises(ValueError, match="no numbered layers"):
        encode.build("vision", model="own_pictures:flat", layers=1, side=32).fit(data)
    for model in ("own_pictures:wrong", "own_pictures:absent", "absent_module:f"):
        with pytest.raises(ValueError, match=f"{model}: "):
            encode.build("vision", model=model).fit(data)
    # of a model that comes from elsewhere, a function is called only where it is trusted
    from labelset.encode import vision

    monkeypatch.setattr(vision, "_called", set())
    unread = encode.from_json(saved, state)
    assert all(torch.equal(t, state[name]) for name, t in unread.state().items())
    assert unread.as_json() == saved
    with pytest.raises(ValueError, match="LABELSET_TRUST=own_pictures:small"):
        unread(data)
    monkeypatch.setenv("LABELSET_TRUST", "own_pictures:small")
    assert torch.equal(encode.from_json(saved, state)(data), encoder(data))
