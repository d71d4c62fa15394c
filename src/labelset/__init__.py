"""Everything after the encoder in multi-label learning."""

from labelset import calibrate, data, decide, distributed, heads, losses, metrics, retrieve
from labelset.labels import Labels
from labelset.linear import linear_loss, linear_sgd_step
from labelset.losses import NoLink
from labelset.micro_batches import accumulate
from labelset.proofs import verify

__all__ = [
    "Labels",
    "NoLink",
    "accumulate",
    "calibrate",
    "data",
    "decide",
    "distributed",
    "heads",
    "linear_loss",
    "linear_sgd_step",
    "losses",
    "metrics",
    "retrieve",
    "verify",
]
__version__ = "0.1.0"
