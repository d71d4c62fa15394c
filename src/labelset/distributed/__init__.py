"""Losses over ranks, of which each holds some rows or some labels: as one process computes them."""

from typing import TYPE_CHECKING

from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.distributed._global_batch import (
        GlobalBatch,
        RowSums,
        counted,
        global_batch,
        known_per_row,
    )
    from labelset.distributed._over_labels import (
        OverLabels,
        linear_loss,
        linear_sgd_step,
        over_labels,
    )
    from labelset.distributed._sharding import ShardedLinear, shard_labels
    from labelset.distributed.micro_batches import accumulate
    from labelset.ranks import RankLost
else:
    __getattr__, __dir__ = door(__name__)

__all__ = [
    "GlobalBatch",
    "OverLabels",
    "RankLost",
    "RowSums",
    "ShardedLinear",
    "accumulate",
    "counted",
    "global_batch",
    "known_per_row",
    "linear_loss",
    "linear_sgd_step",
    "over_labels",
    "shard_labels",
]
