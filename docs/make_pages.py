"""Writes what is made from the code: a page per loss, their index and pictures, the gallery.

    python docs/make_pages.py [--missing]

The gallery's pictures are those that the lines of docs/gallery.md write. A page of a loss is what
`labelset list NAME` prints, and what the code can tell by itself.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelset.charts import Line, Panel, round_ticks, svg
from labelset.cli.list import page as listed
from labelset.losses import Loss, NoLink, Separable, build, catalog, names

DOCS = Path(__file__).parent
NOTE = "<!-- Made from the code by `make docs`; edit the docstring instead. -->"
SCORES = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
NUMBER = re.compile(r"-?\d+\.?\d*")


def summary(name: str) -> str:
    """The first line of a loss's docstring."""
    return inspect.getdoc(catalog.get(name)).splitlines()[0]  # type: ignore[union-attr]


def page(name: str) -> str:
    """The Markdown page of one loss."""
    cls = catalog.get(name)
    loss = build(name, **cls.examples[0])
    text = listed(catalog.entry(name))
    if isinstance(loss, Separable):
        picture = f"![what {name} does to one score]({stem(name)}.svg)"
        text = text.replace("\n## Hyperparameters\n", f"\n{picture}\n\n## Hyperparameters\n")
    parts = [NOTE, text, "## What it claims", _claims(loss)]
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
        where = ", where each row has one positive" if other in loss.limits_one_positive else ""
        given = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        lines.append(f"- With `{given or 'its defaults'}` it is `{other}`{where}.")
    if loss.saturates_positives:
        lines.append("- It saturates: a positive whose score is far too low has no gradient.")
    return "\n".join(lines)


def _numbers(loss: Separable) -> str:
    """The two partial losses and the link at a few scores, for ten labels where that matters."""
    v = torch.tensor(SCORES, dtype=torch.float64)[:, None].expand(-1, 10)
    me = loss.bind(10)
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


def curves(name: str) -> str:
    """What one separable loss does to a positive and a negative, and what its scores mean."""
    loss = build(name, **catalog.get(name).examples[0])
    assert isinstance(loss, Separable)
    me = loss.bind(10)
    panels = [_panel("what one entry costs", 6.0, {"positive": me.pos, "negative": me.neg})]
    if loss.link_missing() is None:
        panels.append(
            _panel("what a score means", 1.0, {"sigmoid": torch.sigmoid, "link": me.link})
        )
    return svg(panels, f"{name}: the loss of a positive and of a negative entry by score")


def overview() -> str:
    """The README's picture: how well-known losses treat positives, negatives and probabilities."""
    losses = {name: build(name) for name in ("bce", "focal", "asl", "spa", "hill")}
    pos = {n: loss.pos for n, loss in losses.items() if isinstance(loss, Separable)}
    neg = {n: loss.neg for n, loss in losses.items() if isinstance(loss, Separable)}
    link = {n: loss.link for n, loss in losses.items() if loss.link_missing() is None}
    panels = [
        _panel("cost of a positive", 6.0, pos),
        _panel("cost of a negative", 6.0, neg),
        _panel("probability that a score means", 1.0, link),
    ]
    return svg(panels, "How five losses treat positives, negatives and probabilities")


FAMILIAR = ("bce", "sigmoid")  # what others are compared with: a wide grey line


def _panel(title: str, top: float, functions: Mapping[str, Callable[[Tensor], Tensor]]) -> Panel:
    """Functions of the score, from -6 to 6."""
    v = torch.linspace(-6, 6, 121, dtype=torch.float64)
    lines = []
    others = [name for name in functions if name not in FAMILIAR]
    for name, function in functions.items():
        y = function(v[:, None])[:, 0]
        points = list(zip(v.tolist(), y.tolist(), strict=True))
        colour, width = (None, 5.0) if name in FAMILIAR else (others.index(name), 2.0)
        lines.append(Line(points, colour, name, width))
    ticks = [(x, f"{x:g}") for x in (-6, -3, 0, 3, 6)]
    y_ticks = round_ticks(0.0, top, inside=True)
    return Panel(title, "score", "", lines, (-6.0, 6.0), (0.0, top), ticks, y_ticks)


def files() -> dict[str, str]:
    """Path below the docs folder -> content, for all that is made from the code."""
    made = {"losses/README.md": index(), "losses.svg": overview()}
    for name in names():
        made[f"losses/{stem(name)}.md"] = page(name)
        if isinstance(build(name, **catalog.get(name).examples[0]), Separable):
            made[f"losses/{stem(name)}.svg"] = curves(name)
    return made | gallery()


def gallery() -> dict[str, str]:
    """The pictures that the gallery's lines write, by their names."""
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.S | re.M)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(compile("\n".join(blocks), "gallery.md", "exec"), {})
        return {f"gallery/{path.name}": path.read_text() for path in Path().glob("*.svg")}


def same_but_rounding(a: str, b: str) -> bool:
    """Equal texts, numbers allowed to differ in their last digit (processors round differently)."""
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return False
    pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
    return all(x == y or _last_digit(x, y) for x, y in pairs)


def _last_digit(x: str, y: str) -> bool:
    digits = len(x.partition(".")[2])
    return digits == len(y.partition(".")[2]) and abs(float(x) - float(y)) < 1.5 * 10**-digits


def main() -> None:
    """Write what differs; with --missing leave existing files, but renew the index for new ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--missing", action="store_true", help="write only pages that do not exist")
    args = parser.parse_args()
    made = files()
    new = [path for path in made if not (DOCS / path).exists()]
    for path, content in made.items():
        file = DOCS / path
        skip = args.missing and path not in new and not (new and path.endswith("README.md"))
        if skip or (file.exists() and same_but_rounding(file.read_text(), content)):
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        print(f"wrote {file}")


if __name__ == "__main__":
    main()
