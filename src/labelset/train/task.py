"""What is learnt from: inputs, labels and parts, and the settings that the data decide."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labelset import encode, heads
from labelset.data import Dataset, SparseRows, StoredSparse
from labelset.encode import Encoder, Inputs
from labelset.heads import Head
from labelset.labels import Labels
from labelset.train.settings import Settings

PARTS = ("train", "valid", "test")
RATES = {"dense": (0.005, 0.1, 0.05), "sparse": (0.03, 1.0, 0.6), "deep": (0.01, 0.0, 0.02)}
"""Learning rates by what was tried, for standardised features, sparse ones, and networks that are
trained with the head: of AdamW the least, and the least over sqrt(features); of SGD, per label."""


@dataclass(frozen=True)
class Task:
    """Inputs of all rows, their labels, the rows of each part, and the fitted encoder."""

    encoder: Encoder
    inputs: Inputs
    labels: Labels
    rows: dict[str, Tensor]
    width: int
    """Features that the head gets."""
    numbers: int = 1
    """Of all tokens or patches of a row that the head gets; 1 where it gets the row as a whole."""

    @classmethod
    def of(
        cls, dataset: Dataset, settings: Settings, encoder: Any, cache: str | Path | None
    ) -> Task:
        """Everything that is done once, before the first epoch."""
        sizes = dataset.sizes()  # says what to do where there is no split
        if not sizes[0]:
            raise ValueError("the data set has no training rows; part 0 of its split is empty")
        encoder = encode.as_encoder(encoder, dataset)
        places = heads.catalog.get(settings.head).places
        encoder = encoder.by_place() if places else encoder
        with seeded(settings.seed, "encoder"):
            fitted, inputs = encode.encoded(encoder, dataset, cache)
        assert dataset.split is not None
        rows = {part: (dataset.split == at).nonzero().flatten() for at, part in enumerate(PARTS)}
        width, numbers = _widths(fitted, inputs, places)
        return cls(fitted, inputs, dataset.labels, rows, width, numbers)

    @cached_property
    def lengths(self) -> Tensor | None:
        """How much work each row is, where rows differ."""
        return self.encoder.lengths(self.inputs)

    @property
    def sparse(self) -> bool:
        """Whether the head meets sparse rows."""
        sparse = isinstance(self.inputs, (SparseRows, StoredSparse))
        return sparse and self.encoder.module is None

    def batch(self, rows: Tensor, device: str, step: int = 1) -> tuple[Tensor | SparseRows, Labels]:
        """Inputs and labels of the chosen rows; `step` as in `Encoder.batch_of`."""
        inputs: Tensor | SparseRows = self.encoder.batch_of(self.inputs[rows], step)
        labels = self.labels[rows]
        return (inputs, labels) if device == "cpu" else (inputs.to(device), labels.to(device))

    def resolved(self, settings: Settings) -> Settings:
        """The settings with everything chosen that the data decide."""
        rows, lr, decay = len(self.rows["train"]), settings.lr, settings.weight_decay
        steps = 12 if self.encoder.module is None else 32
        advice = self.encoder.advice if self.encoder.learns else {}
        batch = settings.batch or advice.get("batch")
        batch = batch or 2 ** max(5, min(10, round(math.log2(max(rows / steps, 1)))))
        if lr is None and settings.optimiser != "sgd":
            lr = advice.get("lr")
        lr = self._rate(settings.optimiser) if lr is None else lr
        if decay is None:
            decay = 1e-4 / lr if settings.optimiser == "sgd" else 0.01
        head = self._head_settings(settings)
        return replace(settings, batch=batch, lr=lr, weight_decay=decay, head_settings=head)

    def build_head(self, settings: Settings) -> Head:
        """The head, at its random start."""
        given, labels = dict(settings.head_settings), self.labels[self.rows["train"]]
        if given.get("order") == "cooccurrence":
            given["order"] = heads.order_by_cooccurrence(labels)
        head = heads.build(settings.head, features=self.width, labels=labels.n, **given)
        start_at_frequencies(head, labels)
        return head

    def _rate(self, optimiser: str) -> float:
        """Few features must make larger steps together; SGD's grow with the labels, since most
        losses are means over all of them."""
        kind = "deep" if self.encoder.module is not None else "sparse" if self.sparse else "dense"
        least, together, per_label = RATES[kind]
        if optimiser == "sgd":
            return per_label * self.labels.n
        return max(least, together / math.sqrt(max(self.width, 1)))

    def _head_settings(self, settings: Settings) -> dict[str, Any]:
        if settings.head != "dft":
            return dict(settings.head_settings)
        most = int(self.labels[self.rows["train"]].counts().max())
        k = max(1, min(most, (self.labels.n - 1) // 2))
        return {"k": k, "slack": 16} | settings.head_settings


def _widths(encoder: Encoder, inputs: Inputs, places: bool) -> tuple[int, int]:
    """Features that the head gets, and numbers of all tokens or patches of a row."""
    if encoder.module is None:
        return inputs.shape[1], 1
    encoder.module.eval()
    with torch.no_grad():
        out = encoder.module(inputs[:2])
    if not isinstance(out, Tensor) or out.ndim != 2 + places:
        got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise ValueError(
            f"an encoder must give (rows, features), got {got}; flatten or pool it, or take the "
            "head label-attention, whose (rows, places, features) are tokens or patches"
        )
    width = int(out.shape[-1])
    most = inputs.shape[1] if len(inputs.shape) == 2 else out.shape[1]
    return width, width * most if places else 1


def start_at_frequencies(head: Head, labels: Labels) -> None:
    """A bias that is learnt becomes logit((on_j + 1/2) / (known_j + 1)) of label j, counted on
    training rows.

    Else the first epochs only learn that most labels are off, and rare labels, whose gradients
    are small against that, learn nothing.

    >>> head = heads.build("linear", features=3, labels=2)
    >>> start_at_frequencies(head, Labels.from_dense([[1, 0], [1, 0], [0, 0]]))
    >>> head.classifier.bias.detach().sigmoid()
    tensor([0.6250, 0.1250])
    """
    classifier = getattr(head, "classifier", None)
    if not isinstance(classifier, nn.Linear) or classifier.bias is None:
        return
    values = torch.ones(len(labels.indices)) if labels.values is None else labels.values
    zero = torch.zeros(labels.n, dtype=torch.float64)
    on = zero.index_add(0, labels.indices.long(), values.nan_to_num(0.0).double())
    unknown = zero.index_add(0, labels.indices.long(), values.isnan().double())
    share = (on + 0.5) / (len(labels) - unknown + 1)
    with torch.no_grad():
        classifier.bias.copy_(torch.logit(share))


def mixed(seed: int, what: str) -> int:
    """A seed for one purpose, made of the seed of the run."""
    return int.from_bytes(hashlib.sha256(f"{seed} {what}".encode()).digest()[:7], "big")


@contextmanager
def generators_kept(device: str = "cpu") -> Iterator[None]:
    """Afterwards torch's own generators, the CPU's and the device's, are as before."""
    with torch.random.fork_rng(devices=[] if device == "cpu" else [device]):
        yield


