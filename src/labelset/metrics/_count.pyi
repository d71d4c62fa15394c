from typing import Any

def gather(
    scores: Any,
    bytes: int,
    rows: int,
    n: int,
    pointers: Any,
    indices: Any,
    by_column: bool,
    next: Any,
    own: Any,
) -> None: ...
def rank(
    scores: Any,
    bytes: int,
    rows: int,
    n: int,
    by_column: bool,
    starts: Any,
    own: Any,
    at_least: Any,
    level: Any,
    on_at_least: Any,
    first: int,
    last: int,
) -> None: ...
def area(order: Any, marks: Any, weights: Any, times: int, sums: Any, total: Any) -> None: ...
def precision(order: Any, marks: Any, weights: Any, times: int, sums: Any, total: Any) -> None: ...
