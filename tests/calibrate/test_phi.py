"""The recovery map against equations (14) and (15), and against minimised risks."""

import math

import mpmath
import pytest
import torch
from scipy.optimize import minimize_scalar

from labelset import NoLink, calibrate, losses

SETTINGS = [
    {"gamma_pos": 0.0, "gamma_neg": 4.0, "margin": 0.05},
    {"gamma_pos": 1.0, "gamma_neg": 2.0, "margin": 0.0},
    {"gamma_pos": 0.5, "gamma_neg": 3.0, "margin": 0.2},
    {"gamma_pos": 1.0, "gamma_neg": 0.0, "margin": 0.1},
]


def h(z, g, detached):
    """(15), and its variant for detached weights (erratum 15)."""
    if z == 0:
        return mpmath.mpf(1 if g == 0 else 0)
    power = z**g
    if not detached and g:
        power -= g * z ** (g - 1) * (1 - z) * mpmath.log(1 - z)
    return power / (1 - z)


def phi(z, gamma_pos, gamma_neg, margin, detached=False):
    """(14), 0 below the margin."""
    if z <= margin and margin > 0:
        return mpmath.mpf(0)
    up = h(z - margin, gamma_neg, detached)
    return up / (up + h(1 - z, gamma_pos, detached))


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize("settings", SETTINGS)
def test_is_equation_14(settings, detached):
    m = calibrate.build("phi", loss=losses.build("asl", **settings, detach_weight=detached))
    for v in (-9.0, -4.0, -2.5, -1.0, 0.0, 0.3, 2.0, 6.0, 15.0):
        with mpmath.workdps(40):
            want = float(phi(1 / (1 + mpmath.exp(-v)), **settings, detached=detached))
        assert float(m([[v]])) == pytest.approx(want, rel=1e-9, abs=1e-12)


def test_focal_is_asl_with_equal_sides():
    v = torch.linspace(-8, 8, 50, dtype=torch.float64)[:, None]
    asl = losses.build("asl", gamma_pos=2.0, gamma_neg=2.0, margin=0.0)
    mine, other = (calibrate.build("phi", loss=loss)(v) for loss in ("focal", asl))
    torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("eta", [0.03, 0.2, 0.5, 0.8, 0.95])
def test_recovers_the_posterior_from_the_minimiser_of_the_risk(settings, eta):
    """Within `recoverable()`: phi(argmin of the risk) = eta. The risk is written out here."""
    m = calibrate.build("phi", loss=losses.build("asl", **settings))
    low, high = m.recoverable()
    gp, gn, margin = settings.values()

    def risk(v):
        p = 1 / (1 + math.exp(-v))
        z = max(p - margin, 0.0)
        on = (1 - p) ** gp * -math.log(p)
        return eta * on + (1 - eta) * z**gn * -math.log1p(-z)

    best = minimize_scalar(risk, bounds=(-12, 25), method="bounded", options={"xatol": 1e-9})
    recovered = float(m([[best.x]]))
    if low < eta < high:
        assert recovered == pytest.approx(eta, abs=1e-5)
    else:
        assert abs(recovered - eta) > 1e-3


def test_what_can_be_recovered():
    asl = calibrate.build("phi").recoverable()
    assert asl == (0.0, pytest.approx(0.9637, abs=5e-5))
    assert calibrate.build("phi", loss="focal").recoverable() == (0.0, 1.0)
    jump = losses.build("asl", gamma_neg=0.0, gamma_pos=0.0, margin=0.05)
    low, high = calibrate.build("phi", loss=jump).recoverable()
    assert low == pytest.approx(1 / 21, abs=1e-9)
    assert high == pytest.approx(20 / 21, abs=1e-9)
    detached = losses.build("asl", detach_weight=True)
    z = 0.95
    odds = z**4 / (1 - z)
    high = calibrate.build("phi", loss=detached).recoverable()[1]
    assert high == pytest.approx(odds / (1 + odds))


def test_below_the_margin_every_score_means_nothing():
    assert (calibrate.build("phi")([[-3.0, -5.0, -1e4]]) == 0).all()


def test_only_focal_and_asl():
    with pytest.raises(ValueError, match="phi recovers from focal and asl, got BCE"):
        calibrate.build("phi", loss="bce")
    with pytest.raises(ValueError, match="NoneType"):
        calibrate.build("phi", loss=None)


@pytest.mark.parametrize("name", ["bce", "spa", "focal", "wan", "mse"])
def test_link_is_the_link_of_the_loss(name):
    v = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    want = losses.build(name).link(v.double()).float()
    torch.testing.assert_close(calibrate.build("link", loss=name)(v), want)
    torch.testing.assert_close(calibrate.build("link")(v), torch.sigmoid(v))


def test_a_loss_without_a_link_is_refused():
    with pytest.raises(NoLink, match="Fit a calibrator"):
        calibrate.build("link", loss="two-way")


def test_fitting_a_link_only_states_how_good_it_is():
    g = torch.Generator().manual_seed(0)
    v = torch.randn(3000, 4, generator=g, dtype=torch.float64)
    y = torch.rand(v.shape, generator=g) < losses.build("spa").link(v)
    m = calibrate.build("link", loss="spa")
    before = m(v)
    m.fit(v, y)
    assert torch.equal(m(v), before)
    assert m.learnt == {}
    assert m.quality.helped
    assert m.quality.folds == 0
    assert "nothing to fit" in str(m.quality)
