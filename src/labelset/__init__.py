"""Everything after the encoder in multi-label learning."""

from typing import TYPE_CHECKING

from labelset.lazy import door

if TYPE_CHECKING:
    from labelset import calibrate, data, decide, distributed, heads, losses, metrics, retrieve
    from labelset.distributed import accumulate
    from labelset.labels import Labels
    from labelset.linear import linear_loss, linear_sgd_step
    from labelset.losses import NoLink
    from labelset.proofs import verify
    from labelset.runs.from_memory import compare_rows as compare
else:
    __getattr__, __dir__ = door(__name__)

__all__ = [
    "Labels",
    "NoLink",
    "accumulate",
    "calibrate",
    "compare",
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
__version__ = "0.2.0"
