"""Members: each scores rows that it has not seen, and is what it would be alone."""

import math
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from labelset import Labels, losses
from labelset.data import SparseRows
from labelset.train import Failed, MlpSettings, fit_members
from labelset.train._checkpoint import Checkpoint

ROWS, FEATURES, LABELS, FOLDS = 90, 6, 4, 3
SETTINGS = MlpSettings(width=16, layers=1, epochs=4, batch=16, lr=0.01)


@pytest.fixture(scope="module")
def dense():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, FEATURES, generator=g)
    y = (x[:, :LABELS] + 0.1 * torch.randn(ROWS, LABELS, generator=g) > 0.3).float()
    return x, y, torch.arange(ROWS) % FOLDS


@pytest.fixture(scope="module")
def few():
    """Binary features of which one in twenty is 1."""
    g = torch.Generator().manual_seed(1)
    x = (torch.rand(ROWS, 40, generator=g) < 0.05).float()
    y = torch.stack([x[:, 10 * j : 10 * j + 10].amax(1) for j in range(LABELS)], dim=1)
    return x, y, torch.arange(ROWS) % FOLDS


def sparse(x):
    filled = x != 0
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), filled.sum(1).cumsum(0)])
    return SparseRows.from_csr(starts, filled.nonzero()[:, 1], x.shape[1], x[filled])


def fit(table, *settings, **options):
    x, y, folds = table
    return fit_members(x, Labels.from_dense(y), folds, settings or [SETTINGS], **options)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["dense", "few"])
def test_learns_and_scores_are_the_members_own(kind, request):
    table = request.getfixturevalue(kind)
    x, y, folds = table
    (done,) = fit(table, replace(SETTINGS, epochs=30, lr=0.02, dropout=0.2, noise=0.1))
    assert float(((done.scores > 0) == (y > 0.5)).float().mean()) > 0.8
    assert done.loss is None
    assert done.seconds > 0
    for k in range(FOLDS):
        close(done.model.member(k).scores(x[folds == k]), done.scores[folds == k])
    assert done.about["sparse"] == (kind == "few")


@pytest.mark.parametrize("loss", ["bce", "two-way"])
@pytest.mark.parametrize("kind", ["dense", "few"])
def test_own_labels_do_not_reach_a_rows_scores(kind, loss, request):
    x, y, folds = request.getfixturevalue(kind)
    settings = replace(SETTINGS, loss=losses.build(loss), layers=2)
    (before,) = fit((x, y, folds), settings)
    other = torch.where(folds[:, None] == 1, 1 - y, y)
    (after,) = fit((x, other, folds), settings)
    assert torch.equal(before.scores[folds == 1], after.scores[folds == 1])
    assert not torch.equal(before.scores[folds == 0], after.scores[folds == 0])


def test_a_member_is_the_same_alone_and_beside_others(dense):
    x, y, folds = dense
    settings = replace(SETTINGS, layers=2)
    (together,) = fit(dense, settings)
    (alone,) = fit((x, y, torch.where(folds == 0, 0, -1)), settings)
    close(alone.scores[folds == 0], together.scores[folds == 0])
    close(alone.model.scores(x), together.model.member(0).scores(x))
    assert bool((alone.scores[folds != 0] == 0).all())
    (beside,) = fit((x, y, torch.where(folds == 1, 1, -1)), settings)
    close(beside.scores[folds == 1], together.scores[folds == 1])


def test_settings_are_fitted_as_if_alone_and_equal_calls_are_equal(dense):
    others = replace(SETTINGS, loss="asl"), replace(SETTINGS, width=8, epochs=2, noise=0.0)
    many = fit(dense, SETTINGS, *others, SETTINGS, seed=3)
    for settings, one in zip([SETTINGS, *others, SETTINGS], many, strict=True):
        (again,) = fit(dense, settings, seed=3)
        assert torch.equal(again.scores, one.scores)
        assert torch.equal(again.model.scores(dense[0]), one.model.scores(dense[0]))
    assert not torch.equal(fit(dense, seed=4)[0].scores, many[0].scores)
    assert not torch.equal(many[0].model.first[:, 0], many[0].model.first[:, 1])


@pytest.mark.parametrize("kind", ["dense", "few"])
def test_features_may_come_dense_or_sparse(kind, request):
    x, y, folds = request.getfixturevalue(kind)
    (a,), (b,) = fit((x, y, folds)), fit((sparse(x), y, folds))
    close(a.scores, b.scores)
    close(a.model.scores(sparse(x)), b.model.scores(x))


def test_dense_features_of_any_scale(dense):
    x, y, folds = dense
    (a,), (b,) = fit((x, y, folds)), fit((x * 1000 + 5000, y, folds))
    torch.testing.assert_close(a.scores, b.scores, rtol=0.01, atol=0.02)
    torch.testing.assert_close(
        a.model.scores(x), b.model.scores(x * 1000 + 5000), rtol=0.01, atol=0.02
    )