def draw_from(seed: int, what: str, device: str = "cpu") -> None:
    """Let them go on from `mixed(seed, what)`; `torch.manual_seed` takes forty times as long."""
    start = mixed(seed, what)
    torch.default_generator.manual_seed(start)
    if device != "cpu":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(start)


@contextmanager
def seeded(seed: int, what: str) -> Iterator[None]:
    """They start at `mixed(seed, what)`; afterwards the CPU's is as before."""
    with generators_kept():
        torch.manual_seed(mixed(seed, what))
        yield


NEAR = 32
"""Batches whose rows are sorted by length together: more would make the same rows meet again."""


def shuffled(
    rows: Tensor, batch: int, seed: int, lengths: Tensor | None = None
) -> tuple[Tensor, ...]:
    """The rows in random order, in batches of at most `batch`, as equal in size as can be.

    With the lengths of all rows, those of a batch have like ones: of each stretch of the order the
    rows are sorted, and its batches take turns by chance.
    """
    generator = torch.Generator().manual_seed(seed)
    order = rows[torch.randperm(len(rows), generator=generator)]
    count = -(-len(rows) // batch)
    if lengths is None:
        return order.tensor_split(count)
    order = torch.cat([some[lengths[some].argsort()] for some in order.split(NEAR * batch)])  # type: ignore[no-untyped-call]
    batches = order.tensor_split(count)
    return tuple(batches[i] for i in torch.randperm(count, generator=generator).tolist())
