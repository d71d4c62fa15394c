"""Changes of pictures: each does what it is called after, to the pictures that it is drawn for."""

import pytest
import torch

from labelset.encode._augment import CHANGES, Augment, _coloured, _placed


def one_of_each(x, strength):
    is_ = {name: torch.arange(len(CHANGES)) == at for at, name in enumerate(CHANGES)}
    by = torch.full((len(CHANGES),), strength)
    every = x.expand(len(CHANGES), *x.shape[1:])
    changed = _coloured(_placed(every, is_, by), is_, by)
    return {name: changed[at : at + 1] for at, name in enumerate(CHANGES)}


def test_a_point_goes_where_the_change_takes_it():
    x = torch.zeros(1, 1, 41, 41)
    x[0, 0, 20, 30] = 1.0
    found = one_of_each(x, 1.0)
    places = {k: divmod(int(found[k].argmax()), 41) for k in CHANGES[:4]}
    assert places["none"] == (20, 30)
    assert places["rotate"] == (15, 29)  # ten to the right, turned by 30 degrees
    assert places["shear across"] == (20, 30)  # it lies on the middle line
    assert places["shear down"] == (17, 30)
    assert int(found["move down"].argmax()) // 41 != 20


def test_colours_are_those_that_are_asked_for():
    x = 0.2 + 0.3 * torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    found = one_of_each(x, 0.3)
    assert torch.equal(found["none"], x)
    torch.testing.assert_close(found["brightness"], x * 1.27)
    assert found["contrast"].var() > 1.2 * x.var()
    grey = (x * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(1, keepdim=True)
    torch.testing.assert_close(found["saturation"] - grey, (x - grey) * 1.27)
    assert torch.equal(found["solarise"], x)  # nothing is bright
    bright = one_of_each(1 - x, 0.3)["solarise"]
    torch.testing.assert_close(bright, torch.where(1 - x > 0.7, x, 1 - x))
    assert found["stretch"].amin((2, 3)).abs().max() < 1e-6
    torch.testing.assert_close(found["stretch"].amax((2, 3)), torch.ones(1, 3))
    assert (found["posterise"] - x).abs().max() < 1 / 127


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_pictures_differ_and_stay_pictures(channels):
    x = torch.rand(64, channels, 12, 18, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    changed = Augment(["randaugment"])(x)
    assert changed.shape == x.shape
    assert 0 <= float(changed.min()) <= float(changed.max()) <= 1
    assert 48 < int((changed != x).flatten(1).any(1).sum()) <= 64
    torch.manual_seed(0)
    assert torch.equal(Augment(["randaugment"])(x), changed)
