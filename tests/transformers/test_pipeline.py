"""Link and thresholds, stored in the config, decide what a pipeline answers."""

import pytest
import torch

import labelset as ls

TEXTS = ["apple bread cup", "dog", "egg fork goat hat ink jug", "apple apple dog unheard"]


@pytest.fixture
def model(small):
    made = small.model(id2label=dict(enumerate("abcdef"))).eval()
    torch.nn.init.normal_(made.classifier.weight, std=3.0)
    return made


def scores(model, tokenizer):
    return torch.cat([model(**tokenizer(t, return_tensors="pt")).logits for t in TEXTS]).detach()


def fitted(small):
    """A map and a rule fitted to something, so that every label has another threshold."""
    g = torch.Generator().manual_seed(0)
    v = torch.randn(200, 6, generator=g)
    y = torch.rand(200, 6, generator=g) < torch.sigmoid(2 * v - 0.5)
    scaled = ls.calibrate.build("platt", per="label", loss="spa").fit(v, y)
    return scaled, ls.decide.build("per-class").fit(scaled(v), y)


def answers(p, sets):
    rows = []
    for i, row in enumerate(p):
        on = sorted((j for j in range(6) if sets[i, j]), key=lambda j: -row[j])
        rows.append([("abcdef"[j], pytest.approx(float(row[j]), rel=1e-5)) for j in on])
    return rows


def said(found):
    return [[(x["label"], x["score"]) for x in row] for row in found]


def test_link_and_half(small, model, tokenizer):
    small.lt.store(model, loss="spa")
    v = scores(model, tokenizer)
    p = ls.losses.build("spa").link(v)
    assert (p - torch.sigmoid(v)).abs().max() > 0.1
    pipe = small.lt.pipeline(model, tokenizer)
    want = answers(p, p >= 0.5)
    assert said(pipe(TEXTS)) == want
    assert said([pipe(TEXTS[0])]) == want[:1]
    assert 0 < sum(map(len, want)) < p.numel()


def test_fitted_map_and_thresholds_survive_saving(small, model, tokenizer, tmp_path):
    scaled, rule = fitted(small)
    small.lt.swap_head(model, "dft", k=2)
    torch.nn.init.normal_(model.classifier.projection.weight, std=3.0)
    small.lt.store(model, loss="spa", map=scaled, rule=rule)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    p = scaled(scores(model, tokenizer))
    want = answers(p, rule(p).dense() > 0)
    assert want != answers(p, p >= 0.5)
    pipe = small.lt.pipeline(str(tmp_path))
    assert said(pipe(TEXTS)) == want
    assert said(pipe(TEXTS, batch_size=2)) == want
    assert pipe.model.config.labelset["loss"]["name"] == "spa"


def test_top_k_is_whatever_the_thresholds(small, model, tokenizer):
    small.lt.store(model, loss="bce", rule=ls.decide.build("fixed", threshold=1.0))
    pipe = small.lt.pipeline(model, tokenizer)
    p = torch.sigmoid(scores(model, tokenizer))
    assert said(pipe(TEXTS)) == [[]] * 4
    assert said(pipe(TEXTS, top_k=None)) == answers(p, p >= 0)
    assert said(pipe(TEXTS, top_k=2)) == [row[:2] for row in answers(p, p >= 0)]
    always = small.lt.pipeline(model, tokenizer, top_k=1)
    assert said(always(TEXTS)) == [row[:1] for row in answers(p, p >= 0)]


def test_what_cannot_be_answered_is_refused(small, model, tokenizer):
    with pytest.raises(ValueError, match="does not say what its scores mean"):
        small.lt.pipeline(model, tokenizer)
    with pytest.raises(ValueError, match="many rows together"):
        small.lt.store(model, loss="bce", rule=ls.decide.build("budget", k=2))
    with pytest.raises(ls.decide.NotFitted):
        small.lt.store(model, loss="bce", rule="per-class")
    small.lt.store(model, loss="sigmoid-f1")
    pipe = small.lt.pipeline(model, tokenizer)
    with pytest.raises(ls.NoLink, match="Give it as `map`"):
        pipe(TEXTS[0])
    with pytest.raises(ValueError, match="function_to_apply"):
        pipe(TEXTS[0], function_to_apply="softmax")
    with pytest.raises(ValueError, match="needs its tokenizer"):
        small.lt.pipeline(model)
    model.config.labelset = {"predictor": {"calibrator": None}}
    with pytest.raises(ValueError, match="calibrator, rule and lacking"):
        small.lt.predictor(model)
