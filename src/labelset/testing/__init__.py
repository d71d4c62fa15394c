"""The laws that every loss is held to, for the losses of labelset and for your own.

>>> import labelset as ls
>>> check_loss(ls.losses.build("mse"), laws=["gradient", "unknown", "link"])
"""

from labelset.testing._cases import LawBroken
from labelset.testing._loss_laws import LOSS_LAWS, check_loss

__all__ = ["LOSS_LAWS", "LawBroken", "check_loss"]
