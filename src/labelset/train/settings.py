"""Everything that training does, in one frozen object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import torch

from labelset import check, heads, losses, metrics
from labelset.losses import Loss, describe_loss, read_loss
from labelset.train._optimiser import OPTIMISERS, SCHEDULES

PRECISIONS = ("float32", "bfloat16", "float64")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to train. What is None is chosen by the data; `Trained.settings` says what it was.

    >>> Settings(loss="spa", epochs=5).as_json()["epochs"]
    5
    >>> Settings.from_json({"loss": "focal", "loss_settings": {"gamma": 1}}).build_loss().gamma
    1
    """

    loss: str | Loss = "bce"
    """The name of a loss, or one."""
    loss_settings: dict[str, Any] = field(default_factory=dict)
    """Its hyperparameters."""
    head: str = "linear"
    head_settings: dict[str, Any] = field(default_factory=dict)
    """rank and bias of a linear head; k, slack, order of a DFT head. `order="cooccurrence"` orders
    labels by the training rows; k is else the most labels on in a training row, slack 16."""
    epochs: int = 20
    batch: int | None = None
    """Rows per step at most."""
    lr: float | None = None
    """The highest learning rate."""
    optimiser: str = "shared-adamw"
    """adamw; shared-adamw, the same but with one second moment per output for the matrix that
    meets features, which rare features need; or sgd with momentum 0.9."""
    weight_decay: float | None = None
    """Share of a weight that is lost per step, over the learning rate."""
    schedule: str = "one-cycle"
    ema: float = 0.0
    """Decay of the moving average of weights, such as 0.99; 0: no average."""
    precision: str = "float32"
    """bfloat16: of products in training, all else being float32. float64: of weights and losses,
    too, which is slow, and tells rounding from other differences. Final weights and scores are
    float32 in any case."""
    patience: int = 0
    """Stop after this many epochs without a better validation metric; 0: never."""
    monitor: str | None = "map@class"
    """The validation metric by which the best epoch is chosen; None: the last epoch is taken."""
    seed: int = 0
    seconds: float | None = None
    """Stop after the epoch in which this time is over. Where that happens depends on the machine,
    so that such a run is not reproducible."""
    device: str = "cpu"

    def __post_init__(self) -> None:
        check.whole("epochs", self.epochs, low=1)
        if self.batch is not None:
            check.whole("batch", self.batch, low=1)
        if self.lr is not None:
            check.number("lr", self.lr, low=0.0, open_low=True)
        check.one_of("optimiser", self.optimiser, OPTIMISERS)
        if self.weight_decay is not None:
            check.number("weight_decay", self.weight_decay, low=0.0)
        check.one_of("schedule", self.schedule, SCHEDULES)
        check.fraction("ema", self.ema)
        check.one_of("precision", self.precision, PRECISIONS)
        check.whole("patience", self.patience)
        check.whole("seed", self.seed)
        if self.seconds is not None:
            check.number("seconds", self.seconds, low=0.0)
        if self.monitor is not None:
            metrics.build(self.monitor)
        elif self.patience:
            raise ValueError("patience needs a metric to watch: set monitor, or patience to 0")
        heads.catalog.get(self.head)
        self._check_device()
        self.build_loss()

    def _check_device(self) -> None:
        try:
            kind = torch.device(self.device).type
        except (RuntimeError, TypeError):
            raise ValueError(f"device must be cpu or cuda, got {self.device!r}") from None
        if kind == "cuda" and not torch.cuda.is_available():
            raise ValueError("device is cuda, and torch finds none here; take cpu")

    def build_loss(self) -> Loss:
        """The loss."""
        if isinstance(self.loss, Loss):
            if self.loss_settings:
                raise TypeError("loss_settings go with the name of a loss, not with a loss")
            return self.loss
        return losses.build(self.loss, **self.loss_settings)

    def as_json(self) -> dict[str, Any]:
        """For `from_json`; a loss that is in no catalogue is only named."""
        described = asdict(replace(self, loss="bce", loss_settings={}))
        described |= {"loss": self.loss, "loss_settings": dict(self.loss_settings)}
        if isinstance(self.loss, Loss):
            try:
                described["loss"] = describe_loss(self.loss)
            except TypeError:
                described["loss"] = repr(self.loss)
        return described

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Settings:
        """What `as_json` wrote; a key that is left out has its default."""
        known = [f.name for f in fields(cls)]
        for key in saved:
            if key not in known:
                raise TypeError(
                    f"no training setting is called {key!r}: {check.nearest(key, known)}"
                )
        described = dict(saved)
        if isinstance(described.get("loss"), Mapping):
            described["loss"] = read_loss(described["loss"])
        return cls(**described)
