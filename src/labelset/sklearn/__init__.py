"""scikit-learn's interface: a multi-label classifier, and maps and rules around other people's."""

from labelset.files import optional

optional("sklearn.base", "scikit-learn's estimators", extra="sklearn")

from labelset.sklearn.classifier import MultiLabelClassifier  # noqa: E402
from labelset.sklearn.model_selection import MultiLabelStratifiedKFold, scorer  # noqa: E402
from labelset.sklearn.wrappers import CalibratedLabels, DecidedLabels  # noqa: E402

__all__ = [
    "CalibratedLabels",
    "DecidedLabels",
    "MultiLabelClassifier",
    "MultiLabelStratifiedKFold",
    "scorer",
]
