"""Temperature, Platt and vector scaling against scikit-learn, scipy and closed forms."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from labelset import calibrate, losses
from labelset.calibrate.scaling import Affine, affine_fit, information


def data(rows=400, n=5, seed=0, unknown=0.2):
    r = np.random.default_rng(seed)
    v = r.normal(size=(rows, n)) * 3 - 1
    p = expit(v * np.linspace(0.3, 1.5, n) + np.linspace(-1, 1, n))
    y = (r.random((rows, n)) < p).astype(float)
    y[r.random((rows, n)) < unknown] = np.nan
    return v, y


def known(v, y):
    keep = ~np.isnan(y)
    return v[keep], y[keep]


def regression(v, t):
    """Slope and offset by scikit-learn, soft targets as weighted pairs."""
    x = np.concatenate([v, v])[:, None]
    model = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000)
    both = np.r_[np.ones_like(v), np.zeros_like(v)]
    model.fit(x, both, sample_weight=np.r_[t, 1 - t])
    return model.coef_[0, 0], model.intercept_[0]


def log_loss(v, t, a, b):
    eta = a * v + b
    return (np.logaddexp(0, eta) - t * eta).sum()


def test_vector_is_logistic_regression_without_penalty():
    v, y = data()
    m = calibrate.build("vector").fit(v, y)
    for j in range(v.shape[1]):
        a, b = regression(*known(v[:, j], y[:, j]))
        assert float(m.learnt["slope"][j]) == pytest.approx(a, abs=1e-6)
        assert float(m.learnt["offset"][j]) == pytest.approx(b, abs=1e-6)


def test_platt_is_logistic_regression_on_smoothed_targets():
    v, y = data(seed=1)
    m = calibrate.build("platt", per="label").fit(v, y)
    for j in range(v.shape[1]):
        x, t = known(v[:, j], y[:, j])
        on, off = t.sum(), (1 - t).sum()
        a, b = regression(x, np.where(t == 1, (on + 1) / (on + 2), 1 / (off + 2)))
        got = m(v)[:, j].numpy()
        np.testing.assert_allclose(got, expit(a * v[:, j] + b), atol=1e-6)


def test_platt_is_scikit_learns_own_sigmoid_calibration():
    calibration = pytest.importorskip("sklearn.calibration")
    v, y = data(seed=2, unknown=0)
    m = calibrate.build("platt", per="label").fit(v, y)
    for j in range(v.shape[1]):
        theirs = calibration._SigmoidCalibration().fit(v[:, j], y[:, j]).predict(v[:, j])
        np.testing.assert_allclose(m(v)[:, j].numpy(), theirs, atol=1e-4)  # it stops early


@pytest.mark.parametrize("soft", [False, True])
def test_temperature_is_the_best_by_scalar_search(soft):
    v, y = data(seed=3)
    if soft:
        y = y * 0.7 + 0.1
    m = calibrate.build("temperature", per="label").fit(v, y)
    pool = calibrate.build("temperature", per="pool").fit(v, y)
    cases = [(known(v[:, j], y[:, j]), m.temperature[j]) for j in range(v.shape[1])]
    for (x, t), got in [*cases, (known(v, y), pool.temperature[0])]:
        t = t.astype(np.float32).astype(float)  # labels are kept in single precision
        search = minimize_scalar(
            lambda s, x=x, t=t: log_loss(x, t, s, 0.0),
            bounds=(1e-3, 20),
            method="bounded",
            options={"xatol": 1e-10},
        )
        assert 1 / float(got) == pytest.approx(search.x, abs=1e-6)


def test_pooled_platt_is_one_regression_over_all_known_entries():
    v, y = data(seed=4)
    m = calibrate.build("vector", per="pool").fit(v, y)
    a, b = regression(*known(v, y))
    np.testing.assert_allclose(m(v).numpy(), expit(a * v + b), atol=1e-7)


def test_shrunk_lines_minimise_the_documented_objective():
    v, y = data(seed=5, rows=60)
    strength = 7.0
    m = calibrate.build("vector", per="shrunk", strength=strength).fit(v, y)
    x, t = known(v, y)
    centre = np.array(regression(x, t))
    p = expit(centre[0] * x + centre[1])
    phi = np.stack([x, np.ones_like(x)])
    fisher = (phi * (p * (1 - p))) @ phi.T / len(x)
    ridge = strength / min(t.mean(), 1 - t.mean()) * fisher
    for j in range(v.shape[1]):
        x, t = known(v[:, j], y[:, j])

        def objective(w, x=x, t=t):
            away = w - centre
            return log_loss(x, t, *w) + away @ ridge @ away / 2

        best = minimize(objective, centre, method="Nelder-Mead", tol=1e-12).x
        got = [float(m.learnt[name][j]) for name in ("slope", "offset")]
        np.testing.assert_allclose(got, best, atol=1e-5)


@pytest.mark.parametrize("name", ["temperature", "platt", "vector"])
def test_strength_leads_from_the_label_to_the_pool(name):
    v, y = data(seed=6)

    def fitted(**how):
        return calibrate.build(name, **how).fit(v, y, folds=0)(v)

    near_pool = fitted(per="shrunk", strength=1e9)
    near_label = fitted(per="shrunk", strength=1e-7)
    torch.testing.assert_close(near_pool, fitted(per="pool"), atol=1e-4, rtol=0)
    torch.testing.assert_close(near_label, fitted(per="label"), atol=1e-6, rtol=0)


def test_rare_labels_are_drawn_further_to_the_pool():
    """Two labels with the same law, seen 4,000 and 40 times; the pool is of the other kind."""
    r = np.random.default_rng(0)
    v = r.normal(size=(4000, 12)) * 2
    y = (r.random(v.shape) < expit(v)).astype(float)
    y[:, :2] = r.random((4000, 2)) < expit(v[:, :2] + 2)
    y[40:, 1] = np.nan
    m = calibrate.build("platt").fit(v, y, folds=0)
    pool = calibrate.build("platt", per="pool").fit(v, y, folds=0)
    offset = m.learnt["offset"]
    assert float(offset[0]) == pytest.approx(2, abs=0.2)
    assert float(pool.learnt["offset"]) < float(offset[1]) < float(offset[0]) - 0.3


@pytest.mark.parametrize("name", ["temperature", "platt", "vector"])
def test_slopes_are_never_negative(name):
    v, y = data(seed=7, unknown=0)
    m = calibrate.build(name, per="label").fit(-v, y)
    assert (m.learnt["slope"] == 0).all()
    p = m(v)
    if name == "temperature":
        assert (p == 0.5).all()
    elif name == "vector":  # the best constant is the frequency
        np.testing.assert_allclose(p[0].numpy(), y.mean(0), atol=1e-9)


@pytest.mark.parametrize("name", ["temperature", "platt", "vector"])
@pytest.mark.parametrize("per", ["label", "pool", "shrunk"])
def test_separable_scores_stay_finite(name, per):
    v = np.array([[-2.0, 1.0], [-1.0, 2.0], [1.0, 3.0], [2.0, 4.0]])
    y = np.array([[0, 0], [0, 0], [1, 1], [1, 1]])
    m = calibrate.build(name, per=per).fit(v, y)
    assert all(bool(t.isfinite().all()) for t in m.learnt.values())
    p = m(v)
    assert p.isfinite().all()
    if per == "label" and name != "temperature":
        assert ((p > 0.5).numpy() == (y == 1)).all()


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_scores_does_not_matter(scale):
    v, y = data(seed=8)
    v2 = v * np.where(np.arange(v.shape[1]) % 2, scale, 1.0)  # labels of very different scales
    one = calibrate.build("vector").fit(v, y, folds=0)(v)
    two = calibrate.build("vector").fit(v2, y, folds=0)(v2)
    torch.testing.assert_close(one, two, atol=1e-7, rtol=0)


def test_constant_scores_keep_the_slope_and_learn_the_frequency():
    v, y = data(seed=9, unknown=0)
    v[:, 2] = 0.1
    m = calibrate.build("vector").fit(v, y, folds=0)
    pool = calibrate.build("vector", per="pool").fit(v, y, folds=0)
    assert float(m(v)[0, 2]) == pytest.approx(y[:, 2].mean(), abs=1e-9)
    assert float(m.learnt["slope"][2]) == pytest.approx(float(pool.learnt["slope"]), abs=1e-9)


def test_calibration_starts_from_the_link():
    """Scores trained with focal: a temperature of 1 on the link's log-odds is already right."""
    g = torch.Generator().manual_seed(0)
    focal = losses.build("focal")
    v = torch.randn(20_000, 3, generator=g, dtype=torch.float64)
    y = torch.rand(v.shape, generator=g) < focal.link(v)
    m = calibrate.build("temperature", loss="focal", per="pool").fit(v, y, folds=0)
    assert float(m.temperature) == pytest.approx(1, abs=0.05)
    plain = calibrate.build("temperature", per="pool").fit(v, y, folds=0)
    assert float(plain.temperature) < 0.5