def test_all_rows_fitted_by_one(dense):
    x, y, _ = dense
    (done,) = fit((x, y, torch.full((ROWS,), -1)))
    assert bool((done.scores == 0).all())
    assert len(done.model) == 1
    assert float(((done.model.scores(x) > 0) == (y > 0.5)).float().mean()) > 0.7


@pytest.mark.parametrize("name", losses.names())
def test_every_loss(few, name):
    loss = losses.build(name, **({"pos": "bce", "neg": "hill"} if name == "mix" else {}))
    (done,) = fit(few, replace(SETTINGS, loss=loss))
    linked = loss.link_missing() is None
    assert (done.loss is None) == linked
    assert bool(done.scores.isfinite().all())
    assert done.scores.dtype == torch.float32
    assert not torch.equal(done.scores, fit(few)[0].scores) or name == "bce"


def test_sums_and_losses_that_change_with_the_epoch(dense):
    total = losses.build("bce") + 0.5 * losses.build("two-way")
    late = losses.build("splc", base="bce", start_epoch=99)
    plain, summed, never = fit(
        dense, SETTINGS, *(replace(SETTINGS, loss=loss) for loss in (total, late))
    )
    assert bool(summed.scores.isfinite().all())
    assert never.loss is late
    close(never.scores, plain.scores)


@pytest.mark.parametrize("loss", ["bce", "two-way", "sigmoid-f1"])
def test_unknown_entries_have_no_influence(few, loss):
    x, y, folds = few
    g = torch.Generator().manual_seed(2)
    unknown = torch.rand(ROWS, LABELS, generator=g) < 0.3
    unknown[5] = True
    settings = replace(SETTINGS, loss=losses.build(loss))
    (done,) = fit((x, y.masked_fill(unknown, torch.nan), folds), settings)
    (full,) = fit((x, y, folds), settings)
    assert bool(done.scores.isfinite().all())
    assert not torch.equal(done.scores, full.scores)
    if loss == "bce":  # a row of which nothing is known may be any row
        moved = x.clone()
        moved[5] = 0
        (other,) = fit((moved, y.masked_fill(unknown, torch.nan), folds), settings)
        rest = torch.arange(ROWS) != 5
        close(other.scores[rest], done.scores[rest])


def test_one_positive_and_constant_labels(dense):
    x, y, folds = dense
    y = y.clone()
    y[:, 0], y[:, 1], y[:, 2] = 0, 1, 0
    y[7, 2] = 1
    for loss in ("bce", "asl", "two-way"):
        (done,) = fit((x, y, folds), replace(SETTINGS, loss=loss))
        assert bool(done.scores.isfinite().all())
        if loss == "bce":
            assert bool((done.scores[:, 0] < -2).all())
            assert bool((done.scores[:, 1] > 2).all())


@pytest.mark.parametrize("kind", ["dense", "few"])
def test_equal_to_a_plain_loop(kind, request):
    """All rows in one batch, nothing left out: weights as by autograd and torch's own AdamW."""
    x, y, _ = request.getfixturevalue(kind)
    if kind == "dense":
        x = (x - x.mean(0)) / x.std(0, correction=0)
    everything = x, y, torch.full((ROWS,), -1)
    settings = replace(
        SETTINGS, layers=2, batch=ROWS, epochs=6, dropout=0.0, noise=0.0, weight_decay=0.1
    )
    (start,), (done,) = fit(everything, replace(settings, lr=0.0)), fit(everything, settings)
    drawn = start.model.tensors()
    w = {k: torch.nn.Parameter(t.clone()) for k, t in drawn.items() if t.is_floating_point()}
    added = [w["shift"], w["bias"]]
    decayed = [w["first"], w["inner"], w["last"]]
    optimiser = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": added, "weight_decay": 0.0}]
    )
    for step in range(6):
        h = x @ w["first"][:, 0]
        for layer in range(2):
            h = h if layer == 0 else h @ w["inner"][0, 0]
            h = torch.nn.functional.layer_norm(h + w["shift"][layer, 0], (16,)).relu()
        logits = h @ w["last"][0] + w["bias"][0]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, y) * LABELS
        loss.backward()
        rise = (1 - math.cos(math.pi * step / 0.8)) / 2  # one-cycle: 0.3 * 6 - 1 steps up
        share = 1 / 25 + (1 - 1 / 25) * rise
        if step > 0.8:
            fall = (1 + math.cos(math.pi * (step - 0.8) / (5 - 0.8))) / 2
            share = 1 / 25e4 + (1 - 1 / 25e4) * fall
        for group in optimiser.param_groups:
            group["lr"] = settings.lr * share
        optimiser.step()
        optimiser.zero_grad()
    for name, t in done.model.tensors().items():
        if name in w and name != "centre":
            close(t, w[name].detach())
            assert not torch.equal(t, drawn[name])


