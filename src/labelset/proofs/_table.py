"""The verdicts as a table for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from labelset.proofs.verification import Verification

__all__ = ["table"]


def table(result: Verification, names: Sequence[str] | None, most: int) -> str:
    """Counts, the smallest radii, the label sets that fail and the labels they fail through."""
    counts, rows = result.counts(), len(result)
    n, d = result.problem.weight.shape
    lines = [
        f"{n:,} labels, {d:,} features; {rows:,} label sets, {len(result.verdicts):,} distinct",
        "",
    ]
    for status, count in counts.items():
        lines.append(f"  {status:13} {count:>9,}  {count / max(rows, 1):7.2%}")
    values = result.sets.values
    if values is not None and bool(values.isnan().any()):
        lines.append("  (unknown labels were left free: verdicts are about the known ones)")
    if result.problem.lines:
        shown = ", ".join(
            "{" + ", ".join(_name(r, names) for r, _ in g) + "}"
            for g in result.problem.lines[:most]
        )
        lines.append(f"  rows on one line, so never independent of each other: {shown}")
    if result.problem.empty.any():
        dead = np.flatnonzero(result.problem.empty)[: 2 * most].tolist()
        lines.append(
            f"  rows of zeros, neither on nor off: {', '.join(_name(i, names) for i in dead)}"
        )
    if result.fragile.any():
        lines.append(
            f"  of these {int(result.fragile.sum()):,} fragile: by less than the rounding of the "
            f"stored weights ({result.problem.rounding:.1e})"
        )
    return "\n".join([*lines, *_smallest(result, names, most), *_failing(result, names, most)])


def _smallest(result: Verification, names: Sequence[str] | None, most: int) -> list[str]:
    each = result.set_radius
    order = [int(i) for i in np.argsort(each) if np.isfinite(each[i])][:most]
    if not order:
        return []
    kind = "rho" if result.boxes is None else f"radius in the box, over {result.box:g}"
    lines = ["", f"Said least robustly ({kind}):"]
    for i in order:
        value = each[i] if result.boxes is None else each[i] / result.box
        lines.append(f"  {value:.3e}  {_labels(result, i, names)}")
    return lines


def _failing(result: Verification, names: Sequence[str] | None, most: int) -> list[str]:
    lines, blame = list[str](), Counter[int]()
    for status, word in (("unargmaxable", "Never said"), ("undecided", "Undecided")):
        hit = [i for i, v in enumerate(result.verdicts) if v.status == status]
        if hit:
            lines += ["", f"{word}, whatever the input:" if status != "undecided" else f"{word}:"]
        for i in hit[:most]:
            rows = int((result.which == i).sum())
            lines.append(f"  {rows:>5,} x  {_labels(result, i, names)}")
        if len(hit) > most:
            lines.append(f"  ... and {len(hit) - most:,} more")
        for i in hit:
            certificate = result.verdicts[i].rows
            blame.update(
                [] if certificate is None else certificate[certificate < result.problem.n].tolist()
            )
    if blame:
        worst = ", ".join(
            f"{_name(i, names)} ({count})" for i, count in blame.most_common(2 * most)
        )
        lines += ["", f"Labels that most certificates rest on: {worst}"]
    return lines


def _labels(result: Verification, i: int, names: Sequence[str] | None) -> str:
    labels = result.sets[i]
    known = labels.indices if labels.values is None else labels.indices[~labels.values.isnan()]
    shown = [_name(label, names) for label in known.tolist()]
    more = f", ... ({len(shown)} labels)" if len(shown) > 8 else ""
    return "{" + ", ".join(shown[:8]) + more + "}"


def _name(label: int, names: Sequence[str] | None) -> str:
    if names is None or label >= len(names):
        return str(label)
    return "".join(c if c.isprintable() else "?" for c in str(names[label]))
