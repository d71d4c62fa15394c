"""The text of a page: what the docstring says, then what the code can tell by itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any

import torch

from labelset.catalog import hyperparameters
from labelset.losses import Loss, NoLink, Separable, build, catalog, names

__all__ = ["index", "page", "summary"]

NOTE = "<!-- Made from the code by `make docs`; edit the docstring instead. -->"
SCORES = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)


def summary(name: str) -> str:
    """The first line of a loss's docstring."""
    return inspect.getdoc(catalog.get(name)).splitlines()[0]  # type: ignore[union-attr]


def page(name: str) -> str:
    """The Markdown page of one loss."""
    cls = catalog.get(name)
    loss = build(name, **cls.examples[0])
    parts = [NOTE, f"# `{name}`", _prose(cls)]
    if isinstance(loss, Separable):
        parts.append(f"![what {name} does to one score]({stem(name)}.svg)")
    parts += ["## Hyperparameters", _table(cls), "## What it claims", _claims(loss)]
    if isinstance(loss, Separable):
        parts += ["## In numbers", "For ten labels.", _numbers(loss)]
    parts += ["## Call", _call(name, cls.examples[0])]
    return "\n\n".join(parts) + "\n"


def stem(name: str) -> str:
    """The file name of a page."""
    return name.replace("+", "-")


def index() -> str:
    """The Markdown list of all losses."""
    rows = [f"| [`{n}`]({stem(n)}.md) | {summary(n)} | {_short_link(n)} |" for n in names()]
    head = ["| name | what it is | probabilities |", "|---|---|---|"]
    return "\n\n".join([NOTE, "# Losses", "\n".join(head + rows)]) + "\n"


def _prose(cls: type[Loss]) -> str:
    text = inspect.getdoc(cls) or ""
    text = text.split("\n>>>")[0].rstrip()
    return re.sub(r"^(Use it|Probabilities):", r"**\1**:", text, flags=re.M)


def _table(cls: type[Loss]) -> str:
    rows = ["| name | default | meaning |", "|---|---|---|"]
    for key, known in hyperparameters(cls).items():
        default = "" if known.default is MISSING else f"`{known.default!r}`"
        meaning = known.doc
        if key == "reduction":
            meaning = ", ".join(f"`{how}`" for how in cls.reductions)
        rows.append(f"| `{key}` | {default} | {meaning} |")
    return "\n".join(rows)


def _claims(loss: Loss) -> str:
    says = {
        True: "Strictly proper: the risk is smallest where the link is the posterior.",
        False: "Not strictly proper: at the smallest risk sigmoid(v) is not the posterior.",
        None: "No claim to be strictly proper.",
    }
    lines = [f"- {says[loss.proper]}"]
    try:
        loss.link(torch.zeros(1, 1))
    except NoLink as error:
        lines.append(f"- `loss.link` raises `NoLink`: {str(error).split('has no link: ')[1]}.")
    else:
        lines.append("- `loss.link(logits)` gives probabilities.")
    for other, settings in loss.limits.items():
        where = ", where each row has one label on" if other in loss.limits_one_on else ""
        given = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        lines.append(f"- With `{given or 'its defaults'}` it is `{other}`{where}.")
    if loss.saturates:
        lines.append("- It saturates: a positive whose score is far too low has no gradient.")
    return "\n".join(lines)


def _numbers(loss: Separable) -> str:
    """The two partial losses and the link at a few scores, for ten labels where that matters."""
    v = torch.tensor(SCORES, dtype=torch.float64)[:, None].expand(-1, 10)
    me = loss.given(10)
    columns = {"a positive costs": me.pos(v), "a negative costs": me.neg(v)}
    if loss.link_missing() is None:
        columns["link"] = loss.link(v)
    columns["sigmoid"] = torch.sigmoid(v)
    rows = [f"| score | {' | '.join(columns)} |", "|" + "---:|" * (1 + len(columns))]
    for i, score in enumerate(SCORES):
        cells = " | ".join(f"{float(column[i, 0]):.4f}" for column in columns.values())
        rows.append(f"| {score:g} | {cells} |")
    return "\n".join(rows)


def _call(name: str, example: Mapping[str, Any]) -> str:
    given = "".join(f", {key}={value!r}" for key, value in example.items())
    lines = ["```python", f"loss = labelset.losses.build({name!r}{given})"]
    return "\n".join([*lines, "value = loss(logits, labels)", "```"])


def _short_link(name: str) -> str:
    loss = build(name, **catalog.get(name).examples[0])
    if loss.link_missing() is not None:
        return "none: calibrate"
    return "`loss.link`, true at the optimum" if loss.proper else "`loss.link`"
