from typing import Any

def passes(
    starts: Any,
    columns: Any,
    values: Any,
    sizes: Any,
    order: Any,
    idle: Any,
    tables: Any,
    table: Any,
    targets: Any,
    counts: Any,
    strength: float,
    dual: Any,
    weight: Any,
    bias: Any,
    least: int,
    most: int,
    enough: float,
    seed: int,
) -> tuple[int, float, float]: ...
def scores(
    starts: Any, columns: Any, values: Any, weight: Any, bias: Any, rows: Any, out: Any
) -> None: ...
