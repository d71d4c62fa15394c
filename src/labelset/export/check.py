"""An exported model held to the one that it was made from, before it is written anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from labelset.export.pipeline import Pipeline
from labelset.model import SavedModel, Scorer

LOGITS = 1e-5
"""How far a logit may be off, as a share of sum |w x| + |b|, the size of what is added up."""
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
        _judge("logits", _far_logits(run, pipeline, x, v))
        _judge("probabilities", _far_probabilities(run, v, p))
        if "decisions" in got:
            _judge("decisions", (run.predictor.decide(p).dense() == 1) != got["decisions"])


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Whatever another program raises becomes ExportFailed."""
    try:
        yield
    except Exception as error:
        raise ExportFailed(f"{what}, and nothing was written: {error}") from error


def _judge(what: str, wrong: Tensor) -> None:
    count = int(wrong.sum())
    if count:
        row, label = (int(i) for i in wrong.nonzero()[0])
        raise ExportFailed(
            f"the exported {what} differ from the run's in {count} of {wrong.numel()} entries "
            f"tried, first at row {row}, label {label}; nothing was written"
        )


def _far_logits(run: SavedModel, pipeline: Pipeline, x: Tensor, got: Tensor) -> Tensor:
    """Against the head itself, in float64."""
    scaled = x if pipeline.scaling is None else pipeline.scaling(x.clone())
    if run.head is None or pipeline.product is None:
        return ~(got == scaled)
    due = Scorer(run.head).of_features(scaled).double()
    near: Tensor = (got.double() - due).abs() <= LOGITS * pipeline.product.size(scaled)
    return ~near


def _far_probabilities(run: SavedModel, v: Tensor, got: Tensor) -> Tensor:
    """Of the logit itself, or of a neighbouring number: where a map has a step."""
    near = [v, *(torch.nextafter(v, torch.full_like(v, end)) for end in (-torch.inf, torch.inf))]
    errors = [(run.predictor.probabilities(each.double()) - got).abs() for each in near]
    return ~(torch.stack(errors).amin(0) <= PROBABILITIES)
