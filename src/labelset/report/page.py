"""The page: one HTML file with its data, scripts and style, and nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from labelset.files import write_bytes
from labelset.report.content import ReportInput
from labelset.report.payload import payload

SCRIPTS = (
    *("elements", "unpack", "counts", "query", "diagram", "charts", "tables", "state", "view"),
    *("rows", "why", "copy", "candidates", "forest", "answer", "explore", "readings", "curves"),
    *("mistakes", "opened", "labels", "sets", "proofs", "together", "errors", "compare", "ask"),
    *("datacard", "cost", "rerun", "report"),
)
"""The files of `browser/`, in the order in which they build on each other."""


def write_report(given: ReportInput, path: str | Path, seconds: float = 10.0) -> None:
    """Write the report of a comparison to one HTML file, whole or not at all.

    It needs no network and nothing installed. `seconds` bounds the proofs about each head.

    >>> import tempfile
    >>> from labelset.model import Split, SavedModel
    >>> from labelset.report import CandidateInput
    >>> run = SavedModel(names=["fork", "knife"], splits={"test": Split([[1, 0]], [[2.0, -1.0]])})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "report.html"
    ...     write_report(ReportInput([CandidateInput("bce", "bce", "linear", run)]), path)
    ...     path.read_text()[:15]
    '<!doctype html>'
    """
    content = page(payload(given, seconds))
    write_bytes(Path(path), content.encode("utf-8", "replace"))


def page(data: dict[str, Any]) -> str:
    """The HTML of a payload."""
    script, style = _script(), _file("report.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    # JSON never needs <, > or & as such, so that nothing in the data can end its element
    held = json.dumps(data, allow_nan=False, separators=(",", ":"))
    held = held.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    title, answer = escape(data["title"]), escape(data["recommendation"] or data["title"])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#answer">Skip to the answer</a>
<div id="bar"></div>
<main id="main">
<header id="answer" tabindex="-1">
<p class="eyebrow" dir="auto">{title}</p>
<h1 dir="auto">{answer}</h1>
<noscript><p>The tables and charts below need JavaScript, which is off here.</p></noscript>
</header>
</main>
<script type="application/json" id="data">{held}</script>
<script>{script}</script>
</body>
</html>
"""


def _file(name: str) -> str:
    return (resources.files("labelset.report") / "browser" / name).read_text(encoding="utf-8")


def _script() -> str:
    parts = "\n".join(_file(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();\n'


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
