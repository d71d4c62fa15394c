"""Hyperparameters of a loss, searched with Optuna: pruned, resumable, on many machines at once."""

from labelset.tune._search import Tuned, space, tune

__all__ = ["Tuned", "space", "tune"]
