"""Patches of pictures: what they measure, whatever the size of a picture, kept and refused."""

import json

import pytest
import torch

from labelset import encode
from labelset.data import Dataset
from labelset.runs import Plan, compare


def striped(rows=60, size=16, channels=3):
    """Lines across or down, in any colour: which they are is in no pixel by itself."""
    g = torch.Generator().manual_seed(0)
    waves = torch.sin(torch.arange(size) * 1.5 + 6 * torch.rand(rows, 1, generator=g))
    down = torch.arange(rows) % 2 == 0
    x = torch.where(down[:, None, None], waves[:, None, :], waves[:, :, None]) * 60 + 128
    colour = 60 * torch.rand(rows, channels, 1, 1, generator=g) - 30
    return (x[:, None] + colour).clamp(0, 255).to(torch.uint8), down


def data(images, on=None, **more):
    return Dataset.from_arrays(
        None, [[1]] * len(images) if on is None else on, images=images, **more
    )


def test_a_picture_is_told_by_what_its_parts_look_like():
    images, down = striped()
    x = encode.build("patches", atoms=20).fit(data(images))(data(images))
    assert x.shape == (60, 4 * 20 + 2 * 3 * 16)
    torch.testing.assert_close(x.mean(0), torch.zeros(x.shape[1]), atol=1e-4, rtol=0)
    own = x[:, :80]
    near = torch.cdist(own, own).fill_diagonal_(torch.inf).argmin(1)
    assert torch.equal(down[near], down)


def test_a_brighter_picture_has_the_same_atoms():
    images, _ = striped()
    encoder = encode.build("patches", atoms=20).fit(data(images))
    some = images[:4].clamp(20, 200)
    low, high = (encoder(data(some + shift))[:, :80] for shift in (0, 30))
    torch.testing.assert_close(low, high, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("shape", [(1, 4, 40), (3, 6, 6), (2, 90, 33)])
def test_pictures_of_any_shape(shape):
    images = torch.rand(9, *shape, generator=torch.Generator().manual_seed(0))
    encoder = encode.build("patches", atoms=5).fit(data(images))
    x = encoder(data(images))
    assert x.shape == (9, 20 + 32 * shape[0])
    assert x.isfinite().all()
    torch.testing.assert_close(encoder(data(images[3:4])), x[3:4], atol=1e-4, rtol=1e-4)
    assert encoder(data(images).rows(torch.arange(0))).shape == (0, x.shape[1])


def test_pictures_of_nothing():
    images = torch.zeros(5, 3, 16, 16, dtype=torch.uint8)
    assert encode.build("patches").fit(data(images))(data(images)).isfinite().all()


def test_it_is_kept_and_what_is_crafted_is_refused():
    images, _ = striped()
    made = encode.build("patches", atoms=7).fit(data(images))
    saved = json.loads(json.dumps(made.as_json()))
    assert torch.equal(encode.from_json(saved, made.state())(data(images)), made(data(images)))
    for wrong in ({"atoms": torch.zeros(7, 5)}, {"shift": torch.full((108,), torch.nan)}):
        with pytest.raises(ValueError, match="of patches must be"):
            encode.from_json(saved, made.state() | wrong)
    with pytest.raises(ValueError, match="takes 3 channels, got 1"):
        made(data(images[:, :1]))


@pytest.mark.slow
def test_pictures_are_compared_without_a_pretrained_network(tmp_path):
    images, down = striped()
    rows = data(images, down[:, None], split=[0] * 45 + [2] * 15, names=["down"])
    plan = Plan(losses=("bce",), effort="quick", finetune=("conv",), training={"epochs": 1})
    found = compare(rows, plan, tmp_path / "run")
    assert {"bce+linear", "extra-trees", "bce+mlp", "bce+conv"} <= {*found.standings}
    assert found.run("bce+linear").encoder.name == "patches"
    assert found.run("bce+conv").encoder.name == "conv"
    assert plan.not_tried(rows) == ""
    assert "--finetune conv" in Plan().not_tried(rows) or torch.cuda.is_available()
