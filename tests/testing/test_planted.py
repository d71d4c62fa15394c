"""Every law catches a planted bug, and a sound loss of one's own passes them all."""

from dataclasses import dataclass

import pytest
import torch
from torch.nn.functional import logsigmoid

from labelset import losses
from labelset.losses import Loss, NoLink, Separable
from labelset.testing import LOSS_LAWS, LawBroken, check_loss

FROZEN = {"frozen": True, "kw_only": True}


@dataclass(**FROZEN)
class Plain(Separable):
    """A sound loss: cross-entropy, written by a user."""

    proper = True

    def pos(self, v):
        return -logsigmoid(v)

    def neg(self, v):
        return -logsigmoid(-v)


class Twisted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        return v.clone()

    @staticmethod
    def backward(ctx, grad):
        return 1.001 * grad


@dataclass(**FROZEN)
class WrongGradient(Plain):
    def pos(self, v):
        return -logsigmoid(Twisted.apply(v))


@dataclass(**FROZEN)
class ReadsUnknown(Plain):
    """Unknown entries taken for negatives."""

    def __call__(self, logits, labels):
        labels = labels.dense() if hasattr(labels, "dense") else torch.as_tensor(labels)
        return super().__call__(logits, torch.nan_to_num(labels.double()))


@dataclass(**FROZEN)
class MultipliesByMask(Plain):
    """0 * NaN is NaN."""

    def groups(self, v, labels):
        labels = labels.dense() if hasattr(labels, "dense") else torch.as_tensor(labels)
        known = (~labels.isnan()).double()
        y = torch.nan_to_num(labels.double())
        return [(known * (y * self.pos(v) + (1 - y) * self.neg(v)), known)]


@dataclass(**FROZEN)
class FirstRowsOnly(Plain):
    def __call__(self, logits, labels):
        weight = torch.arange(1, len(logits) + 1)[:, None]
        return (Plain(reduction="none")(logits, labels) * weight).mean()


@dataclass(**FROZEN)
class MeanOfAll(Plain):
    """Divides by all entries, known or not."""

    def __call__(self, logits, labels):
        return Plain(reduction="sum")(logits, labels) / max(logits.numel(), 1)


@dataclass(**FROZEN)
class SumForMean(Plain):
    def __call__(self, logits, labels):
        return Plain(reduction="sum")(logits, labels)


@dataclass(**FROZEN)
class NaNOnNothing(Plain):
    def __call__(self, logits, labels):
        value = Plain(reduction="sum")(logits, labels)
        count = Plain(reduction="sum").groups(logits.double(), labels)[0][1]
        return value / (logits.numel() if count is None else count.sum())


@dataclass(**FROZEN)
class Overflows(Plain):
    def neg(self, v):
        return torch.log(1 + torch.exp(v))


@dataclass(**FROZEN)
class LosesTheMiss(Plain):
    def pos(self, v):
        return -torch.log(torch.sigmoid(v).clamp(min=1e-8))


@dataclass(**FROZEN)
class FalseLimit(Plain):
    scale: float = 1.0
    limits = {"bce": {"scale": 2.0}}

    def pos(self, v):
        return self.scale * super().pos(v)


@dataclass(**FROZEN)
class ForgetsSparse(Plain):
    def _sparse_terms(self, v, labels):
        return self.neg(v), None


@dataclass(**FROZEN)
class BoolIsOther(Plain):
    def groups(self, v, labels):
        if isinstance(labels, torch.Tensor) and labels.dtype == torch.bool:
            labels = ~labels
        return super().groups(v, labels)


@dataclass(**FROZEN)
class LowPrecision(Plain):
    """Accumulates in the dtype of the logits."""

    def __call__(self, logits, labels):
        terms = self.groups(logits.double(), labels)[0][0].to(logits.dtype)
        return terms.cumsum(0)[-1].cumsum(0)[-1] / terms.numel()


@dataclass(**FROZEN)
class WrongUnderAutocast(Plain):
    def neg(self, v):
        return (
            -logsigmoid(-v)
            + (v @ v.new_zeros(v.shape[-1], v.shape[-1])).float()
            + ((v @ torch.eye(v.shape[-1], dtype=v.dtype)).to(v.dtype) - v)
        )


@dataclass(**FROZEN)
class BreaksTheGraph(Plain):
    def pos(self, v):
        return -logsigmoid(v) * (1.0 if float(v.detach().sum()) < 1e30 else 2.0)


@dataclass(**FROZEN)
class Guesses(Plain):
    def __call__(self, logits, labels):
        try:
            return super().__call__(logits, labels)
        except (ValueError, TypeError):
            return torch.zeros(())


@dataclass(**FROZEN)
class SigmoidByHabit(Separable):
    """The score of spa read with a sigmoid."""

    def pos(self, v):
        return -logsigmoid(v)

    def neg(self, v):
        return -logsigmoid(-3 * (v - 1)) / 5

    def link(self, logits):
        return torch.sigmoid(logits)


@dataclass(**FROZEN)
class FallingLink(Plain):
    def link(self, logits):
        return torch.sigmoid(-logits)


@dataclass(**FROZEN)
class SilentNoLink(Plain):
    def link(self, logits):
        raise NoLink("no")


@dataclass(**FROZEN)
class ClaimsTooMuch(losses.catalog.get("focal")):
    proper = True

    def link(self, logits):
        return torch.sigmoid(logits)


@dataclass(**FROZEN)
class ClaimsTooLittle(Plain):
    proper = False


PLANTED = {
    "gradient": [WrongGradient],
    "unknown": [ReadsUnknown, MultipliesByMask, MeanOfAll],
    "row_order": [FirstRowsOnly],
    "reductions": [SumForMean],
    "nothing_known": [NaNOnNothing],
    "finite": [Overflows],
    "confident_miss": [LosesTheMiss],
    "limits": [FalseLimit],
    "sparse": [ForgetsSparse],
    "label_types": [BoolIsOther],
    "precision": [LowPrecision],
    "autocast": [WrongUnderAutocast],
    "compiled": [BreaksTheGraph],
    "functional": [BreaksTheGraph],
    "refuses": [Guesses],
    "link": [SigmoidByHabit, FallingLink, SilentNoLink],
    "properness": [ClaimsTooMuch, ClaimsTooLittle],
}


def test_every_law_has_a_planted_bug():
    assert set(PLANTED) == set(LOSS_LAWS)


@pytest.mark.parametrize(("law", "bug"), [(law, bug) for law in PLANTED for bug in PLANTED[law]])
def test_the_law_catches_its_bug(law, bug):
    with pytest.raises(LawBroken, match=f"{bug.__name__} breaks the law '{law}'"):
        check_loss(bug(), laws=[law])


def test_a_sound_loss_of_ones_own_passes():
    check_loss(Plain())


def test_a_loss_by_terms_passes():
    @dataclass(**FROZEN)
    class ByTerms(Loss):
        def terms(self, logits, labels):
            return labels.on * -logsigmoid(logits) + labels.off * -logsigmoid(-logits), labels.known

    check_loss(ByTerms())


def test_a_plain_function_can_be_checked():
    bce = losses.build("bce")
    check_loss(lambda logits, labels: bce(logits, labels))
    plain = torch.nn.functional.binary_cross_entropy_with_logits
    with pytest.raises(LawBroken):
        check_loss(
            lambda logits, labels: plain(logits, torch.as_tensor(labels).double()), ["unknown"]
        )
