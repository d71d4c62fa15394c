"""The study: the papers' claims on real data, claim by claim."""

from labelset_studies._candidate import Candidate
from labelset_studies._cell import Budget, Cell
from labelset_studies._expect import Expect
from labelset_studies._page import write_page
from labelset_studies._read import Results, read_results
from labelset_studies._study import estimated, study
from labelset_studies._table import Table, read_table, read_tables

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
