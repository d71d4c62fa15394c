"""The answer in the terminal: candidates by the metrics that matter, and the sentence."""

from __future__ import annotations

from labelset.compare._comparison import Comparison
from labelset.compare._recommend import stage_of
from labelset.compare._summary import Standing

__all__ = ["table_rows"]

MARK = {"better": "+", "worse": "-", "no difference": " ", "baseline": " "}


def table_rows(found: Comparison) -> list[list[str]]:
    """Rows of cells, the head first, the candidates by the metric that was asked for."""
    optimise = found.plan.optimise
    shown = [(stage_of(optimise), optimise)]
    shown += [("raw", "map@class"), ("raw", "f1-micro"), ("tuned", "f1-micro"), ("raw", "f1-macro")]
    shown += [("tuned", "f1-macro"), ("raw", "ace"), ("calibrated", "ace")]
    shown = list(dict.fromkeys(shown))
    head = ["candidate", *(f"{metric} {stage}" for stage, metric in shown), "can say"]
    lines = []
    for key, held in found.standings.items():
        by = {(s.stage, s.metric): s for s in held}
        able = found.expressible[key]
        cells = [_cell(by[stage, metric]) for stage, metric in shown]
        lines.append((by[shown[0]].mean, [key, *cells, "-" if able is None else f"{able:.0%}"]))
    lines.sort(key=lambda line: -line[0])
    failed = [[key, "failed", *["-"] * (len(head) - 2)] for key in found.failed]
    return [head, *(cells for _, cells in lines), *failed]


def _cell(standing: Standing) -> str:
    return f"{standing.mean:.3f}{MARK[standing.verdict]}"