def test_any_width_and_batch(dense):
    x, y, folds = dense
    odd = replace(SETTINGS, width=5, batch=7, layers=2, dropout=0.999)
    (done,) = fit(dense, odd)
    (alone,) = fit((x, y, torch.where(folds == 1, 1, -1)), odd)
    close(alone.scores[folds == 1], done.scores[folds == 1])


@pytest.mark.parametrize(("rows", "features"), [(2, 1), (2, 5), (3, 1)])
def test_tiny_data(rows, features):
    x = torch.arange(rows * features).reshape(rows, features).float()
    y = torch.tensor([[1.0], [0.0], [1.0]])[:rows]
    for table in ((x, y, torch.arange(rows) % 2), (torch.zeros_like(x), y, torch.arange(rows) % 2)):
        (done,) = fit(table, MlpSettings())
        assert bool(done.scores.isfinite().all())


def test_a_diverged_setting_fails_alone(dense):
    bad, good = fit(dense, replace(SETTINGS, lr=1e30), SETTINGS)
    assert isinstance(bad, Failed)
    assert "lower lr" in bad.reason
    assert torch.equal(good.scores, fit(dense)[0].scores)


def test_a_setting_for_which_there_is_no_time_fails_alone(dense):
    long = replace(SETTINGS, epochs=1_000_000)
    failed, done = fit(dense, long, SETTINGS, seconds=60.0)
    assert isinstance(failed, Failed)
    assert "s are left" in failed.reason
    assert torch.equal(done.scores, fit(dense)[0].scores)


class Killed(KeyboardInterrupt):
    pass


@contextmanager
def as_many(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("kind", "threads"),
    [
        *(("dense", 1), ("few", 2)),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("dense", 2), ("few", 1))),
    ],
)
def test_resumed_training_ends_as_if_nothing_had_happened(
    kind, threads, request, tmp_path, monkeypatch
):
    table = request.getfixturevalue(kind)
    settings = SETTINGS, replace(SETTINGS, loss="asl", layers=2)
    with as_many(threads):
        whole = fit(table, *settings)
        saved, save = [], Checkpoint.save

        def killed(self, steps, state):
            save(self, steps, state)
            saved.append(steps)
            if len(saved) == 40:  # of 24 steps for each setting and thread
                raise Killed

        options = {"checkpoint": tmp_path, "save_seconds": 0.0}
        with monkeypatch.context() as patched:
            patched.setattr(Checkpoint, "save", killed)
            with pytest.raises(Killed):
                fit(table, *settings, **options)
        again = fit(table, *settings, **options)
        for a, b in zip(whole, again, strict=True):
            assert torch.equal(a.scores, b.scores)
            assert torch.equal(a.model.scores(table[0]), b.model.scores(table[0]))
        (done, _) = fit(table, *settings, **options)
        assert torch.equal(done.scores, whole[0].scores)


def test_threads_do_not_matter_and_are_left_as_they_were(dense):
    with as_many(1):
        (one,) = fit(dense)
    with as_many(2):
        (two,) = fit(dense)
        assert torch.get_num_threads() == 2
    close(one.scores, two.scores)


def test_an_interrupt_passes_through(dense):
    def stop(share):
        raise Killed

    with pytest.raises(Killed):
        fit(dense, replace(SETTINGS, epochs=10_000), progress=stop)


def test_a_checkpoint_of_other_rows_or_settings_is_not_used(dense, tmp_path):
    x, y, folds = dense
    fit(dense, checkpoint=tmp_path)
    for table, settings, seed in [
        ((x + 1e-3 * x**2, y, folds), SETTINGS, 0),
        ((x, 1 - y, folds), SETTINGS, 0),
        ((x, y, folds.flip(0)), SETTINGS, 0),
        (dense, replace(SETTINGS, lr=0.02), 0),
        (dense, SETTINGS, 1),
    ]:
        (kept,) = fit(table, settings, seed=seed, checkpoint=tmp_path)
        (plain,) = fit(table, settings, seed=seed)
        assert torch.equal(kept.scores, plain.scores)


def test_progress_rises_to_1(dense):
    shares = []
    fit(dense, SETTINGS, SETTINGS, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": losses.build("bce", reduction="none")}, "reduction"),
        ({"width": 1}, "width"),
        ({"layers": 0}, "layers"),
        ({"epochs": 0}, "epochs"),
        ({"dropout": 1.0}, "dropout"),
        ({"lr": -1.0}, "lr"),
    ],
)
def test_settings_are_checked(change, message):
    with pytest.raises(ValueError, match=message):
        MlpSettings(**change)


def test_data_is_checked(dense):
    x, y, folds = dense
    with pytest.raises(ValueError, match="the same rows"):
        fit((x[:-1], y, folds))
    with pytest.raises(ValueError, match="must be finite"):
        fit((torch.where(x > 2, torch.nan, x), y, folds))
