"""Runs the notebooks of this folder, and writes what their cells show into them.

    python examples/notebooks.py [NAME.ipynb ...]

It needs no Jupyter: cells are run one after the other in a temporary folder that holds
tickets.csv. What a cell ends with is kept as a notebook would show it.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import io
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
NAMES = (
    "own_csv_to_decisions",
    "texts_ngrams_or_finetuning",
    "which_label_sets_can_my_head_produce",
)


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs of its cells, run in the current folder."""
    os.environ.setdefault("MPLBACKEND", "agg")
    space: dict[str, Any] = {}
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            value = _last_value("".join(cell["source"]), space)
        cell["execution_count"], cell["outputs"] = number, []
        if printed.getvalue():
            text = printed.getvalue().splitlines(keepends=True)
            cell["outputs"].append({"output_type": "stream", "name": "stdout", "text": text})
        if value is not None:
            shown = {"output_type": "execute_result", "execution_count": number, "metadata": {}}
            cell["outputs"].append(shown | {"data": _data(value)})
    return notebook


def _last_value(source: str, space: dict[str, Any]) -> Any:
    """Runs a cell; what its last line is worth, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), space)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), space)


def _data(value: Any) -> dict[str, Any]:
    """What a notebook keeps of a value: its text, and a table or a picture if it has one."""
    kept: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_"):
        kept["text/html"] = value._repr_html_().splitlines(keepends=True)
    if hasattr(value, "get_figure"):
        picture = io.BytesIO()
        value.get_figure().savefig(picture, format="png", dpi=80)
        kept["image/png"] = base64.b64encode(picture.getvalue()).decode()
    return kept


def main() -> None:
    """Run those that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    named = parser.parse_args().files or [FOLDER / f"{name}.ipynb" for name in NAMES]
    for file in [path.resolve() for path in named]:
        notebook = json.loads(file.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            shutil.copy(FOLDER / "tickets.csv", folder)
            done = executed(notebook)
        text = json.dumps(done, indent=1, ensure_ascii=False)
        file.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
