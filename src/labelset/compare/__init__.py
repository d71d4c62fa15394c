"""Which loss, head, calibration and thresholds are best on one's own data: `compare`."""

from labelset.compare._comparison import Comparison, compare, finished
from labelset.compare._plan import DEFAULT_LOSSES, Plan, Task
from labelset.compare._summary import Row, Standing
from labelset.compare._table import table_rows

__all__ = [
    "DEFAULT_LOSSES",
    "Comparison",
    "Plan",
    "Row",
    "Standing",
    "Task",
    "compare",
    "finished",
    "table_rows",
]
