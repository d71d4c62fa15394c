"""Estimators in files that somebody has made by hand: refused in words, or harmless."""

import contextlib
import json
import re
from dataclasses import dataclass

import pytest
import torch

from labelset.calibrate import build as build_calibrator
from labelset.cli import main
from labelset.data import Dataset, SparseRows
from labelset.encode import as_encoder
from labelset.heads import build as build_head
from labelset.heads import restored
from labelset.model import Blend, Forest, Mlp, NoScore, Part, SavedModel, Scorer
from labelset.model.blend import estimator
from labelset.model.kernel import KernelMachine

FEATURES, LABELS = 3, 6
BARE = re.compile(r"state_dict|size mismatch|allocat|unhashable|index|object is not|codec|JSON:")
DTYPES = (torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.uint8)


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


ROWS = Dataset.from_arrays(drawn(8, FEATURES), torch.ones(8, LABELS))


def forest():
    leaves = SparseRows.from_csr([0, 1, 2, 2, 3], [0, 1, 5], LABELS, [1.0, 0.25, 0.5])
    feature = torch.tensor([1, -1, 0, -1, -1, -1])
    return Forest(feature, torch.zeros(6), torch.tensor([0, 5, 6]), leaves, FEATURES)


def kernel():
    return KernelMachine(drawn(5, FEATURES), drawn(5, LABELS), drawn(LABELS), gamma=0.5)


def mlp():
    inner = drawn(1, 2, 4, 4)
    weights = [drawn(FEATURES), drawn(FEATURES, 2, 4), inner, drawn(2, 2, 4), drawn(2, 4, LABELS)]
    return Mlp(*weights, drawn(2, LABELS), None)


def head(name, **settings):
    return build_head(name, features=FEATURES, labels=LABELS, **settings)


def blend():
    models = [kernel(), head("dft", k=1, slack=2)]
    return Blend(tuple(Part("part", 0.5, model, build_calibrator("link")) for model in models))


MADE = {"forest": forest, "kernel": kernel, "mlp": mlp, "blend": blend}


@dataclass
class Crafted:
    """What is written in place of an estimator."""

    kind: str
    held: dict
    labels: int = LABELS

    def tensors(self):
        return self.held


def extremes(t):
    """Numbers that are hardly ever meant."""
    if t.is_floating_point():
        return torch.nan, torch.inf, -torch.inf, torch.finfo(t.dtype).max, 0.0
    return torch.iinfo(t.dtype).min, torch.iinfo(t.dtype).max, 0


def changed(t):
    """A tensor with one thing wrong, in every way there is."""
    yield from (t[:-1], t[:0], torch.cat([t, t]), t[None], t.flatten(), t.flip(0))
    yield from (t.to(dtype) for dtype in DTYPES if dtype != t.dtype)
    for value in extremes(t):
        yield torch.full_like(t, value)
        for at in (0, t.numel() - 1):
            one = t.clone().flatten()
            one[at] = value
            yield one.view(t.shape)


def files(tensors):
    """Files with one tensor changed, missing, or too many."""
    for name, t in tensors.items():
        others = {key: value for key, value in tensors.items() if key != name}
        yield others
        yield tensors | {f"{name}.more": t.clone()}
        yield from (others | {name: one.clone()} for one in changed(t))


def opened(folder, kind, held):
    """The run that holds such a file, or what is said of it."""
    SavedModel([*"abcdef"], estimator=Crafted(kind, held), encoder=ENCODER).save(folder)
    try:
        return SavedModel.open(folder)
    except ValueError as error:
        said = str(error)
        assert said.startswith(f"{folder}: damaged run: "), said
        assert not BARE.search(said), said
        return said


ENCODER = as_encoder(None, ROWS).fit(ROWS)


@pytest.mark.parametrize("kind", MADE)
def test_a_crafted_file_is_refused_in_words_or_gives_scores(kind):
    refused = 0
    for held in files(MADE[kind]().tensors()):
        model, said = None, ""
        try:
            model = estimator(kind).from_tensors(held)
        except ValueError as error:
            said = str(error)
        assert not BARE.search(said)
        refused += bool(said)
        if model is not None:
            with contextlib.suppress(NoScore):
                assert model.scores(ROWS.features).shape == (8, LABELS)
    assert refused > 20


def about(change):
    """A blend that says something else of its parts."""
    held = blend().tensors()
    parts = json.loads(bytes(held["about"].tolist()))
    text = json.dumps(change(parts)).encode()
    return held | {"about": torch.tensor(list(text), dtype=torch.uint8)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda parts: {}, "a list of at most 64 parts"),
        (lambda parts: parts * 40, "a list of at most 64 parts"),
        (lambda parts: [parts[0] | {"weight": 1.0}], "has tensors of others, too"),
        (lambda parts: [3, *parts[1:]], "part 0 of a blend must be a dict, got 3"),
        (lambda parts: [parts[0] | {"kind": "blend"}, *parts[1:]], "a blend of blends"),
        (lambda parts: [parts[0] | {"kind": ["a"]}, *parts[1:]], "no estimator is called"),
        (lambda parts: [parts[0] | {"weight": 0.75}, *parts[1:]], "must add up to 1"),
        (lambda parts: [parts[0] | {"weight": float("nan")}, *parts[1:]], "must add up to 1"),
    ],
)
def test_what_a_blend_says_of_its_parts_is_checked(change, message, tmp_path):
    assert message in opened(tmp_path, "blend", about(change))


@pytest.mark.parametrize("name", ["labels", "features", "k", "slack"])
@pytest.mark.parametrize("size", [10**12, 7, 0, -1, 2.5, "many", None])
def test_a_head_of_another_size_than_its_tensors_is_never_made(name, size):
    made = head("dft", k=1, slack=2)
    settings = made.settings | {name: size}
    with pytest.raises((ValueError, TypeError)) as caught:
        restored("dft", settings, made.state_dict())
    assert not BARE.search(str(caught.value))


def test_a_row_without_a_score_is_named_by_file_and_number(tmp_path, capsys, monkeypatch):
    encoder, right = as_encoder(None, ROWS).fit(ROWS), Scorer.__call__
    SavedModel([*"abcdef"], head=head("linear"), encoder=encoder).save(tmp_path / "run")

    def wrong(scorer, dataset):
        scores = right(scorer, dataset)
        scores[(dataset.features[:, 0] == 9).nonzero()] = torch.nan
        return scores

    monkeypatch.setattr(Scorer, "__call__", wrong)
    rows = [[0.0] * FEATURES] * 3000
    rows[2500] = [9.0] * FEATURES
    text = "".join(json.dumps({"features": row}) + "\n" for row in rows)
    (tmp_path / "rows.jsonl").write_text(text)
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "rows.jsonl")]) == 2
    said = capsys.readouterr().err
    assert (
        f"{tmp_path / 'rows.jsonl'}: row 2500: the model's score of label 0 is not a number" in said
    )
