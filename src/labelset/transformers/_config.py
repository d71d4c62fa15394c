"""What a model's scores mean, in its config, and so in config.json beside its weights."""

from __future__ import annotations

from typing import Any

from labelset.losses._described import describe_loss, read_loss
from labelset.meaning import Meaning

__all__ = ["held", "meaning", "store"]

KEY = "labelset"


def store(model: Any, loss: Any = None, map: Any = None, rule: Any = None) -> Meaning:
    """Write the loss, the map to probabilities and the rule into `model.config`.

    `save_pretrained` then saves them, and `labelset.transformers.pipeline` uses them. Without a
    map, probabilities are the link of the loss; without a rule, a label is on from 0.5.
    """
    loss = read_loss(loss)
    means = Meaning.of(loss, map, rule)
    about = {**held(model.config), "loss": describe_loss(loss), "meaning": means.as_json()}
    setattr(model.config, KEY, about)
    model.config.problem_type = "multi_label_classification"
    return means


def meaning(model: Any) -> Meaning:
    """What `store` wrote; of a model of which nothing is written, an error."""
    about = held(model.config)
    if "meaning" not in about:
        raise ValueError(
            "the model's config does not say what its scores mean; write it with "
            "labelset.transformers.store(model, loss=..., map=..., rule=...)"
        )
    return Meaning.from_json(about["meaning"])


def held(config: Any) -> dict[str, Any]:
    """What labelset has written into a config."""
    about = getattr(config, KEY, None)
    return dict(about) if about else {}
