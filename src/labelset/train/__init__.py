"""Training: one loop for every encoder, head and loss."""

from typing import TYPE_CHECKING

from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.files import Busy
    from labelset.train._checkpoint import BadCheckpoint
    from labelset.train._solution import spread
    from labelset.train._state import Training, linked
    from labelset.train.fitted import Diverged, Failed, Fitted
    from labelset.train.members import MlpSettings, fit_members
    from labelset.train.network import Progress, Trained, train
    from labelset.train.pseudo import PseudoLabelled, pseudo_label, relabelled
    from labelset.train.settings import Settings
    from labelset.train.task import Task
else:
    __getattr__, __dir__ = door(__name__)


__all__ = [
    "BadCheckpoint",
    "Busy",
    "Diverged",
    "Failed",
    "Fitted",
    "MlpSettings",
    "Progress",
    "PseudoLabelled",
    "Settings",
    "Task",
    "Trained",
    "Training",
    "fit_members",
    "linked",
    "pseudo_label",
    "relabelled",
    "spread",
    "train",
]
