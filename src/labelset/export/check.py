"""An exported model held to the one that it was made from, before it is written anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from labelset.export.pipeline import Pipeline
from labelset.export.scoring import product_of
from labelset.heads import Head
from labelset.model import Blend, Mlp, SavedModel, Scorer, mixed

LOGITS = 1e-5
"""How far a logit may be off, as a share of the size of what is added up: sum |w x| + |b|."""
PROBABILITIES = 1e-6
"""How far a probability may be off, given the logits; a step of a map may lie one logit further."""
ROWS = 64

Exported = Callable[[Tensor], Sequence[Tensor]]


class ExportFailed(RuntimeError):
    """The exported model does not give what the run gives; nothing was written."""


def probes(pipeline: Pipeline, seed: int = 0) -> list[Tensor]:
    """Random rows about what training saw, small and large; zeros; one row; none at all.

    Where the graph scales features some are missing, and infinite where it cuts them off.
    """
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(ROWS, pipeline.width, generator=draw, dtype=torch.float64)
    x *= torch.tensor([0.1, 1.0, 10.0, 1e4], dtype=torch.float64).repeat(ROWS // 4)[:, None]
    scaling = pipeline.scaling
    if scaling is not None and scaling.standardises:
        x = x * scaling.deviation.double() + scaling.mean.double()  # type: ignore[operator]
        x[3, -1], x[4, -1] = torch.inf, -torch.inf  # cut off at a thousand deviations
    if scaling is not None:
        x[::7, 0] = torch.nan
    every = torch.cat([x, torch.zeros(1, x.shape[1], dtype=x.dtype)]).to(pipeline.dtype)
    return [every, every[1:2], every[:0]]


def compare(run: SavedModel, pipeline: Pipeline, exported: Exported, seed: int = 0) -> None:
    """ExportFailed unless every output is that of the run.

    Each stage is judged by what the stage before it gave: probabilities by the run's map of the
    exported logits, decisions by the run's rule for the exported probabilities, which must agree
    exactly.
    """
    for x in probes(pipeline, seed):
        with failing(f"the exported model fails for {len(x)} rows"):
            got = dict(zip(pipeline.outputs, exported(x), strict=True))
        v, p = got["logits"], got["probabilities"]
        judge("logits", _far_logits(run, pipeline, x, v))
        judge("probabilities", far_probabilities(run, v, p))
        if "decisions" in got:
            judge("decisions", (run.predictor.decide(p).dense() == 1) != got["decisions"])


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Whatever another program raises becomes ExportFailed."""
    try:
        yield
    except Exception as error:
        raise ExportFailed(f"{what}, and nothing was written: {error}") from error


def judge(what: str, wrong: Tensor) -> None:
    """ExportFailed where an entry is wrong."""
    count = int(wrong.sum())
    if count:
        row, label = (int(i) for i in wrong.nonzero()[0])
        raise ExportFailed(
            f"the exported {what} differ from the run's in {count} of {wrong.numel()} entries "
            f"tried, first at row {row}, label {label}; nothing was written"
        )


def _far_logits(run: SavedModel, pipeline: Pipeline, x: Tensor, got: Tensor) -> Tensor:
    """Against the model itself, given what its encoder would give."""
    z = x if pipeline.scaling is None else pipeline.scaling(x.clone())
    if pipeline.model is None:
        return ~(got == z)
    low, high = reach(run.model, z.to(pipeline.model.dtype))
    return ~((low <= got.double()) & (got.double() <= high))


def reach(model: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """The lowest and the highest float64 scores of features that rounding can explain.

    A head is worked out in float64. Networks may be off in the logit of each member, and a blend
    in the probability of each part. The scores of forests and kernel machines are as good as
    exact, since their graphs add up in float64 as they themselves do.
    """
    if isinstance(model, Blend):
        ends = [_ends(part.calibrator, *reach(part.model, x)) for part in model.parts]
        low, high = (mixed(each, model.weights) for each in zip(*ends, strict=True))
    elif isinstance(model, Mlp):
        logits = model.wide.logits(x)
        # |h| of normalised units h is at most the root of their number
        size = model.last.norm(dim=1) * model.last.shape[1] ** 0.5 + model.bias.abs()
        off = LOGITS * size[:, None]
        tried = torch.stack([model.joined(logits + side * off) for side in (-1, 0, 1)])
        low, high = tried.amin(0), tried.amax(0)
    else:
        low = high = Scorer(model).of_features(x)
    due, far = (low.double() + high.double()) / 2, (high.double() - low.double()) / 2
    size = product_of(model).size(x) if isinstance(model, Head) else 1 + due.abs()
    return due - far - LOGITS * size, due + far + LOGITS * size


def _ends(calibrator: Any, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The lowest and the highest probabilities of scores between two."""
    tried = torch.stack([calibrator(v) for v in (low, (low + high) / 2, high)])
    return tried.amin(0) - PROBABILITIES, tried.amax(0) + PROBABILITIES


def far_probabilities(run: SavedModel, v: Tensor, got: Tensor) -> Tensor:
    """Of the logit itself, or of a neighbouring number: where a map has a step."""
    near = [v, *(torch.nextafter(v, torch.full_like(v, end)) for end in (-torch.inf, torch.inf))]
    errors = [(run.predictor.probabilities(each.double()) - got).abs() for each in near]
    return ~(torch.stack(errors).amin(0) <= PROBABILITIES)
