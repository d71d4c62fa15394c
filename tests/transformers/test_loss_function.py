"""compute_loss_func by itself: the parts of a step add up to its loss, or it says no."""

import pytest
import torch

from labelset import losses
from labelset.testing.cases import random_batch

pytest.importorskip("transformers")
from transformers import TrainerControl, TrainerState

from labelset.transformers import collator, compute_loss_func

PAIRS = ("lpr", "spa+lpr")  # losses of rows that state no way
SETTINGS = [(n, e) for n in losses.names() for e in losses.catalog.get(n).examples]


def batch(unknown):
    v, y = random_batch(12, 6, seed=3, unknown=unknown)
    y[:, 0] = 1.0  # every row counts
    return v.requires_grad_(), y.nan_to_num(-100.0)


def truth(loss, v, y):
    value = loss(v, torch.where(y == -100, torch.nan, y))
    return value.item(), torch.autograd.grad(value, v)[0]


def told(func):
    """As the Trainer does at the first epoch that has splc's correction."""
    func.callback.on_epoch_begin(None, TrainerState(epoch=1.0), TrainerControl())
    return func


@pytest.mark.parametrize(("name", "example"), SETTINGS, ids=str)
@pytest.mark.parametrize("unknown", [False, True])
def test_micro_batches_add_up_or_are_refused(name, example, unknown):
    loss = losses.build(name, **example)
    v, y = batch(unknown)
    func, items = told(compute_loss_func(loss)), (y != -100).sum()
    by_row = "sample" in (getattr(loss, "way", "") + getattr(loss, "average", ""))
    if not (func.of_entries or (not unknown and (by_row or name in PAIRS))):
        with pytest.raises(ValueError, match="MultiLabelTrainer"):
            [func({"logits": v[i : i + 4]}, y[i : i + 4], items) for i in (0, 4, 8)]
        return
    parts = [func({"logits": v[i : i + 4]}, y[i : i + 4], items) for i in (0, 4, 8)]
    (slope,) = torch.autograd.grad(sum(parts), v)
    want, whole = truth(loss, v, y)
    assert sum(parts).item() == pytest.approx(want, rel=1e-9)
    torch.testing.assert_close(slope, whole)


@pytest.mark.parametrize("name", losses.names())
def test_a_step_of_one_batch_is_the_loss_itself(name):
    loss = losses.build(name, **losses.catalog.get(name).examples[0])
    v, y = batch(unknown=True)
    y[3] = -100.0
    for items in (None, (y != -100).sum()):
        value = told(compute_loss_func(loss))((v,), y, num_items_in_batch=items)
        want, whole = truth(loss, v, y)
        assert value.item() == pytest.approx(want, rel=1e-9)
        torch.testing.assert_close(torch.autograd.grad(value, v)[0], whole)


def test_unknown_labels_that_the_trainer_would_count_are_refused():
    v, y = batch(unknown=True)
    nan = torch.where(y == -100, torch.nan, y)
    func = compute_loss_func("bce")
    alone = func((v,), nan, torch.tensor(nan.numel()))
    assert alone.item() == pytest.approx(losses.build("bce")(v, nan).item())
    with pytest.raises(ValueError, match=r"write unknown labels as -100"):
        func((v,), nan, torch.tensor(2 * nan.numel()))
    counted = collator(lambda rows: {"labels": torch.stack(rows)})(list(nan))["labels"]
    assert torch.equal(counted, y)


def test_a_row_with_nothing_on_does_not_count():
    v, y = batch(unknown=False)
    y[1] = 0.0
    func = compute_loss_func("softmax")
    assert func((v,), y, y.numel()).item() == pytest.approx(losses.build("softmax")(v, y).item())
    with pytest.raises(ValueError, match="not all rows"):
        func((v[:4],), y[:4], y.numel())


def test_a_loss_that_changes_wants_to_be_told():
    func = compute_loss_func("splc", base="bce", start_epoch=2)
    v, y = batch(unknown=False)
    with pytest.raises(ValueError, match=r"callbacks=\[func.callback\]"):
        func((v,), y, y.numel())
    for epoch, state in ((0, 0.0), (0, None), (1, 1.5), (2, 2.0), (2, 2.9)):
        func.callback.on_epoch_begin(None, TrainerState(epoch=state), TrainerControl())
        assert func.epoch == epoch
        want = losses.build("splc", base="bce", start_epoch=2).at(epoch)(v, y)
        assert func((v,), y, y.numel()).item() == pytest.approx(want.item())


def test_reductions():
    v, y = batch(unknown=True)
    total = compute_loss_func("bce", reduction="sum")
    parts = sum(total((v[i : i + 4],), y[i : i + 4], 7) for i in (0, 4, 8))
    assert parts.item() == pytest.approx(truth(losses.build("bce", reduction="sum"), v, y)[0])
    with pytest.raises(ValueError, match="reduction"):
        compute_loss_func("bce", reduction="none")
    nothing = compute_loss_func("bce")((v,), torch.full_like(y, -100), 0)
    assert nothing.item() == 0.0


def test_bad_input():
    v, y = batch(unknown=False)
    func = compute_loss_func("bce")
    for labels, said in ((None, "column `labels`"), (torch.ones(12).long(), "2-D")):
        with pytest.raises(ValueError, match=said):
            func((v,), labels)
    with pytest.raises(ValueError, match=r"logits of shape \(rows, labels\)"):
        func({"logits": v[None]}, y)
    with pytest.raises(ValueError, match="torchrun"):
        func((v,), y, torch.tensor([[72], [72]]))
    with pytest.raises(ValueError, match="no loss is called"):
        compute_loss_func("bcd")
    with pytest.raises(TypeError, match="hyperparameters"):
        compute_loss_func(losses.build("bce"), smoothing=0.1)
