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


@dataclass(**FROZEN)
class FocalClaimsProper(losses.catalog.get("focal")):
    proper = True


@dataclass(**FROZEN)
class SPAClaimsImproper(losses.catalog.get("spa")):
    proper = False


@dataclass(**FROZEN)
class FlatClaimsProper(Plain):
    """Easy negatives cost nothing: the link rests at 0."""

    def neg(self, v):
        return torch.where(v > -2, -logsigmoid(-v) + logsigmoid(torch.tensor(2.0)), 0.0 * v)


@dataclass(**FROZEN)
class TermsWithWrongLink(Loss):
    """spa by terms, read with a sigmoid."""

    proper = True

    def terms(self, logits, labels):
        neg = -logsigmoid(-3 * (logits - 1)) / 5
        return labels.positive * -logsigmoid(logits) + labels.negative * neg, labels.known

    def link_missing(self):
        return None

    def log_odds(self, v):
        return v


@dataclass(**FROZEN)
class ProperWithoutLink(Loss):
    proper = True

    def terms(self, logits, labels):
        return labels.positive * -logsigmoid(logits) + labels.negative * -logsigmoid(
            -logits
        ), labels.known


@dataclass(**FROZEN)
class SoftmaxLink(Plain):
    def link(self, logits):
        return torch.softmax(logits, -1) if logits.shape[-1] > 1 else torch.sigmoid(logits)


@dataclass(**FROZEN)
class RoundedLink(Plain):
    def link(self, logits):
        p = super().link(logits)
        return torch.where(logits.abs() > 12.1, (p * 100).round() / 100, p)


@dataclass(**FROZEN)
class HalfLink(Plain):
    def link(self, logits):
        p = super().link(logits)
        return p.half().float() if logits.dtype == torch.float32 else p


@dataclass(**FROZEN)
class LosesTheFalseAlarm(Loss):
    def terms(self, logits, labels):
        neg = -torch.log((1 - torch.sigmoid(logits)).clamp(min=1e-7))
        return labels.positive * -logsigmoid(logits) + labels.negative * neg, labels.known


@dataclass(**FROZEN)
class ReversedFarOut(Plain):
    def neg(self, v):
        far = v.detach() > 9
        return torch.where(far, 2 * -logsigmoid(-v).detach() + logsigmoid(-v), -logsigmoid(-v))


@dataclass(**FROZEN)
class RoundsSoft(Plain):
    def groups(self, v, labels):
        if isinstance(labels, torch.Tensor) and labels.is_floating_point():
            labels = labels.round()
        return super().groups(v, labels)


@dataclass(**FROZEN)
class SquaresSoft(Loss):
    def terms(self, logits, labels):
        on = labels.positive.round()
        return on * -logsigmoid(logits) + (1 - on) * -logsigmoid(-logits), labels.known


@dataclass(**FROZEN)
class RowMeanOverAll(Loss):
    """Divides each row by n, not by what is known of it."""

    def terms(self, logits, labels):
        each = labels.positive * -logsigmoid(logits) + labels.negative * -logsigmoid(-logits)
        return each.sum(1) / max(each.shape[1], 1), (labels.positive + labels.negative > 0).any(1)


@dataclass(**FROZEN)
class WrongWhenSoftAndUnknown(Plain):
    def _sparse_terms(self, v, labels):
        values, weights = super()._sparse_terms(v, labels)
        soft = labels.values is not None and bool(((labels.values > 0) & (labels.values < 1)).any())
        return (values * 1.1 if soft and bool(labels.values.isnan().any()) else values), weights


@dataclass(**FROZEN)
class LowWhenUnknown(Plain):
    def terms(self, logits, labels):
        if labels.known is not None and logits.dtype == torch.float32:
            logits = logits + (logits.bfloat16().float() - logits).detach()
        return super().terms(logits, labels)


@dataclass(**FROZEN)
class Int8IsOther(Plain):
    def groups(self, v, labels):
        if isinstance(labels, torch.Tensor) and labels.dtype == torch.int8:
            labels = 1 - labels
        return super().groups(v, labels)


@dataclass(**FROZEN)
class Broadcasts(Plain):
    def groups(self, v, labels):
        if isinstance(labels, torch.Tensor) and labels.ndim == 2 and len(labels) == 1:
            labels = labels.expand(v.shape)
        return super().groups(v, labels)


@dataclass(**FROZEN)
class AcceptsALittleMore(Plain):
    def groups(self, v, labels):
        if isinstance(labels, torch.Tensor) and labels.is_floating_point():
            labels = torch.where((labels > 1) & (labels < 1.2), 1.0, labels)
        return super().groups(v, labels)


@dataclass(**FROZEN)
class LinkBreaksTheGraph(Plain):
    def link(self, logits):
        return super().link(logits) * (1.0 if float(logits.detach().sum()) < 1e30 else 2.0)


@dataclass(**FROZEN)
class WideIsOther(Plain):
    """A different loss for many labels, in its gradient only."""

    def pos(self, v):
        wide = v.shape[-1] > 6
        return -logsigmoid(v) + (v - v.detach() if wide else 0.0)