def test_log_odds_go_on_where_a_link_is_flat():
    for loss in (losses.build("asl"), losses.build("bce", smoothing=0.2)):
        m = calibrate.build("platt", loss=loss)
        v = torch.linspace(-30, 30, 2001, dtype=torch.float64)[:, None]
        u, link = m.log_odds(v), loss.link(v)
        assert u.isfinite().all()
        assert (u.diff(dim=0) > -1e-12).all()
        inside = (link > 0.0181) & (link < 0.9819)
        assert inside.any()
        torch.testing.assert_close(torch.sigmoid(u)[inside], link[inside])


def test_newton_takes_hard_starts():
    """An outlier of 1e6 among scores near 0: the optimum still has no slope left."""
    r = np.random.default_rng(1)
    v = r.normal(size=(1, 500))
    v[0, 0] = 1e6
    t = (r.random(v.shape) < expit(2 * v - 1)).astype(float)
    t[0, 0] = 1.0
    u, target = torch.tensor(v), torch.tensor(t)
    zero = torch.zeros(2, 2, dtype=torch.float64)
    line = affine_fit(u, target, Affine(u.new_ones(1), u.new_zeros(1)), zero, with_offset=True)
    miss = (torch.sigmoid(line.slope * u + line.offset) - target)[:, 1:]
    assert abs(float(miss.sum())) < 1e-6
    assert abs(float((miss * u[:, 1:]).sum())) < 1e-6


def test_information_is_the_mean_curvature_of_the_log_loss():
    u = torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64)

    def loss(x):
        return torch.nn.functional.softplus(x[0] * u + x[1]).mean()

    x = torch.tensor([0.7, -0.2], dtype=torch.float64)
    want = torch.autograd.functional.hessian(loss, x)
    torch.testing.assert_close(information(u, Affine(x[:1], x[1:])), want)
