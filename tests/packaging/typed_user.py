"""A user's project, typed strictly: every room once. Checked by mypy; the core is run as well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type

import torch
from torch import Tensor

import labelset as ls
from labelset.calibrate import ProbMap
from labelset.data import Dataset
from labelset.decide import Rule
from labelset.heads import Head
from labelset.losses import Loss, Separable
from labelset.metrics import Metric
from labelset.model import SavedModel, Split
from labelset.proofs import Verification


class Own(Separable):
    """A loss of one's own."""

    def pos(self, v: Tensor) -> Tensor:
        return torch.nn.functional.softplus(-v)

    def neg(self, v: Tensor) -> Tensor:
        return torch.nn.functional.softplus(v)


def core(logits: Tensor, features: Tensor, rows: list[list[int]]) -> dict[str, float]:
    labels = ls.Labels.from_lists(rows, n=logits.shape[1])
    loss = ls.losses.build("spa", k_neg=2.0) + 0.5 * ls.losses.build("asl")
    assert_type(loss, Loss)
    value: Tensor = loss(logits, labels) + Own()(logits, labels) + loss.at(1)(logits, labels)
    try:
        probabilities = ls.losses.build("bce").link(logits)
    except ls.NoLink:
        probabilities = torch.sigmoid(logits)
    head = ls.heads.build("dft", features=features.shape[1], labels=labels.n, k=1)
    assert_type(head, Head)
    weight, bias = head.matrix()
    assert_type(weight, Tensor)
    found = ls.verify(head, labels)
    assert_type(found, Verification)
    calibrated = ls.calibrate.build("platt").fit(logits, labels)
    assert_type(calibrated, ProbMap)
    rule = ls.decide.build("global").fit(calibrated(logits), labels)
    assert_type(rule, Rule)
    predicted: ls.Labels = rule(calibrated(logits))
    metric = ls.metrics.build("f1-micro")
    assert_type(metric, Metric)
    order, scores = ls.retrieve.rank("a & !b", probabilities, ["a", "b", "c"])
    assert_type(order, Tensor)
    fused = ls.linear_loss(features, torch.zeros(labels.n, features.shape[1]), labels, "bce")
    model = torch.nn.Linear(features.shape[1], labels.n)
    batches = [(features[:2], labels[:2]), (features[2:], labels[2:])]
    summed = ls.accumulate(model, batches, ls.losses.build("sigmoid-f1"))
    spread = ls.distributed.global_batch("bce")(logits, labels)
    fewer = ls.data.drop_labels(labels, 0.5, seed=0)
    names: list[str] = [*ls.losses.names(), *found.status.tolist()]
    return {
        "f1": metric(predicted, labels),
        "value": float(value + fused + summed + spread + scores.sum()),
        "kept": float(fewer.counts().sum()),
        "names": float(len(names) + (0 if bias is None else 1)),
    }


def around(dataset: Dataset, folder: Path) -> SavedModel:
    from labelset.doctor import diagnose
    from labelset.encode import build as encoder
    from labelset.export import to_onnx, to_safetensors, to_torch
    from labelset.report import CandidateInput, ReportInput, write_report
    from labelset.runs import Comparison, Plan, Tuned, compare, tune
    from labelset.testing import check_loss
    from labelset.train import Progress, Settings, Trained, train

    def told(news: Progress) -> None:
        print(news.epoch, news.loss)

    dataset = ls.data.ensure_split(dataset, seed=1)
    trained = train(dataset, Settings(loss="asl", epochs=1), folder, progress=told)
    assert_type(trained, Trained)
    compared = compare(dataset, Plan(losses=("bce",), seeds=1), folder / "c", jobs=1)
    assert_type(compared, Comparison)
    assert_type(tune(dataset, "spa", folder / "t", trials=2), Tuned)
    run = SavedModel.open(folder / "c")
    run.splits["test"] = Split(dataset.labels, trained.scores["test"])
    write_report(ReportInput([CandidateInput("bce", "bce", "linear", run)]), folder / "r.html")
    causes: list[str] = [finding.cause for finding in diagnose(run).findings]
    check_loss(Own(), laws=causes or None)
    for export in (to_onnx, to_torch):
        export(run, folder / "m", decisions=False)
    to_safetensors(run, folder / "h.safetensors")
    print(encoder("features"), ls.data.inspect(dataset).labels)
    return run


def with_others(model: Any, x: Any, y: Any) -> list[Callable[..., Any]]:
    import labelset.keras as lk
    import labelset.transformers as lt
    from labelset.sklearn import CalibratedLabels, DecidedLabels, MultiLabelClassifier, scorer
    from labelset.torchmetrics import Streamed, build

    answer = ls.compare(x, y, losses=["bce"], time_budget=1.0)
    labels: ls.Labels = answer.best_model.predict(x)
    classifier = MultiLabelClassifier("spa", head="dft", head_params={"k": 3}).fit(x, y)
    wrapped = DecidedLabels(CalibratedLabels(classifier), rule="global").fit(x, y)
    streamed = build("map@class")
    assert_type(streamed, Streamed)
    assert_type(lt.swap_head(model, "dft", k=3), Head)
    trainer = lt.compute_loss_func("asl", gamma_neg=2)
    metrics = lt.compute_metrics("f1-micro", loss="asl")
    return [
        labels.dense,
        wrapped.predict,
        scorer("f1-micro"),
        streamed,
        trainer,
        metrics,
        lk.build("bce"),
    ]
