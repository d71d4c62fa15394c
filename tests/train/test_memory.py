"""Where memory is short a batch is computed in pieces, with the same gradient."""

import logging

import pytest
import torch

from labelset.data import Dataset
from labelset.train import Settings, train


class Small(torch.nn.Module):
    """A network that has room for so many rows."""

    def __init__(self, room):
        super().__init__()
        self.inner = torch.nn.Linear(4, 8)
        self.room, self.most = room, 0

    def forward(self, x):
        assert len(x)
        if self.training and len(x) > self.room:
            raise torch.OutOfMemoryError("no room")
        return torch.relu(self.inner(x))


def trained(room, loss):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(95, 4, generator=g)  # batches of 32, 32 and 31
    data = Dataset.from_arrays(x, x[:, :3] > 0, split=[0] * 95)
    torch.manual_seed(0)
    settings = Settings(loss=loss, epochs=2, batch=32, monitor=None, precision="float64")
    return train(data, settings, encoder=Small(room)).scores["train"]


def test_batches_are_halved_until_they_fit(caplog):
    for loss in ("bce", "two-way", "sigmoid-f1"):
        whole = trained(100, loss)
        with caplog.at_level(logging.WARNING, "labelset"):
            pieces = [trained(room, loss) for room in (10, 1)]
        for each in pieces:
            torch.testing.assert_close(each, whole, atol=1e-6, rtol=1e-6)
    assert "computed in 4 pieces, with the same gradient" in caplog.text


def test_a_row_that_does_not_fit_is_an_error():
    with pytest.raises(torch.OutOfMemoryError):
        trained(0, "bce")
