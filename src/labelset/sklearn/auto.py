"""model="auto": what an estimator fits is the search of `labelset compare`."""

from __future__ import annotations

import inspect
from typing import Any

from labelset import check
from labelset.data import Dataset
from labelset.runs import Choice, Plan, choose_model

OF_SEARCH = ("time_budget", "optimise", "finetune", "label_texts")
"""Parameters of a search, in the order of the signature."""
OF_BOTH = ("model", "random_state")


def is_auto(model: Any) -> bool:
    """Whether a search fits it; parameters that the other way alone heeds are refused."""
    auto = model.model is not None and bool(check.one_of("model", model.model, ("auto",)))
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(type(model).__init__).parameters.items()
        if name not in ("self", *OF_BOTH) and (name in OF_SEARCH) != auto
    }
    for name, default in defaults.items():
        value = getattr(model, name)
        if value is not default and value != default:
            way = (
                "with model='auto', which tries out what there is"
                if auto
                else "without model='auto'"
            )
            raise ValueError(f"{name}={value!r} has no effect {way}; leave one of them out")
    return auto


def goes_in_parts(model: Any) -> bool:
    """Whether more rows can be learnt later; AttributeError says why not."""
    if model.model is not None:
        raise AttributeError("model='auto' fits all rows at once: call fit, not partial_fit")
    return True


def searched(model: Any, data: Dataset) -> Choice:
    """The best model of these rows, by folds among all of them."""
    named = None if model.finetune is None else tuple(model.finetune)
    plan = Plan(
        optimise=model.optimise,
        seconds=model.time_budget,
        finetune=named,
        label_texts=model.label_texts,
    )
    return choose_model(data, plan)


def search_of(choice: Choice, metric: str) -> dict[str, Any]:
    """What was tried, as plain numbers and words, the best first."""
    return {
        "metric": metric,
        "best": choice.best,
        "sentence": choice.sentence,
        "candidates": [
            {
                "candidate": one.name,
                metric: one.value,
                "seconds": one.seconds,
                "chosen": one.name == choice.best,
                "note": one.note,
            }
            for one in choice.candidates
        ],
    }
