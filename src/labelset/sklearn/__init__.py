"""scikit-learn's interface: a multi-label classifier, and maps and rules around other people's."""

from labelset.data._optional import optional

optional("sklearn.base", "scikit-learn's estimators", extra="sklearn")

from labelset.sklearn._calibrated import CalibratedLabels  # noqa: E402
from labelset.sklearn._classifier import MultiLabelClassifier  # noqa: E402
from labelset.sklearn._decided import DecidedLabels  # noqa: E402
from labelset.sklearn._scorer import scorer  # noqa: E402

__all__ = ["CalibratedLabels", "DecidedLabels", "MultiLabelClassifier", "scorer"]
