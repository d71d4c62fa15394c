"""How fast the losses are: forward and backward, against the floor, torch.compile and peers."""

from labelset.bench._case import DTYPES, LABEL_KINDS, Case, shape, usual_density
from labelset.bench._implementations import IMPLEMENTATIONS, chosen, usual
from labelset.bench._measure import Bench
from labelset.bench._plot import plot
from labelset.bench._row import COLUMNS, Row, merged, read_rows, write_rows
from labelset.bench._text import filled, lines, markdown

__all__ = [
    "COLUMNS",
    "DTYPES",
    "IMPLEMENTATIONS",
    "LABEL_KINDS",
    "Bench",
    "Case",
    "Row",
    "chosen",
    "filled",
    "lines",
    "markdown",
    "merged",
    "plot",
    "read_rows",
    "shape",
    "usual",
    "usual_density",
    "write_rows",
]
