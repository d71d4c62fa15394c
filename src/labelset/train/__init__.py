"""Training: one loop for every encoder, head and loss."""

from labelset.train._checkpoint import BadCheckpoint
from labelset.train._lock import Busy
from labelset.train._loop import train
from labelset.train._progress import Progress
from labelset.train._pseudo import PseudoLabelled, pseudo_label
from labelset.train._settings import Settings
from labelset.train._state import Diverged
from labelset.train._trained import Trained

__all__ = [
    "BadCheckpoint",
    "Busy",
    "Diverged",
    "Progress",
    "PseudoLabelled",
    "Settings",
    "Trained",
    "pseudo_label",
    "train",
]
