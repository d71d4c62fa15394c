"""The study: the papers' claims on real data, claim by claim."""

from labelset.study._candidate import Candidate
from labelset.study._cell import Budget, Cell
from labelset.study._expect import Expect
from labelset.study._page import write_page
from labelset.study._read import Results, read_results
from labelset.study._study import estimated, study
from labelset.study._table import Table, read_table, read_tables

__all__ = [
    "Budget",
    "Candidate",
    "Cell",
    "Expect",
    "Results",
    "Table",
    "estimated",
    "read_results",
    "read_table",
    "read_tables",
    "study",
    "write_page",
]
