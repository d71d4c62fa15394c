"""What an exported file says about itself: plain words and JSON, by key."""

from __future__ import annotations

import json

import torch

import labelset
from labelset.artefact import Run
from labelset.calibrate import catalog as maps
from labelset.export._pipeline import Pipeline
from labelset.losses import catalog as losses
from labelset.losses._described import describe_loss

__all__ = ["about"]


def about(run: Run, pipeline: Pipeline) -> dict[str, str]:
    """Key -> text: names and versions, what goes in, and what was done to get out of it."""
    name = losses.name_of(type(run.loss))
    loss = describe_loss(run.loss) if name in losses.classes or run.loss is None else name
    return {
        "labelset.labels": json.dumps(run.names, ensure_ascii=False),
        "labelset.version": labelset.__version__,
        "labelset.torch": str(torch.__version__),
        "labelset.input": pipeline.taken,
        "labelset.encoder": "none" if run.encoder is None else run.encoder.name,
        "labelset.head": "none" if run.head is None else run.head.name,
        "labelset.loss": json.dumps(loss),
        "labelset.map": _map(run),
        "labelset.rule": "none" if pipeline.rule is None else pipeline.rule.name,
    }


def _map(run: Run) -> str:
    if run.map is not None:
        return maps.name_of(type(run.map))
    return "sigmoid" if run.loss is None else "the loss's own link"
