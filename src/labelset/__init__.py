"""Everything after the encoder in multi-label learning."""

from labelset import heads, losses, metrics
from labelset.labels import Labels
from labelset.losses import NoLink
from labelset.proofs import verify

__all__ = ["Labels", "NoLink", "heads", "losses", "metrics", "verify"]
__version__ = "0.1.0"
