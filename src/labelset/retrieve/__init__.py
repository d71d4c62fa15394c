"""Queries such as `fork & apple & !knife`: ranking by them, and judging a model by how it ranks."""

from labelset.retrieve._expected import Expected, expected_right
from labelset.retrieve._figure import curves
from labelset.retrieve._formula import And, Formula, Name, Not, Or
from labelset.retrieve._protocol import Group, Retrieval, evaluate
from labelset.retrieve._query import QueryError, parse
from labelset.retrieve._rank import certain, log_scores, rank

__all__ = [
    "And",
    "Expected",
    "Formula",
    "Group",
    "Name",
    "Not",
    "Or",
    "QueryError",
    "Retrieval",
    "certain",
    "curves",
    "evaluate",
    "expected_right",
    "log_scores",
    "parse",
    "rank",
]