@dataclass(**FROZEN)
class NoLossAtEpoch(Plain):
    def at(self, epoch):
        return None


@dataclass(**FROZEN)
class KernelIsOther(Plain):
    def kernel(self, impl, scores, labels):
        def found(v, y):
            gradient, value = torch.func.grad_and_value(self.eager)(v.detach(), y)
            return 1.01 * value, 1.01 * gradient, None

        return found


@dataclass(**FROZEN)
class Crashes(Plain):
    def terms(self, logits, labels):
        raise KeyError("oops")


PLANTED = {
    "gradient": [WrongGradient, ReversedFarOut, WideIsOther],
    "unknown": [ReadsUnknown, MultipliesByMask, MeanOfAll, RowMeanOverAll],
    "row_order": [FirstRowsOnly],
    "reductions": [SumForMean],
    "soft_labels": [RoundsSoft, SquaresSoft],
    "epochs": [NoLossAtEpoch],
    "nothing_known": [NaNOnNothing],
    "finite": [Overflows],
    "confident_miss": [LosesTheMiss, LosesTheFalseAlarm],
    "limits": [FalseLimit],
    "sparse": [ForgetsSparse, WrongWhenSoftAndUnknown],
    "label_types": [BoolIsOther, Int8IsOther, Crashes],
    "precision": [LowPrecision, LowWhenUnknown],
    "autocast": [WrongUnderAutocast],
    "compiled": [BreaksTheGraph, LinkBreaksTheGraph],
    "functional": [BreaksTheGraph],
    "implementations": [KernelIsOther],
    "refuses": [Guesses, Broadcasts, AcceptsALittleMore],
    "link": [
        SigmoidByHabit,
        FallingLink,
        SilentNoLink,
        TermsWithWrongLink,
        SoftmaxLink,
        RoundedLink,
        HalfLink,
    ],
    "properness": [
        ClaimsTooMuch,
        ClaimsTooLittle,
        FocalClaimsProper,
        SPAClaimsImproper,
        FlatClaimsProper,
        TermsWithWrongLink,
        ProperWithoutLink,
    ],
}


def test_every_law_has_a_planted_bug():
    assert set(PLANTED) == set(LOSS_LAWS)


@pytest.mark.parametrize(("law", "bug"), [(law, bug) for law in PLANTED for bug in PLANTED[law]])
def test_the_law_catches_its_bug(law, bug):
    with pytest.raises(LawBroken, match=f"{bug.__name__} breaks the law '{law}'"):
        check_loss(bug(), laws=[law])


def test_a_sound_loss_of_ones_own_passes():
    check_loss(Plain())


@pytest.mark.slow
def test_a_loss_by_terms_passes():
    @dataclass(**FROZEN)
    class ByTerms(Loss):
        def terms(self, logits, labels):
            return labels.positive * -logsigmoid(logits) + labels.negative * -logsigmoid(
                -logits
            ), labels.known

    check_loss(ByTerms())


SOUND = {
    "half a saturating loss": lambda: 0.5 * losses.build("mse"),
    "bce and two-way": lambda: losses.build("bce") + 0.5 * losses.build("two-way"),
    "one weight per label": lambda: losses.build("bce", pos_weight=[1.0, 2.0, 3.0, 4.0]),
    "splc around it": lambda: losses.build(
        "splc", base=losses.build("bce", pos_weight=[1.0, 2.0, 3.0, 4.0])
    ),
    "focal that is bce": lambda: losses.build("focal", gamma=0.0),
    "asl with detached weights": lambda: losses.build("asl", detach_weight=True),
    "asl with a jump in its link": lambda: losses.build("asl", gamma_neg=0.0, margin=0.2),
    "asl with hardly a margin": lambda: losses.build("asl", margin=1e-9),
    "lpr of asl": lambda: losses.build("lpr", of="asl"),
    "sum": lambda: losses.build("bce", reduction="sum"),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if i % 2 else ()) for i, name in enumerate(SOUND)],
)
def test_sound_losses_are_not_refused(name):
    check_loss(SOUND[name](), laws=[law for law in LOSS_LAWS if law != "compiled"])


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_sound_losses_compile(name):
    check_loss(SOUND[name](), laws=["compiled"])


@pytest.mark.slow
def test_a_users_brier_score_passes_with_its_derived_link():
    @dataclass(**FROZEN)
    class Brier(Separable):
        proper = True
        saturates_positives = True
        saturates_negatives = True

        def pos(self, v):
            return torch.sigmoid(-v) ** 2

        def neg(self, v):
            return torch.sigmoid(v) ** 2

    check_loss(Brier())


def test_wrong_law_names_are_told():
    with pytest.raises(ValueError, match="did you mean 'gradient'"):
        check_loss(Plain(), laws=["gradiant"])
    check_loss(Plain(), laws="gradient")


def test_a_plain_function_can_be_checked():
    bce = losses.build("bce")
    check_loss(lambda logits, labels: bce(logits, labels))
    plain = torch.nn.functional.binary_cross_entropy_with_logits
    with pytest.raises(LawBroken):
        check_loss(
            lambda logits, labels: plain(logits, torch.as_tensor(labels).double()), ["unknown"]
        )
