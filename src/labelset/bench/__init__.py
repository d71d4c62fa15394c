"""How fast the losses are: forward and backward, against the floor and torch.compile."""

from typing import TYPE_CHECKING

from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.bench.cases import Case, chosen, shape, usual, usual_density
    from labelset.bench.measure import Bench
    from labelset.bench.results import (
        COLUMNS,
        BenchRow,
        figure,
        lines,
        merged,
        plot,
        read_rows,
        write_rows,
    )
else:
    __getattr__, __dir__ = door(__name__)

__all__ = [
    "COLUMNS",
    "DTYPES",
    "IMPLEMENTATIONS",
    "LABEL_KINDS",
    "Bench",
    "BenchRow",
    "Case",
    "chosen",
    "figure",
    "lines",
    "merged",
    "plot",
    "read_rows",
    "shape",
    "usual",
    "usual_density",
    "write_rows",
]

DTYPES = ("float32", "bfloat16", "float16")
LABEL_KINDS = ("dense", "float", "sparse")
IMPLEMENTATIONS = ("eager", "torch.compile", "compiled", "triton", "native", "auto")
