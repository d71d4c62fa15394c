"""What a loss says to bad input."""

import numpy as np
import pytest
import torch

from labelset import Labels, losses
from labelset.losses import as_loss

V, Y = torch.zeros(2, 3), torch.zeros(2, 3)
BAD = {
    "logits must be floating point, got torch.int64": (V.long(), Y),
    "logits must be floating point, got torch.complex64": (V.to(torch.complex64), Y),
    "logits must be floating point, got torch.bool": (V.bool(), Y),
    "logits must be a torch.Tensor, got ndarray": (V.numpy(), Y),
    "logits are on the meta device": (V.to("meta"), Y.to("meta")),
    "labels are on the meta device": (V, Y.to("meta")),
    "logits must be 2-D .rows, labels., got shape .3,.": (V[0], Y[0]),
    "logits must be 2-D .rows, labels., got shape .2, 3, 1.": (V[..., None], Y[..., None]),
    "labels must have the shape of the logits .2, 3., got .2, 2.": (V, Y[:, :2]),
    "labels must have the shape of the logits .2, 3., got .3, 3.": (
        V,
        Labels.from_lists([[0], [1], [2]], n=3),
    ),
    "got -1 at row 0, label 1; for another mark": (V, torch.tensor([[0, -1, 0], [0, 0, 0]])),
    "got 255 at row 0, label 0": (V, torch.full((2, 3), 255, dtype=torch.uint8)),
    "got 7 at row 1, label 2": (V, np.array([[0, 0, 0], [0, 0, 7]])),
    "a tensor, an array or Labels, got str": (V, "yes"),
    "a tensor, an array or Labels, got NoneType": (V, None),
}


@pytest.mark.parametrize("message", BAD)
@pytest.mark.parametrize("name", ["bce", "two-way", "sigmoid-f1", "lpr", "spa+lpr"])
def test_the_reason_is_given(name, message):
    with pytest.raises((ValueError, TypeError), match=message):
        losses.build(name)(*BAD[message])


@pytest.mark.parametrize("name", ["bce", "two-way", "sigmoid-f1", "lpr", "spa+lpr"])
def test_it_is_given_after_good_calls_too(name):
    loss = losses.build(name)
    for message, given in BAD.items():
        loss(V, Y), loss(V, Y.long()), loss(V, Y.bool()), loss(V, Labels.from_dense(Y))
        with pytest.raises((ValueError, TypeError), match=message):
            loss(*given)


def test_links_check_their_scores():
    for scores, message in ((V.long(), "floating point"), (V.numpy(), "torch.Tensor")):
        with pytest.raises(TypeError, match=message):
            losses.build("spa").link(scores)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize(
    "name", ["asl", "bce", "focal", "focal-margin", "lpr", "mse", "spa", "spa+lpr", "wan"]
)
def test_infinite_scores_mean_what_the_formula_tends_to(name, dtype):
    loss = losses.build(name)
    far = loss.link(torch.tensor([[-3e4, 3e4]], dtype=dtype))
    assert torch.equal(loss.link(torch.tensor([[-torch.inf, torch.inf]], dtype=dtype)), far)
    assert far[0, 0] == 0
    assert far[0, 1] == pytest.approx(0.96372 if name == "asl" else 1, abs=1e-5)
    assert loss.link(torch.tensor([[torch.nan]], dtype=dtype)).isnan().all()


def test_what_is_no_loss_is_refused_in_plain_words():
    with pytest.raises(TypeError, match=r"^loss must be a loss or the name of one, got int$"):
        as_loss("loss", 3)
    with pytest.raises(TypeError, match="must be a Separable loss or the name of one"):
        losses.build("mix", pos=3, neg="bce")


@pytest.mark.parametrize("name", ["two-way", "hill", "smooth", "sigmoid-f1", "softmax", "splc"])
def test_no_link_says_what_to_do(name):
    with pytest.raises(losses.NoLink, match="Fit a calibrator"):
        losses.build(name).link(V)
