"""Scores, probabilities and label sets as users give them: checked once, at the boundary."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from labelset import csr
from labelset.labels import Labels


def matrix(given: Any, what: str = "scores") -> Tensor:
    """A (rows, labels) tensor, float64 where it was given so (or as whole numbers), else float32.

    Values are not looked at.
    """
    if isinstance(given, Labels):
        raise TypeError(f"{what} are due here, got Labels; give one number per row and label")
    t = csr.as_tensor(given).detach()
    if t.ndim != 2:
        raise ValueError(f"{what} must be 2-D (rows, labels), got shape {tuple(t.shape)}")
    if t.dtype == torch.float64 or not t.is_floating_point():
        return t.double()
    return t.float()


def probabilities(given: Any, known: Tensor | None = None) -> Tensor:
    """The same, every known entry a number in [0, 1]; the first bad one is named."""
    p = matrix(given, "probabilities")
    low, high = _ends(p)
    if not (low >= 0 and high <= 1):
        _refuse(~((p >= 0) & (p <= 1)), p, known, "probabilities must lie in [0, 1]")
    return p


def scores(given: Any, known: Tensor | None = None) -> Tensor:
    """The same, no known entry NaN."""
    v = matrix(given)
    if math.isnan(_ends(v)[0]):
        _refuse(v.isnan(), v, known, "scores must be numbers")
    return v


def paired_scores(given: Any, labels: Any) -> tuple[Tensor, Labels]:
    """Scores and their labels. What a score of an unknown label is does not matter."""
    y = Labels.from_dense(labels)
    v = matrix(given)
    _same_place(v, y, "scores")
    return scores(v, y.known()), y


def paired_probabilities(given: Any, labels: Any) -> tuple[Tensor, Labels]:
    """Probabilities and their labels, those of unknown labels being whatever they are."""
    y = Labels.from_dense(labels)
    p = matrix(given, "probabilities")
    _same_place(p, y, "probabilities")
    return probabilities(p, y.known()), y


def row_weights(given: Any, rows: int) -> Tensor:
    """(rows,) float64 weights of rows, none negative, not all 0.

    >>> row_weights([1, 2], rows=2)
    tensor([1., 2.], dtype=torch.float64)
    """
    weight = csr.as_tensor(given).detach().double()
    if weight.shape != (rows,):
        got = f"got shape {tuple(weight.shape)}"
        raise ValueError(f"sample_weight must be one number for each of {rows} rows, {got}")
    if not bool((weight.isfinite() & (weight >= 0)).all()):
        raise ValueError("sample_weight must be numbers, none of them negative")
    if rows and not bool(weight.any()):
        raise ValueError("sample_weight is 0 for every row, which leaves none to count")
    return weight


def label_sets(given: Any, labels: Any) -> tuple[Labels, Labels]:
    """Predicted and true label sets, 0 / 1 both; predictions have no unknown entries."""
    if not isinstance(given, Labels):
        t = csr.as_tensor(given)
        wrong = t.is_floating_point() and not bool(((t == 0) | (t == 1)).all())
        if wrong:
            raise ValueError(
                "label sets are due here (Labels, or a matrix of 0 and 1), got other numbers; "
                "turn probabilities into label sets with a rule, such as "
                "labelset.decide.build('fixed', threshold=0.5)(probabilities)"
            )
    predicted, y = Labels.from_dense(given), Labels.from_dense(labels)
    _same_place(predicted, y, "label sets")
    if predicted.values is not None and bool(predicted.values.isnan().any()):
        raise ValueError("predicted label sets must be known in every entry, got unknown ones")
    return hard(predicted), hard(y)


def hard(labels: Labels) -> Labels:
    """Labels that are on, off or unknown; soft ones are refused."""
    values = labels.values
    if values is not None and bool(((values != 1) & ~values.isnan()).any()):
        raise ValueError(
            "labels must be 0 or 1 (or unknown) here, got soft ones; decide which are on, such "
            "as Labels.from_dense(y >= 0.5)"
        )
    return labels


def _same_place(given: Any, labels: Labels, what: str) -> None:
    if tuple(given.shape) != labels.shape:
        raise ValueError(f"{what} have shape {tuple(given.shape)}, labels {labels.shape}")
    if given.device != labels.device:
        raise ValueError(
            f"{what} are on {given.device}, labels on {labels.device}; "
            f"move the labels with labels.to({str(given.device)!r})"
        )


def _ends(t: Tensor) -> tuple[float, float]:
    """The smallest and the largest entry, in one quick pass; NaN if one is NaN, 0 if none is."""
    if not t.numel():
        return 0.0, 0.0
    low, high = t.aminmax()
    return float(low), float(high)


def _refuse(bad: Tensor, t: Tensor, known: Tensor | None, wanted: str) -> None:
    if known is not None:
        bad = bad & known
    if bool(bad.any()):
        row, label = (int(i) for i in bad.nonzero()[0])
        value = t[row, label].item()
        raise ValueError(f"{wanted}, got {value:g} at row {row}, label {label}")
