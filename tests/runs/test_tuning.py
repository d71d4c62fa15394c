"""A folder holds one search; what else its file may say is told apart."""

import json

import pytest
import torch

from labelset.data import Dataset
from labelset.runs.tuning import Search
from labelset.train import Settings

X = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
DATA = Dataset.from_arrays(X, X > 0)


def search(**settings):
    return Search.of(DATA, "f1-micro", Settings(loss="focal", **settings), {})


def held(of):
    return json.dumps({"study": of.name, "search": of.facts})


def test_its_own_file_or_none_is_accepted(tmp_path):
    path = tmp_path / "tune.json"
    search().check_alone(path)
    path.write_text(held(search()))
    search().check_alone(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (held(search(epochs=7)), r"holds another search \(epochs 7, not \d+\); choose another"),
        ("nonsense", "is damaged; delete it, and the search goes on"),
        ("[1]", "is damaged"),
        ('{"study": "x", "search": 3}', "is damaged"),
        ('{"loss": "focal", "trials": 2}', "was written by another version .* or delete it"),
        (json.dumps({"study": search().name}), "another version .* choose another folder"),
    ],
)
def test_others_are_named(text, words, tmp_path):
    path = tmp_path / "tune.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        search().check_alone(path)
    assert path.read_text() == text
