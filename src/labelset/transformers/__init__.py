"""Hugging Face transformers: losses, metrics, heads, probabilities and thresholds for its Trainer.

The module needs the package transformers, and the Trainer needs accelerate.
"""

from labelset.files import optional

optional("transformers", "the tools of labelset.transformers", "transformers")

from labelset.transformers.model import (  # noqa: E402
    LabelSetPipeline,
    from_pretrained,
    pipeline,
    predictor,
    store,
    swap_head,
)
from labelset.transformers.trainer import (  # noqa: E402
    IGNORED,
    MultiLabelTrainer,
    TrainerLoss,
    TrainerMetrics,
    collator,
    compute_loss_func,
    compute_metrics,
)

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
    "pipeline",
    "predictor",
    "store",
    "swap_head",
]
