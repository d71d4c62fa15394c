"""Links against 40-digit arithmetic: derivatives of the plain formulas, nothing of labelset's."""

import mpmath as mp
import pytest
import torch

from labelset import losses

mp.mp.dps = 60


def sigmoid(v):
    return 1 / (1 + mp.exp(-v))


def softplus(v):
    return mp.log(1 + mp.exp(v))


def asl(gp, gn, m):
    m = mp.mpf(m)

    def pos(v):
        return (1 - sigmoid(v)) ** gp * softplus(-v)

    def neg(v):
        z = sigmoid(v) - m
        return -(z**gn) * mp.log(1 - z) if z > 0 else mp.mpf(0)

    return pos, neg


def detached(gp, gn, m):
    """Slopes with the weights held fixed."""
    m = mp.mpf(m)

    def falls(v):
        return (1 - sigmoid(v)) ** gp * (1 - sigmoid(v))

    def rises(v):
        p = sigmoid(v)
        z = p - m
        return z**gn / (1 - z) * p * (1 - p) if z > 0 else mp.mpf(0)

    return falls, rises


def focal(g, m=0):
    return (
        lambda v: (1 - sigmoid(v - m)) ** g * softplus(-(v - m)),
        lambda v: sigmoid(v) ** g * softplus(v),
    )


def spa(zp=1, kp=1, bp=0, zn=5, kn=3, bn=1):
    return lambda v: softplus(-kp * (v - bp)) / zp, lambda v: softplus(kn * (v - bn)) / zn


EXACT = {
    "bce": ({}, focal(0)),
    "bce weighted": (
        {"pos_weight": 3.0, "neg_weight": 0.5},
        (lambda v: 3 * softplus(-v), lambda v: softplus(v) / 2),
    ),
    "wan": ({}, (lambda v: softplus(-v), lambda v: softplus(v) / 4)),
    "focal": ({}, focal(2)),
    "focal half": ({"gamma": 0.5}, focal(mp.mpf(1) / 2)),
    "focal-margin": ({}, focal(2, 1)),
    "asl": ({}, asl(0, 4, 0.05)),
    "asl other": ({"gamma_pos": 1.0, "gamma_neg": 2.0, "margin": 0.25}, asl(1, 2, 0.25)),
    "asl flat": ({"gamma_pos": 1.0, "gamma_neg": 3.0, "margin": 0.0}, asl(1, 3, 0)),
    "mse": ({}, (lambda v: (1 - sigmoid(v)) ** 2, lambda v: sigmoid(v) ** 2)),
    "spa": ({}, spa()),
    "spa other": ({"zeta_neg": 2.0, "k_neg": 0.5, "b_neg": -3.0}, spa(zn=2, kn=0.5, bn=-3)),
    "spa+lpr": ({}, spa()),
    "lpr": ({"of": "spa"}, spa()),
    "mix": ({"pos": "bce", "neg": "asl"}, (focal(0)[0], asl(0, 4, 0.05)[1])),
}
SCORES = [-30.0, -12.5, -5.0, -3.0, -2.0, -1.0, -0.25, 0.0, 0.4, 0.952, 2.0, 4.0, 9.0, 25.0]


@pytest.mark.parametrize("case", EXACT)
def test_links_to_twelve_digits(case):
    settings, (pos, neg) = EXACT[case]
    v = torch.tensor(SCORES, dtype=torch.float64)[:, None].expand(-1, 5)
    got = losses.build(case.split()[0], **settings).link(v)[:, 0].tolist()
    for score, p in zip(SCORES, got, strict=True):
        rises, falls = mp.diff(neg, mp.mpf(score)), -mp.diff(pos, mp.mpf(score))
        assert p == pytest.approx(float(rises / (rises + falls)), rel=1e-12, abs=1e-300)


def test_detached_weights_have_their_own_link():
    v = torch.tensor(SCORES, dtype=torch.float64)
    falls, rises = detached(1, 4, 0.05)
    loss = losses.build("asl", gamma_pos=1.0, detach_weight=True)
    for score, p in zip(SCORES, loss.link(v).tolist(), strict=True):
        a, b = rises(mp.mpf(score)), falls(mp.mpf(score))
        assert p == pytest.approx(float(a / (a + b)), rel=1e-12, abs=1e-300)


def test_smoothing_is_undone_between_its_ends():
    eta = torch.tensor([0.01, 0.3, 0.5, 0.99], dtype=torch.float64)
    v = torch.logit(0.9 * eta + 0.05)
    torch.testing.assert_close(losses.build("bce", smoothing=0.1).link(v), eta)
    ends = losses.build("bce", smoothing=0.1).link(torch.tensor([-9.0, 9.0]))
    assert ends.tolist() == [0.0, 1.0]


def test_printed_numbers_of_the_errata():
    spa_link = losses.build("spa").link(torch.tensor([0.0, 0.952]))
    assert spa_link.tolist() == pytest.approx([0.054, 0.5], abs=5e-4)
    top = losses.build("asl").link(torch.tensor([60.0, 500.0], dtype=torch.float64))
    assert top.tolist() == pytest.approx([0.9637, 0.9637], abs=5e-5)
    below = losses.build("asl").link(torch.logit(torch.tensor([0.01, 0.049])))
    assert below.tolist() == [0.0, 0.0]
