"""Every law over every head, and a planted bug for every law."""

import pytest
import torch

from labelset import heads
from labelset.heads.linear import Linear
from labelset.testing import HEAD_LAWS, LawBroken, check_head


def moved(head):
    """With what starts at 0 elsewhere, as after training."""
    g = torch.Generator().manual_seed(2)
    for p in head.parameters():
        p.data.add_(torch.randn(p.shape, generator=g))
    return head


SOUND = {
    "linear": lambda: heads.build("linear", features=6, labels=10),
    "bottleneck": lambda: heads.build("linear", features=6, labels=10, rank=3, bias=False),
    "dft": lambda: heads.build("dft", features=6, labels=10, k=3, slack=2),
    "dft by fft": lambda: heads.build("dft", features=6, labels=11, k=5, product="fft"),
    "label-attention": lambda: moved(heads.build("label-attention", features=6, labels=10)),
    "dft in order": lambda: heads.build("dft", features=6, labels=10, k=2, order=range(9, -1, -1)),
}


@pytest.mark.parametrize("law", HEAD_LAWS)
@pytest.mark.parametrize("name", SOUND)
def test_every_head_keeps_every_law(name, law):
    check_head(SOUND[name], laws=[law])


class WrongMatrix(Linear):
    def matrix(self):
        return self.classifier.weight * 1.001, self.classifier.bias

    def logits(self, x):
        return self.classifier(x)


class ForgetsTheBottleneck(Linear):
    def __init__(self, features, labels):
        super().__init__(features=features, labels=labels, rank=features)

    def weights(self, labels):
        return self.classifier.weight[labels]


class SharesNothing(Linear):
    places = True


class DropsAxes(Linear):
    def forward(self, features):
        return super().forward(features).reshape(-1, 10)


class CutsTheGradient(Linear):
    def project(self, features):
        return features.detach()


class RoundsToHalf(Linear):
    def logits(self, x):
        return super().logits(x.half().float() if x.dtype == torch.float32 else x)


class KeepsASecret(Linear):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.secret = torch.rand(10)

    def logits(self, x):
        return super().logits(x) + self.secret.to(x.dtype)


class LooksAtValues(Linear):
    def logits(self, x):
        z = super().logits(x)
        return z if z.shape[0] == 0 or float(z.detach().sum()) < 1e30 else 2 * z


PLANTED = {
    "matrix": WrongMatrix,
    "weights": ForgetsTheBottleneck,
    "shapes": DropsAxes,
    "gradient": CutsTheGradient,
    "precision": RoundsToHalf,
    "round_trip": KeepsASecret,
    "compiled": LooksAtValues,
}


def test_every_law_has_a_planted_bug():
    assert set(PLANTED) == set(HEAD_LAWS)


@pytest.mark.parametrize("law", PLANTED)
def test_the_law_catches_its_bug(law):
    with pytest.raises(LawBroken, match=f"breaks the law '{law}'"):
        check_head(lambda: PLANTED[law](features=6, labels=10), laws=[law])


@pytest.mark.parametrize("law", ["matrix", "weights"])
def test_a_head_of_places_must_not_give_a_matrix(law):
    with pytest.raises(LawBroken, match="of no meaning"):
        check_head(lambda: SharesNothing(features=6, labels=10), laws=[law])


def test_wrong_law_names_are_told():
    with pytest.raises(ValueError, match="did you mean 'matrix'"):
        check_head(SOUND["linear"], laws=["matrx"])
