"""A linear head and its loss together, one block of labels at a time: the logits never exist."""

from labelset.linear._calls import linear_loss, linear_sgd_step

__all__ = ["linear_loss", "linear_sgd_step"]
