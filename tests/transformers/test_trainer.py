"""The real Trainer on a tiny model: what is accumulated is the step itself."""

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score, log_loss

from labelset import calibrate, decide, losses, metrics


def close(one, other):
    torch.testing.assert_close(one[0], other[0], rtol=1e-4, atol=1e-6)
    assert one[1] == pytest.approx(other[1], rel=1e-4)


def test_the_built_in_loss_is_not_scaled_under_accumulation(small):
    """Four micro batches have four times the loss and four times the gradient of one batch."""
    whole, said = small.trained("plain", 12, 1)
    parts, wrong = small.trained("plain", 3, 4)
    assert wrong[0] == pytest.approx(4 * said[0], rel=1e-5)
    assert (parts - whole).abs().max() > 0.01
    start = small.weights(small.model())
    one = small.trained("plain", 24, 1)[0] - start
    eight = small.trained("plain", 3, 8)[0] - start
    torch.testing.assert_close(eight, 8 * one, rtol=1e-3, atol=1e-6)


def test_ours_is(small):
    close(small.trained("plain", 3, 4, loss="bce"), small.trained("plain", 12, 1))
    whole = small.trained("plain", 12, 1, loss="asl", unknown=True)
    close(small.trained("plain", 3, 4, loss="asl", unknown=True), whole)


@pytest.mark.parametrize("loss", ["spa+lpr", "sigmoid-f1", "two-way", "spa"])
def test_our_trainer_is_exact_for_every_loss(small, loss):
    whole = small.trained("ours", 9, 1, loss=loss, unknown=True)
    assert len(whole[1]) == 3  # of 9, 9 and 6 rows
    close(small.trained("ours", 3, 3, loss=loss, unknown=True), whole)


def test_batch_losses_are_refused_by_the_plain_trainer(small):
    with pytest.raises(ValueError, match="loss of the whole batch"):
        small.trained("plain", 3, 2, loss="sigmoid-f1")
    whole = small.trained("ours", 12, 1, loss="sigmoid-f1")
    close(small.trained("plain", 12, 1, loss="sigmoid-f1"), whole)


def test_what_our_trainer_does_not_take(small, monkeypatch):
    with pytest.raises(TypeError, match="either `metrics`"):
        small.trainer("ours", 3, 1, loss="bce", metrics=["nll"], compute_metrics=print)
    args = small.TrainingArguments
    monkeypatch.setattr(args, "world_size", 2)
    with pytest.raises(ValueError, match="counted over processes"):
        small.trainer("ours", 3, 1, loss="bce", average_tokens_across_devices=False)
    monkeypatch.setattr(args, "n_gpu", 2)
    with pytest.raises(ValueError, match="torchrun"):
        small.trainer("ours", 3, 1, loss="bce")


def test_what_is_computed_ahead_drops_the_same(small, monkeypatch):
    """bce needs no look ahead; with one, and dropout, it must come out the same."""
    plain = small.trained("ours", 3, 4, loss="bce", dropout=0.3)
    monkeypatch.setattr(small.lt.TrainerLoss, "of_entries", False)
    close(small.trained("ours", 3, 4, loss="bce", dropout=0.3), plain)
    monkeypatch.undo()
    quiet = small.trained("ours", 3, 4, loss="bce")
    assert (quiet[0] - plain[0]).abs().max() > 1e-3


def test_the_epoch_is_told(small, monkeypatch):
    seen = []
    loss = losses.build("splc", start_epoch=1)
    kept = small.lt.TrainerLoss.at
    monkeypatch.setattr(small.lt.TrainerLoss, "at", lambda f, e: (seen.append(e), kept(f, e))[1])
    small.trained("ours", 12, 1, loss=loss, num_train_epochs=3)
    assert seen == [None, 0, 1, 2]


def test_evaluation_counts_known_labels_and_means_by_the_loss(small):
    made = small.trainer("ours", 12, 1, loss="spa", unknown=True, metrics=["map@class", "nll"])
    scores = made.predict(small.rows(True)).predictions
    y = torch.stack([row["labels"] for row in small.rows(True)])
    found = made.evaluate(small.rows(True))
    loss = losses.build("spa")
    known = ~y.isnan().numpy()
    p = loss.link(torch.tensor(scores)).double().numpy()[known]
    assert found["eval_nll"] == pytest.approx(log_loss(y.numpy()[known], p), rel=1e-6)
    each = [average_precision_score(y.numpy()[k, j], scores[k, j]) for j, k in enumerate(known.T)]
    assert found["eval_map@class"] == pytest.approx(np.mean(each), rel=1e-6)
    # the Trainer's eval_loss is the mean over batches of 8 rows of their means
    batches = [loss(torch.tensor(scores[i : i + 8]), y[i : i + 8]).item() for i in (0, 8, 16)]
    assert found["eval_loss"] == pytest.approx(np.mean(batches), rel=1e-5)


@pytest.mark.parametrize("by_batch", [False, True])
def test_metrics_have_the_values_of_scikit_learn(small, by_batch):
    rule = decide.build("fixed", threshold=0.48)
    measured = small.lt.compute_metrics("f1-macro", "precision@2", loss="bce", rule=rule)
    made = small.trainer(
        "plain", 12, 1, loss="bce", compute_metrics=measured, batch_eval_metrics=by_batch
    )
    found = [made.evaluate(small.rows()) for _ in range(2)]
    scores = made.predict(small.rows()).predictions
    y = torch.stack([row["labels"] for row in small.rows()]).numpy()
    said = torch.sigmoid(torch.tensor(scores)).numpy() >= 0.48
    want = f1_score(y, said, average="macro", zero_division=0)
    hits = np.take_along_axis(y, np.argsort(-scores, axis=1)[:, :2], axis=1).mean()
    for values in found:
        assert values["eval_f1-macro"] == pytest.approx(want)
        assert values["eval_precision@2"] == pytest.approx(hits)


def test_metrics_have_names_of_their_own(small):
    compute_metrics = small.lt.compute_metrics
    both = compute_metrics(metrics.build("ndcg@3"), metrics.build("ndcg@5"))
    assert sorted(both.named) == ["ndcg@3", "ndcg@5"]
    with pytest.raises(ValueError, match="two metrics are called 'ece'"):
        compute_metrics(metrics.build("ece", bins=5), "ece", loss="bce")
    with pytest.raises(TypeError, match=r"got \['map@class'\]"):
        compute_metrics(["map@class"])


def test_metrics_that_have_no_probabilities_are_refused_before_training(small):
    measured = small.lt.compute_metrics
    with pytest.raises(losses.NoLink, match="Give it as `map`"):
        measured("map@class", "ece", loss="sigmoid-f1")
    measured("map@class", loss="sigmoid-f1")
    with pytest.raises(decide.NotFitted):
        measured("f1-micro", rule="per-class")
    with pytest.raises(calibrate.NotFitted):
        measured("nll", map="platt")
    with pytest.raises(ValueError, match="at least one metric"):
        measured()
    prediction = type(
        "P", (), {"predictions": (np.zeros((2, 2)), 1), "label_ids": np.zeros((2, 2))}
    )
    with pytest.raises(ValueError, match="map@class over the evaluation data is not defined"):
        measured("map@class")(prediction)
    own = metrics.build("f1-micro", beta=2.0)
    assert list(measured(own, loss="bce")(prediction)) == ["f1-micro"]
