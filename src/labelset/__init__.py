"""Everything after the encoder in multi-label learning."""

from labelset import losses
from labelset.labels import Labels
from labelset.losses import NoLink

__all__ = ["Labels", "NoLink", "losses"]
__version__ = "0.1.0"
