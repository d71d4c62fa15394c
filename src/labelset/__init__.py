"""Everything after the encoder in multi-label learning."""

from labelset import calibrate, data, decide, heads, losses, metrics, retrieve
from labelset.labels import Labels
from labelset.linear import linear_loss, linear_sgd_step
from labelset.losses import NoLink
from labelset.proofs import verify

__all__ = [
    "Labels",
    "NoLink",
    "calibrate",
    "data",
    "decide",
    "heads",
    "linear_loss",
    "linear_sgd_step",
    "losses",
    "metrics",
    "retrieve",
    "verify",
]
__version__ = "0.1.0"
