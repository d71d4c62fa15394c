"""What a study comes to: a line per claim, and which combination ranks best."""

from __future__ import annotations

from collections import Counter

from labelset.train import Settings
from labelset_studies._numbers import seeds_told
from labelset_studies._ranking import Ranked, ranks, stages
from labelset_studies._read import Results
from labelset_studies._special import direction
from labelset_studies._table import Table
from labelset_studies._verdict import Sentence

VERDICTS = ("reproduced", "not reproduced", "inconclusive")


def summary(results: Results) -> list[str]:
    """Markdown, of nothing but the results."""
    lines = [
        "| claim | verdict | reproduced | not reproduced | inconclusive | main sentences, and on "
        "how many data sets they hold / are open / are contradicted |",
        "|---|---|---|---|---|---|",
    ]
    for claim, verdict in results.verdicts().items():
        said = [s for t in results.tables if t.claim == claim for s in results.sentences(t)]
        counts = [str(sum(s.verdict == v and not s.extra for s in said)) for v in VERDICTS]
        if verdict == "no claim":
            counts = ["-"] * len(VERDICTS)
        cells = [str(claim), f"**{verdict}**", *counts, "<br>".join(map(_counted, _main(said)))]
        lines.append(f"| {' | '.join(cells)} |")
    for table in results.tables:
        lines += _choosing(results, table)
    return lines


def _main(said: list[Sentence]) -> list[Sentence]:
    """Those marked so; else what the paper says."""
    return [s for s in said if s.main] or [s for s in said if not s.extra]


def _counted(one: Sentence) -> str:
    counts = " / ".join(str(len(sets)) for sets in (one.holds, one.open, one.contradicted))
    return f"{one.says}: *{one.told}*, {counts}"


def _choosing(results: Results, table: Table) -> list[str]:
    """What ranks best by each metric that the table ranks by, beside its first combination."""
    orders = {metric: ranks(results, table, metric) for metric in table.rank}
    orders = {metric: order for metric, order in orders.items() if order}
    if not orders:
        return []
    sets, best = results.sets(table), Counter(order[0].candidate for order in orders.values())
    most = max(best.values())
    leads = " and ".join(name for name in best if best[name] == most)
    return [
        "",
        f"**What that means for choosing.** Combinations of claim {table.claim}, over {len(sets)} "
        f"data sets ({', '.join(sets)}), {seeds_told(results, table, table.metrics[0])}. "
        f"First by most metrics, {most} of {len(orders)}: {leads}. "
        f"The library's default loss is {Settings().loss}.",
        "",
        *(f"- {_best(results, table, metric, order)}" for metric, order in orders.items()),
        "",
        "The order is by test rows, so that the best of many looks better than it is; mean ranks "
        "that lie close together say little.",
    ]


def _best(results: Results, table: Table, metric: str, order: list[Ranked]) -> str:
    """The first two of an order, and where the table's first combination stands."""
    told = f"`{metric}`: {_told(order[0])} of {len(order)}"
    told += f"; next {_told(order[1])}" if order[1:] else ""
    first = (table.candidates[0].name, stages(table, metric)[0])
    place = next((at for at, one in enumerate(order) if one[:2] == first), 0)
    if place == 0:
        return told
    behind = _behind(results, table, metric, order[0], order[place])
    where = f"worse than the first on {behind} of {len(results.sets(table))} data sets"
    own = f"; {_told(order[place])} in place {place + 1}" if place > 1 else ""
    return f"{told}{own}, {where}"


def _behind(results: Results, table: Table, metric: str, best: Ranked, other: Ranked) -> int:
    """On how many data sets the other one is worse."""
    sign = 1.0 if direction(f"{best.stage} {metric}") else -1.0
    firsts, others = (
        [
            results.mean(table, d, one.candidate, f"{one.stage} {metric}")
            for d in results.sets(table)
        ]
        for one in (best, other)
    )
    return sum(sign * b < sign * a for a, b in zip(firsts, others, strict=True))


def _told(one: Ranked) -> str:
    stage = "" if one.stage == "raw" else f", `{one.stage}`"
    return f"{one.candidate}{stage} (mean rank {one.rank:.1f}, mean {one.value:.3f})"
