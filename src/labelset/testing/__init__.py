"""The laws that losses, heads, maps, rules and metrics are held to, and that your own can be.

>>> import labelset as ls
>>> check_loss(ls.losses.build("mse"), laws=["gradient", "unknown", "link"])
"""

from typing import TYPE_CHECKING

from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.testing.calibrator_laws import MAP_LAWS, check_map
    from labelset.testing.cases import LawBroken
    from labelset.testing.head_laws import HEAD_LAWS, check_head
    from labelset.testing.loss_laws import LOSS_LAWS, check_loss
    from labelset.testing.metric_laws import METRIC_LAWS, check_metric
    from labelset.testing.rule_laws import RULE_LAWS, check_rule
else:
    __getattr__, __dir__ = door(__name__)

__all__ = [
    "HEAD_LAWS",
    "LOSS_LAWS",
    "MAP_LAWS",
    "METRIC_LAWS",
    "RULE_LAWS",
    "LawBroken",
    "check_head",
    "check_loss",
    "check_map",
    "check_metric",
    "check_rule",
]
