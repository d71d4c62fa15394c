"""The file of a search: read again exactly, and what else it may say is told apart."""

import pytest
import torch

from labelset.data import Dataset
from labelset.runs.tuning import TrialFile, facts
from labelset.train import Settings

X = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
DATA = Dataset.from_arrays(X, X > 0)
TRIALS = [
    {
        "value": 0.1 + 0.2,
        "tried": {"gamma": 1 / 3},
        "bounds": {"gamma": [0.5, 8.0, True]},
        "reports": {"0": 0.25},
    },
    {"value": None, "tried": {}, "bounds": {}, "reports": {}},
]


def search(path, **settings):
    return TrialFile(facts(DATA, "f1-micro", Settings(loss="focal", **settings), {}), path)


def test_its_own_file_or_none_is_read(tmp_path):
    first, second = search(tmp_path / "tune.json"), search(tmp_path / "tune.json")
    second.read()
    assert second.history == []
    first.history += TRIALS
    first.write(value=0.5)
    second.read()
    assert second.history == TRIALS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "is damaged; delete it to start"),
        ("[1]", "is damaged"),
        ('{"search": 3, "history": []}', "is damaged"),
        ('{"search": {"loss": "focal"}, "history": [{"value": "x"}]}', "is damaged"),
        ('{"search": {"loss": "focal"}, "history": 7}', "is damaged"),
        ('{"loss": "focal", "trials": 2}', "was written by another version .* or delete it"),
        ('{"search": {"loss": "focal"}}', "another version .* choose another folder"),
        (
            '{"search": {"loss": "asl"}, "history": []}',
            r"holds another search \(loss 'asl', not 'focal'\); choose another folder",
        ),
    ],
)
def test_others_are_named(text, words, tmp_path):
    path = tmp_path / "tune.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        search(path).read()
    assert path.read_text() == text


def test_another_search_names_what_differs(tmp_path):
    path = tmp_path / "tune.json"
    search(path, epochs=7).write()
    with pytest.raises(ValueError, match=r"holds another search \(epochs 7, not \d+\)"):
        search(path).read()
