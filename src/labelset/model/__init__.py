"""What a user walks away with: rows to scores, scores to label sets, and the folder of both."""

from typing import TYPE_CHECKING

from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.model.blend import Blend, Part, mixed
    from labelset.model.change import Change, Changes, learns, purpose
    from labelset.model.evaluation import USUAL, Evaluation
    from labelset.model.explanation import Explainer, Explanation, Reason, Share, Weights
    from labelset.model.folder import COMPARED, HEAD, SavedModel, Split, read_scores, score_batches
    from labelset.model.forest import Forest, log_odds
    from labelset.model.kernel import KernelMachine
    from labelset.model.mlp import Mlp
    from labelset.model.predictor import Predictor
    from labelset.model.scorer import NoScore, Scorer, all_numbers
else:
    __getattr__, __dir__ = door(__name__)


__all__ = [
    "COMPARED",
    "HEAD",
    "USUAL",
    "Blend",
    "Change",
    "Changes",
    "Evaluation",
    "Explainer",
    "Explanation",
    "Forest",
    "KernelMachine",
    "Mlp",
    "NoScore",
    "Part",
    "Predictor",
    "Reason",
    "SavedModel",
    "Scorer",
    "Share",
    "Split",
    "Weights",
    "all_numbers",
    "learns",
    "log_odds",
    "mixed",
    "purpose",
    "read_scores",
    "score_batches",
]
