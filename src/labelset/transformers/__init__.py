"""Hugging Face transformers: losses, metrics, heads, probabilities and thresholds for its Trainer.

The module needs the package transformers, and the Trainer needs accelerate.
"""

from labelset.data._optional import optional

optional("transformers", "the tools of labelset.transformers", "transformers")

from labelset.transformers._config import meaning, store  # noqa: E402  what is missing is said first
from labelset.transformers._head import from_pretrained, swap_head  # noqa: E402
from labelset.transformers._labels import IGNORED, collator  # noqa: E402
from labelset.transformers._loss import TrainerLoss, compute_loss_func  # noqa: E402
from labelset.transformers._metrics import TrainerMetrics, compute_metrics  # noqa: E402
from labelset.transformers._pipeline import LabelSetPipeline, pipeline  # noqa: E402
from labelset.transformers._trainer import MultiLabelTrainer  # noqa: E402

__all__ = [
    "IGNORED",
    "LabelSetPipeline",
    "MultiLabelTrainer",
    "TrainerLoss",
    "TrainerMetrics",
    "collator",
    "compute_loss_func",
    "compute_metrics",
    "from_pretrained",
    "meaning",
    "pipeline",
    "store",
    "swap_head",
]
