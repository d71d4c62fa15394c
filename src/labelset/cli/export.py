"""`labelset export`: a run as one file for other programs."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labelset import export, model
from labelset.cli.options import writable
from labelset.files import write_bytes
from labelset.terminal import phase, progress

BESIDE = ""
"""What an option without FILE has."""
ENDS = {"onnx": ".onnx", "torch_export": ".pt2", "safetensors": ".safetensors"}

ABOUT = """Write all that a RUN does after its encoder into one file: its model (a head, small
networks, a forest, a kernel machine, or a blend of them), link or map, and rule.
Features go in; logits, probabilities and decisions come out, for any number of rows. Of the encoder
only the scaling of numeric features is inside; after TF-IDF or a network the file takes what that
gives. Of a network that was trained with its head an ONNX file begins at tokens, with a
tokenizer.json beside it, or at pixels. Without FILE the file lies beside the RUN and has its name:
RUN.onnx, RUN.pt2, RUN.safetensors. Every file is run on random rows and edge cases first and
compared with the RUN; where it differs, nothing is written."""


def add(verb: Any) -> None:
    """Its options."""
    verb.add_argument(
        "model", metavar="RUN", help="the folder of a run (of a comparison, its best)"
    )
    file: dict[str, Any] = {"metavar": "FILE", "nargs": "?", "const": BESIDE}
    verb.add_argument("--onnx", **file, help="an ONNX file (pip install 'labelset[onnx]')")
    verb.add_argument("--torch-export", **file, help="a torch.export program, .pt2")
    verb.add_argument(
        "--safetensors",
        **file,
        help="the model's tensors; calibrator and decision rule in the metadata",
    )
    verb.add_argument("--no-decisions", action="store_true", help="logits and probabilities only")
    verb.add_argument("--seed", type=int, default=0, help="of the rows that it is tried on (0)")
    verb.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    """Make and try all files, then write them."""
    decisions, seed = not args.no_decisions, args.seed
    makers: dict[str, Callable[[model.SavedModel], bytes]] = {
        "onnx": lambda saved: export.onnx_file(saved, decisions, seed),
        "torch_export": lambda saved: export.torch_file(saved, decisions, seed),
        "safetensors": export.safetensors_file,
    }
    asked = {kind: _named(args, kind) for kind in ENDS if getattr(args, kind) is not None}
    if not asked:
        raise ValueError("say what to write: --onnx FILE, --torch-export FILE, --safetensors FILE")
    if len(set(map(os.path.abspath, asked.values()))) < len(asked):
        raise ValueError("every kind of file needs a name of its own")
    with progress(not args.json):
        phase(f"reading {args.model}")
        saved = model.SavedModel.open(args.model)
        for path in asked.values():
            writable(path)
        phase("exporting")
        inside = export.Pipeline(saved, decisions)
        made = {path: makers[kind](saved) for kind, path in asked.items()}
        whole = "onnx" in asked and export.begins(saved)
        if whole and (tokeniser := export.tokeniser_of(saved)) is not None:
            made[str(export.beside(asked["onnx"]))] = tokeniser
        for path, content in made.items():
            write_bytes(Path(path), content)
        taken = export.taken(saved) if whole else f"{inside.width:,} {inside.taken}"
    if not whole and saved.head is not None and saved.head.places:  # there are tensors alone
        taken = f"{saved.head.settings['features']:,} numbers of each token or patch"
    if args.json:
        sizes = {path: len(content) for path, content in made.items()}
        facts = {"written": sizes, "outputs": list(inside.outputs), "labels": len(saved.names)}
        print(json.dumps({**facts, "input": {"width": inside.width, "what": taken}}))
        return
    for path, content in made.items():
        print(f"{path}: {len(content):,} bytes")
    print(f"input: {taken}")
    print(f"output: {', '.join(inside.outputs)} of {len(saved.names):,} labels")


def _named(args: argparse.Namespace, kind: str) -> str:
    """The file to write."""
    given: str = getattr(args, kind)
    if given != BESIDE:
        return given
    folder = Path(args.model)
    return f"{folder.resolve() if folder.name in ('', '..') else folder}{ENDS[kind]}"
