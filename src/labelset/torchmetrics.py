"""Metrics as torchmetrics has them: `build(name)`, `collection(names)`; values are ours."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from labelset import metrics
from labelset.files import optional
from labelset.labels import Labels
from labelset.metrics import Kept, Metric, State
from labelset.model import Predictor

optional("torchmetrics", "the metrics of labelset.torchmetrics", "torchmetrics")

from torchmetrics import Metric as Base  # noqa: E402  what is missing is said above
from torchmetrics import MetricCollection  # noqa: E402
from torchmetrics.utilities.distributed import gather_all_tensors  # noqa: E402


class Streamed(Base):
    """One of our metrics as a `torchmetrics.Metric`: update(preds, target), compute, forward.

    What a batch contributes is a state: sums with `dist_reduce_fx="sum"`, kept rows with "cat", so
    that synchronisation and `MetricCollection` treat it as any other. With a `predictor`, preds are
    scores whatever the metric takes. Where our metric raises since nothing defines it (no label
    is on), the value is NaN: a single batch may well have nothing.

    >>> metric = Streamed(metrics.build("hamming"))
    >>> metric(torch.tensor([[1, 0]]), torch.tensor([[1, 1]]))
    tensor(0.5000, dtype=torch.float64)
    >>> metric.update(torch.tensor([[0, 0]]), torch.tensor([[0, 0]]))
    >>> metric.compute()
    tensor(0.2500, dtype=torch.float64)
    """

    is_differentiable = False
    full_state_update = False

    def __init__(self, metric: Metric, predictor: Predictor | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        if predictor is not None:
            predictor.require(metric)
        self.of, self.predictor = metric, predictor
        self._mark = _mark(metric, predictor)
        empty = torch.zeros(0, _width(metric))
        self._keys: dict[str, bool] = {}
        for key, part in metric.state(*metric.checked(empty, empty)).items():
            self._keys[key] = isinstance(part, Kept)
            if isinstance(part, Kept):
                self.add_state(self._name(key, "given"), [], "cat")
                self.add_state(self._name(key, "truth"), [], "cat")
            else:
                self.add_state(self._name(key), torch.zeros_like(part), "sum")
        self.add_state(self._name("labels"), torch.tensor(0), "max")

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        """Whether larger values are better."""
        return self.of.higher_is_better

    def extra_repr(self) -> str:
        """Which of our metrics it is."""
        return repr(self.of)

    def _name(self, *words: str) -> str:
        # MetricCollection shares the states of metrics whose states have equal names and, after
        # one batch, equal values. Equal values may be chance (ndcg@1 and precision@1): the name
        # says whose state it is
        return "_".join((*words, self._mark))

    def update(self, preds: Any, target: Any) -> None:
        """Count a batch: what our metric takes (or scores, with a predictor) and the labels."""
        given = preds if self.predictor is None else self.predictor.metric_input(self.of, preds)
        given, y = self.of.checked(given, target)
        before = int(getattr(self, self._name("labels")))
        if before not in (0, y.n):
            raise ValueError(f"batches must have equal numbers of labels, got {before} and {y.n}")
        for key, part in self.of.state(given, y).items():
            if isinstance(part, Kept):
                self._keep(key, *part.copied().together()[:2])
            else:
                setattr(self, self._name(key), getattr(self, self._name(key)) + part)
        setattr(self, self._name("labels"), torch.tensor(y.n, device=self.device))

    def _keep(self, key: str, given: Tensor, labels: Labels) -> None:
        getattr(self, self._name(key, "given")).append(given)
        getattr(self, self._name(key, "truth")).append(labels.dense(torch.float64))

    def compute(self) -> Tensor:
        """The value over all that was counted, on all ranks where torch.distributed is running."""
        return torch.tensor(self._value(), dtype=torch.float64, device=self.device)

    def _value(self) -> float:
        if not int(getattr(self, self._name("labels"))):
            return torch.nan
        try:
            return self.of.result(self._total()).value
        except ValueError as error:
            if not str(error).startswith("not defined"):
                raise
            return torch.nan

    def _total(self) -> State:
        total: State = {}
        for key, kept in self._keys.items():
            if kept:
                given, truth = (_joined(getattr(self, n)) for n in self._pair(key))
                total[key] = Kept(given, Labels.from_dense(truth))
            else:
                total[key] = getattr(self, self._name(key))
        return total

    def _pair(self, key: str) -> tuple[str, str]:
        return self._name(key, "given"), self._name(key, "truth")

    # ---- ranks ----------------------------------------------------------------------------------

    def _sync_dist(
        self, dist_sync_fn: Callable[..., Any] = gather_all_tensors, process_group: Any = None
    ) -> None:
        """As torchmetrics does it, once all ranks have states of equal shape and precision.

        A rank that has counted nothing does not know how many labels there are.
        """
        group = process_group or self.process_group
        labels = getattr(self, self._name("labels"))
        double = any(t.dtype == torch.float64 for name in self._kept() for t in _listed(self, name))
        mine = torch.stack([labels, torch.tensor(int(double), device=labels.device)])
        all_ranks = torch.stack(list(dist_sync_fn(mine, group=group)))
        counted = all_ranks[:, 0]
        n = int(counted.max())
        if bool(((counted != 0) & (counted != n)).any()):
            raise ValueError(f"ranks must have equal numbers of labels, got {counted.tolist()}")
        self._widen(n, torch.float64 if bool(all_ranks[:, 1].any()) else torch.float32)
        super()._sync_dist(dist_sync_fn, process_group)

    def _kept(self) -> list[str]:
        return [self._name(key, "given") for key, kept in self._keys.items() if kept]

    def _widen(self, n: int, dtype: torch.dtype) -> None:
        """The same content in the shape that n labels have."""
        for key, kept in self._keys.items():
            if kept:
                for name, precision in zip(self._pair(key), (dtype, torch.float64), strict=True):
                    none = torch.zeros(0, n, device=self.device)
                    setattr(self, name, [_joined([none, *_listed(self, name)]).to(precision)])
        if n and not int(getattr(self, self._name("labels"))):
            none = torch.zeros(0, n, device=self.device)
            for key, part in self.of.state(*self.of.checked(none, none)).items():
                if not isinstance(part, Kept):
                    setattr(self, self._name(key), part)


def build(name: str, *, predictor: Predictor | None = None, **hyperparameters: Any) -> Streamed:
    """Our metric of that name as a `torchmetrics.Metric`.

    `Streamed(metric, predictor, dist_sync_on_step=True, ...)` takes torchmetrics' own settings.

    >>> build("precision@2")(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    tensor(0.5000, dtype=torch.float64)
    """
    return Streamed(metrics.build(name, **hyperparameters), predictor)


def collection(
    names: Iterable[str | Metric],
    *,
    loss: Any = None,
    map: Any = None,
    rule: Any = None,
    **settings: Any,
) -> MetricCollection:
    """Metrics that all take scores; the loss, map and rule say what these mean.

    Other settings, such as `prefix`, are those of `torchmetrics.MetricCollection`.

    >>> both = collection(["map@class", "f1-micro"], loss="bce")
    >>> both.update(torch.tensor([[2.0, -1.0]]), torch.tensor([[1, 0]]))
    >>> {name: value.item() for name, value in both.compute().items()}
    {'f1-micro': 1.0, 'map@class': 1.0}
    """
    predictor = Predictor.of(loss, map, rule)
    named = predictor.metrics(names).items()
    return MetricCollection({name: Streamed(each, predictor) for name, each in named}, **settings)


def _width(metric: Metric) -> int:
    """How many labels the metric is for; 1 where any number will do, since sums spread from it."""
    each = [t for t in metric.settings().values() if isinstance(t, Tensor) and t.ndim]
    return len(each[0]) if each else 1


def _mark(metric: Metric, predictor: Predictor | None) -> str:
    settings = {
        key: value.tolist() if isinstance(value, Tensor) else value
        for key, value in metric.settings().items()
    }
    said = (type(metric).__qualname__, settings, None if predictor is None else _said(predictor))
    return hashlib.sha1(repr(said).encode(), usedforsecurity=False).hexdigest()[:8]


def _said(predictor: Predictor) -> Any:
    calibrator = None if predictor.calibrator is None else predictor.calibrator.as_json()
    return calibrator, predictor.rule.as_json()


def _listed(metric: Base, name: str) -> list[Tensor]:
    held = getattr(metric, name)
    return [held] if isinstance(held, Tensor) else list(held)


def _joined(held: Any) -> Tensor:
    """A kept state: a list before it was synchronised, one tensor after that."""
    return held if isinstance(held, Tensor) else torch.cat(list(held))
