"""Losses over ranks, of which each holds some rows or some labels: as one process computes them."""

from labelset.distributed._global import GlobalBatch, global_batch
from labelset.distributed._head import ShardedLinear, shard_labels
from labelset.distributed._labels import OverLabels, over_labels
from labelset.distributed._linear import linear_loss, linear_sgd_step
from labelset.distributed._lost import RankLost

__all__ = [
    "GlobalBatch",
    "OverLabels",
    "RankLost",
    "ShardedLinear",
    "global_batch",
    "linear_loss",
    "linear_sgd_step",
    "over_labels",
    "shard_labels",
]
