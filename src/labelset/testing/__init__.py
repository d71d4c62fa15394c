"""The laws that losses and heads are held to, those of labelset and your own.

>>> import labelset as ls
>>> check_loss(ls.losses.build("mse"), laws=["gradient", "unknown", "link"])
"""

from labelset.testing._cases import LawBroken
from labelset.testing._head_laws import HEAD_LAWS, check_head
from labelset.testing._loss_laws import LOSS_LAWS, check_loss
from labelset.testing._metric_laws import METRIC_LAWS, check_metric
from labelset.testing._rule_laws import RULE_LAWS, check_rule

__all__ = [
    "HEAD_LAWS",
    "LOSS_LAWS",
    "METRIC_LAWS",
    "RULE_LAWS",
    "LawBroken",
    "check_head",
    "check_loss",
    "check_metric",
    "check_rule",
]
