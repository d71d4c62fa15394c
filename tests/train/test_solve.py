"""Solved heads: at the optimum, by honest folds, whatever the labels; C and torch agree."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from labelset import Labels, losses
from labelset.data import SparseRows
from labelset.train import _dual_passes
from labelset.train.fitted import Failed, Fitted
from labelset.train.solve import Problem, solve

ROWS, WIDTH, LABELS = 240, 30, 5
WAYS = ("dense", "passes", "products")
SQUARED_HINGE, BCE = losses.build("squared-hinge"), losses.build("bce")


def sparse(x):
    return SparseRows.from_scipy(csr_matrix(x.numpy()))


@pytest.fixture(scope="module")
def table():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, WIDTH, generator=g) * (torch.rand(ROWS, WIDTH, generator=g) < 0.3)
    x = x / x.norm(dim=1, keepdim=True).clamp(min=1e-6)
    y = (x[:, :LABELS] + 0.2 * torch.randn(ROWS, LABELS, generator=g) > 0.1).float()
    return x, y, torch.arange(ROWS) % 4


@pytest.fixture(params=WAYS)
def fit(request, monkeypatch):
    """`solve` by each of the three ways to fit linear heads."""
    if request.param == "passes":
        monkeypatch.setattr(_dual_passes, "ENOUGH", 1e-5)
        monkeypatch.setattr(_dual_passes, "MOST", 2000)
    if request.param == "products":
        monkeypatch.setattr(_dual_passes, "_dual", None)

    def by_this_way(x, y, folds, problems, **settings):
        features = x if request.param == "dense" else sparse(x)
        return solve(features, Labels.of(y), folds, problems, **settings)

    by_this_way.features = (lambda x: x) if request.param == "dense" else sparse
    return by_this_way


def one(results):
    (result,) = results
    assert isinstance(result, Fitted), result
    return result


def close(a, b, tolerance=0.02):
    """Within a share of the spread of the values."""
    a, b = torch.as_tensor(a).float(), torch.as_tensor(b).float()
    assert a.shape == b.shape
    assert float((a - b).abs().max()) <= tolerance * float(b.std() + 1e-3)


def by_scipy(x, y, loss, strength, centre):
    """One label, by another program: objective and gradient in float64."""
    wide = torch.cat([x, torch.ones(len(x), 1)], dim=1).double()
    known = ~y.isnan()

    def objective(w):
        t = torch.tensor(w, requires_grad=True)
        v = wide[known] @ t + centre
        (total := strength * loss(v[:, None], y[known, None]) + t.square().sum() / 2).backward()
        return float(total.detach()), t.grad.numpy()

    found = minimize(objective, np.zeros(wide.shape[1]), jac=True, method="BFGS", tol=1e-6)
    return (wide @ torch.from_numpy(found.x) + centre).float()


@pytest.mark.parametrize("strength", [0.1, 2.0])
@pytest.mark.parametrize("name", ["bce", "squared-hinge", "spa"])
def test_it_is_the_optimum(fit, table, name, strength):
    x, y, folds = table
    y = y.clone()
    y[::7, 0] = torch.nan
    loss = losses.build(name, reduction="sum")
    made = one(fit(x, y, folds, [Problem(loss, strength)]))
    v = made.model(fit.features(x))
    rate = (y[:, 0].nansum() + 0.5) / (~y[:, 0].isnan()).sum().add(1)
    grid = torch.linspace(-16, 16, 2049)
    constant = [float(rate * loss.pos(v) + (1 - rate) * loss.neg(v)) for v in grid]
    centre = grid[int(np.argmin(constant))]
    close(v[:, 0], by_scipy(x, y[:, 0], loss, strength, centre))


def test_like_scikit_learns_support_vector_machine(fit, table):
    x, y, folds = table
    made = one(fit(x, y, folds, [Problem(SQUARED_HINGE, 0.5)]))
    for label in range(LABELS):
        svc = LinearSVC(C=0.5, intercept_scaling=100.0, tol=1e-6, max_iter=100_000)
        svc.fit(x.numpy(), y[:, label].numpy())
        close(made.model.classifier.weight[label], svc.coef_[0], 0.2)


def test_like_scikit_learns_logistic_regression(fit, table):
    x, y, folds = table
    made = one(fit(x, y, folds, [Problem(BCE, 3.0)]))
    for label in range(LABELS):
        regression = LogisticRegression(C=3.0, tol=1e-8).fit(x.numpy(), y[:, label].numpy())
        close(made.model.classifier.weight[label], regression.coef_[0], 0.05)


@pytest.mark.parametrize("name", ["two-way", "softmax", "sigmoid-f1"])
def test_losses_that_are_no_sum_are_at_an_optimum(fit, table, name):
    x, y, folds = table
    made = one(fit(x, y, folds, [Problem(losses.build(name), 1.0)]))
    head, loss = made.model.requires_grad_(True), losses.build(name)
    (len(x) * loss(head(x), y) + head.classifier.weight.square().sum() / 2).backward()
    weight = head.classifier.weight.detach()
    slope = head.classifier.weight.grad
    assert float(slope.norm()) < 0.02 * float(weight.norm())
    assert bool(made.scores.any(1).all())


def test_a_members_scores_are_those_of_its_own_problem(fit, table):
    x, y, folds = table
    made = one(fit(x, y, folds, [Problem(BCE)]))
    absent = folds == 2
    alone = one(fit(x[~absent], y[~absent], folds[~absent] * 0 - 1, [Problem(BCE)]))
    close(made.scores[absent], alone.model(x[absent]))
    assert not alone.scores.any()


@pytest.mark.parametrize("name", ["bce", "two-way"])
def test_a_row_has_no_part_in_its_own_score(fit, table, name):
    x, y, folds = table
    other = y.clone()
    other[folds == 1] = 1 - other[folds == 1]
    problem = [Problem(losses.build(name))]
    made, changed = one(fit(x, y, folds, problem)), one(fit(x, other, folds, problem))
    close(changed.scores[folds == 1], made.scores[folds == 1], 1e-5)
    assert not torch.allclose(changed.scores[folds != 1], made.scores[folds != 1], atol=1e-3)


def test_fixed_rows_are_fitted_by_all_and_scored_by_none(fit, table):
    x, y, _ = table
    folds = torch.where(torch.arange(ROWS) < 100, 0, -1)
    made = one(fit(x, y, folds, [Problem(BCE)]))
    assert not made.scores[100:].any()
    close(made.scores[:100], one(fit(x[100:], y[100:], folds[100:], [Problem(BCE)])).model(x[:100]))


@pytest.mark.parametrize("name", ["bce", "softmax"])
def test_unknown_entries_count_nowhere(fit, table, name):
    """Rows of which nothing is known might as well not be there."""
    x, y, folds = table
    free = y.clone()
    free[200:] = torch.nan
    problem = [Problem(losses.build(name))]
    close(
        one(fit(x, free, folds, problem)).model(fit.features(x)),
        one(fit(x[:200], y[:200], folds[:200], problem)).model(fit.features(x)),
    )


def test_soft_labels_are_mixtures(fit, table):
    x, y, folds = table
    twice = torch.cat([x, x])
    apart = torch.cat([torch.ones_like(y), torch.zeros_like(y)])
    soft, once = one(fit(x, y * 0 + 0.5, folds, [Problem(BCE, 2.0)])), Problem(BCE, 1.0)
    hard = one(fit(twice, apart, folds.repeat(2), [once]))
    torch.testing.assert_close(
        soft.model(fit.features(x)), hard.model(fit.features(x)), atol=0.01, rtol=0
    )


def test_weights_of_labels(fit, table):
    """A weight per label is the strength of that label."""
    x, y, folds = table
    weight = torch.linspace(0.5, 4.0, LABELS)
    made = one(
        fit(x, y, folds, [Problem(losses.build("bce", pos_weight=weight, neg_weight=weight))])
    )
    for label in (0, LABELS - 1):
        single = Problem(BCE, float(weight[label]))
        close(made.scores[:, label], one(fit(x, y, folds, [single])).scores[:, label])


def test_all_together_as_one_by_one(fit, table):
    x, y, folds = table
    names = [("bce", 1.0), ("asl", 2.0), ("bce", 0.1), ("softmax", 1.0), ("splc", 1.0)]
    problems = [Problem(losses.build(name), strength) for name, strength in names]
    together = fit(x, y, folds, problems)
    for problem, made in zip(problems, together, strict=True):
        alone = one(fit(x, y, folds, [problem]))
        close(made.scores, alone.scores, 0.05)
        assert made.about["strength"] == problem.strength
        assert made.about["residual"] < 0.05


def test_one_and_two_threads_are_equal(fit, table):
    x, y, folds = table
    wide = y.repeat(1, 8)[:, :37]
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 1):
            torch.set_num_threads(count)
            results.append(one(fit(x, wide, folds, [Problem(BCE)])))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(results[0].scores, results[2].scores)
    torch.testing.assert_close(results[0].scores, results[1].scores, atol=1e-4, rtol=1e-4)


def test_labels_and_rows_that_say_little(fit, table):
    """No positive, no negative, one positive, nothing known; empty rows; constant columns."""
    x, y, folds = table
    x, y = x.clone(), y.clone()
    x[:20], x[:, 0], x[:, 1] = 0.0, 1.0, 0.0
    y[:, 0], y[:, 1], y[:, 2], y[:, 3] = 0.0, 1.0, 0.0, torch.nan
    y[5, 2] = 1.0
    for name in ("bce", "squared-hinge", "asl"):
        made = one(fit(x, y, folds, [Problem(losses.build(name))]))
        v = made.model(fit.features(x))
        assert bool(v.isfinite().all())
        assert bool(made.scores.isfinite().all())
        assert float(v[:, 0].max()) < float(v[:, 1].min())
        assert float(v[5, 2]) <= float(v[20:, 1].min())


def test_fewer_rows_than_features(fit, table):
    x, y, folds = table
    made = one(fit(x[:20], y[:20], folds[:20], [Problem(SQUARED_HINGE, 100.0)]))
    right = (made.model(fit.features(x[:20])) > 0) == (y[:20] > 0)
    assert float(right.float().mean()) > 0.95


def test_what_is_not_solved_fails_alone(fit, table, monkeypatch):
    x, y, folds = table
    monkeypatch.setattr(_dual_passes, "MOST", 8)
    monkeypatch.setattr("labelset.train._lbfgs.MOST", 1)
    hard, easy = fit(x, y, folds, [Problem(SQUARED_HINGE, 1e4), Problem(SQUARED_HINGE, 1e-4)])
    assert isinstance(hard, Failed)
    assert "residual" in hard.reason
    assert isinstance(easy, Fitted)


def test_what_one_fold_cannot_solve_is_not_tried_on_the_others(table, monkeypatch):
    x, y, folds = table
    calls, passes = [], _dual_passes._dual.passes
    counting = lambda *given: (calls.append(len(given)), passes(*given))[1]  # noqa: E731
    monkeypatch.setattr(_dual_passes, "MOST", 8)
    monkeypatch.setattr(
        _dual_passes,
        "_dual",
        type("", (), {"passes": counting, "scores": _dual_passes._dual.scores}),
    )
    (hard,) = solve(sparse(x), Labels.of(y), folds, [Problem(SQUARED_HINGE, 1e4)])
    assert isinstance(hard, Failed)
    assert "residual" in hard.reason
    assert len(calls) <= torch.get_num_threads() < 5  # four folds, and all rows


@pytest.mark.parametrize("name", ["asl", "focal"])
def test_losses_that_are_not_convex_rank_about_as_well_as_bce(fit, table, name):
    x, y, folds = table
    made = fit(x, y, folds, [Problem(losses.build(name)), Problem(BCE)])
    tried, usual = (auroc(one([each]).model(fit.features(x)), y) for each in made)
    assert tried > usual - 0.03


def test_hill_is_solved_on_dense_rows_and_says_where_it_swings_on_sparse_ones(table):
    """It is flat on both sides: dual steps of rows that pull both ways need not settle."""
    x, y, folds = table
    problems = [Problem(losses.build("hill")), Problem(BCE)]
    tried, usual = (
        auroc(one([made]).model(x), y) for made in solve(x, Labels.of(y), folds, problems)
    )
    assert tried > usual - 0.03
    swings, settles = solve(sparse(x), Labels.of(y), folds, problems)
    assert isinstance(swings, Failed)
    assert isinstance(settles, Fitted)


def auroc(v, y):
    """The mean over labels."""
    each = []
    for label in range(v.shape[1]):
        positive = y[:, label] > 0
        above = v[positive, label][:, None] > v[~positive, label]
        each.append(float(above.float().mean()))
    return sum(each) / len(each)


def test_other_heads(table):
    x, y, folds = table
    problem = Problem(BCE, 1.0, "linear", {"rank": 3}), Problem(BCE, 1.0, "dft", {"k": 2})
    low, dft = solve(x, Labels.of(y), folds, problem)
    assert low.model.settings["rank"] == 3
    assert dft.model.name == "dft"
    assert float((low.scores - dft.scores).abs().mean()) < 2
    rows = solve(sparse(x), Labels.of(y), folds, problem[1:])
    close(one(rows).model(sparse(x)), dft.model(x), 0.2)


def test_without_the_last_fit_there_is_no_model(fit, table):
    x, y, folds = table
    with_model, without = (
        one(fit(x, y, folds, [Problem(BCE)], final=final)) for final in ("refit", "none")
    )
    assert without.model is None
    close(without.scores, with_model.scores, 1e-5)
    with pytest.raises(ValueError, match="final must be"):
        fit(x, y, folds, [Problem(BCE)], final="mean")


def test_progress_and_time(fit, table):
    x, y, folds = table
    shares = []
    problems = [Problem(BCE), Problem(SQUARED_HINGE), Problem(losses.build("softmax"))]
    fit(x, y, folds, problems, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)

    def interrupt(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(x, y, folds, problems, progress=interrupt)
    late = fit(x, y, folds, problems, seconds=0.0)
    assert all(isinstance(made, Failed) and "time" in made.reason for made in late)


def test_weights_are_shrunk_towards_a_prior_or_stay_there(fit, table):
    x, y, folds = table
    x = x.clone()
    x[:, -1] = 0  # no row has this feature
    y = y.clone()
    y[:, 1] = 0
    towards = torch.eye(WIDTH)[:LABELS] + torch.eye(WIDTH)[-1]
    loss, strength = losses.build("squared-hinge", reduction="sum"), 0.5
    problems = [Problem(loss, strength, prior=prior) for prior in (2.0, 0.0)]
    some, none = fit(x, y, folds, problems, vectors=fit.features(towards))
    for made, prior in ((some, 2.0), (none, 0.0)):
        head = made.model.requires_grad_(True)
        (strength * loss(head(fit.features(x)), y)).backward()
        weight = head.classifier.weight
        close(weight.detach(), prior * towards - weight.grad, 0.05)
    assert torch.equal(none.model.classifier.weight[:, -1], torch.zeros(LABELS))
    assert torch.equal(some.model.classifier.weight[:, -1], torch.full((LABELS,), 2.0))
    plain = one(fit(x, y, folds, [Problem(loss, strength)]))
    close(none.scores, plain.scores)
    due = (x[:, [1]] > 0.1).float()
    assert auroc(some.scores[:, [1]], due) > 0.9 > auroc(none.scores[:, [1]], due)
    absent = folds == 2
    alone = one(
        fit(
            x[~absent], y[~absent], folds[~absent] * 0 - 1, problems[:1],
            vectors=fit.features(towards),
        )
    )  # fmt: skip
    close(some.scores[absent], alone.model(fit.features(x[absent])))


def test_a_prior_that_cannot_be_is_refused(table):
    x, y, folds = table
    towards = torch.eye(WIDTH)[:LABELS]
    for problem, vectors in (
        (Problem(BCE, prior=1.0), None),
        (Problem(losses.build("two-way"), prior=1.0), towards),
        (Problem(BCE, head="linear", head_settings={"rank": 2}, prior=1.0), towards),
    ):
        with pytest.raises(ValueError, match="a prior needs vectors, a linear head and a loss"):
            solve(x, Labels.of(y), folds, [problem], vectors=vectors)
