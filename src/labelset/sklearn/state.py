"""What an estimator has learnt as plain arrays: pickles hold no tensors, and skops can store it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import calibrate, decide, encode, heads
from labelset.calibrate import ProbMap
from labelset.decide import Rule
from labelset.encode import Encoder
from labelset.heads import Head
from labelset.learned import NotFitted
from labelset.model.blend import ESTIMATORS, estimator

KIND = "labelset"
"""The key that says what a dict stands for."""


class PlainState:
    """To stand before BaseEstimator among the base classes."""

    def __getstate__(self) -> dict[str, Any]:
        """As scikit-learn has it, with what is labelset's described."""
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {name: plain(value) for name, value in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """What `__getstate__` described."""
        built = {name: restored(value) for name, value in state.items()}
        super().__setstate__(built)  # type: ignore[misc]


def plain(value: Any) -> Any:
    """A head or what stands in its place, an encoder, a calibrator, a rule or a tensor as a dict of
    plain things.

    A part that is no part of labelset's catalogues, or is not fitted, stays as it is.

    >>> plain([torch.ones(2), 3])
    [{'labelset': 'tensor', 'array': array([1., 1.], dtype=float32)}, 3]
    """
    if isinstance(value, Tensor):
        return {KIND: "tensor", "array": value.detach().cpu().numpy()}
    if type(value) in (list, tuple):
        return type(value)(plain(each) for each in value)
    if type(value) is dict:
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, Head):
        state = {"settings": plain(value.settings), "state": plain(dict(value.state_dict()))}
        return {KIND: "head", "name": value.name, **state}
    if isinstance(value, ESTIMATORS):
        return {KIND: "estimator", "name": value.kind, "tensors": plain(value.tensors())}
    if isinstance(value, Encoder):
        return {KIND: "encoder", "described": value.as_json(), "state": plain(value.state())}
    if isinstance(value, ProbMap | Rule):
        kind = "calibrator" if isinstance(value, ProbMap) else "rule"
        try:
            return {KIND: kind, "described": value.as_json()}
        except (NotFitted, TypeError, ValueError):
            return value
    return value


def restored(value: Any) -> Any:
    """What `plain` described.

    >>> restored(plain({"a": torch.ones(2)}))
    {'a': tensor([1., 1.])}
    """
    if type(value) in (list, tuple):
        return type(value)(restored(each) for each in value)
    if type(value) is not dict:
        return value
    kind = value.get(KIND)
    if kind == "tensor":
        return torch.from_numpy(np.array(value["array"]))
    if kind == "head":
        state = restored(value["state"])
        head = heads.build(value["name"], **restored(value["settings"]))
        head = head.to(next(t.dtype for t in state.values() if t.is_floating_point()))
        head.load_state_dict(state)
        return head.eval().requires_grad_(False)
    if kind == "estimator":
        return estimator(value["name"]).from_tensors(restored(value["tensors"]))
    if kind == "encoder":
        return encode.from_json(value["described"], restored(value["state"]))
    if kind is not None:
        return {"calibrator": calibrate, "rule": decide}[kind].from_json(value["described"])
    return {key: restored(each) for key, each in value.items()}
