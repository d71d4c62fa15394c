"""Losses over the global batch: what one process with the rows of all ranks would compute."""

from labelset.distributed._global import GlobalBatch, global_batch

__all__ = ["GlobalBatch", "global_batch"]
