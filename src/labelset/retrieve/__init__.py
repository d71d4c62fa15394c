"""Queries such as `fork & apple & !knife`: ranking by them, and judging a model by how it ranks."""

from typing import TYPE_CHECKING

from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.retrieve.protocol import (
        Expected,
        Group,
        Retrieval,
        curves,
        evaluate,
        expected_right,
    )
    from labelset.retrieve.query import And, Formula, Name, Not, Or, QueryError, parse
    from labelset.retrieve.ranking import certain, log_scores, rank
else:
    __getattr__, __dir__ = door(__name__)


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
