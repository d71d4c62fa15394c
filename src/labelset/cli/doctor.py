"""`labelset doctor`: why a run predicts nothing, and what to do about it."""

from __future__ import annotations

import argparse
import json
from typing import Any

from labelset import kernels, model
from labelset.extensions import is_built
from labelset.terminal import phase, progress, wrapped

ABOUT = """Look at the held-out rows of a RUN and separate the causes of missing predictions: labels
never seen in training, labels that the features do not carry, the wrong link, probabilities that
are not true, wrong thresholds, label sets that the head cannot say. Exit status
1 if any is found."""


def add(verb: Any) -> None:
    """Its options."""
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument("--on", default="valid", choices=("train", "valid", "test"))
    verb.add_argument("--seconds", type=float, default=20.0, help="time for proofs (20)")
    verb.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Diagnose and print."""
    from labelset.doctor import diagnose

    with progress(not args.json):
        phase(f"reading {args.model}")
        opened = model.SavedModel.open(args.model)
        phase("looking for causes")
        findings = diagnose(opened, args.on, args.seconds)
    used = _in_use()
    if args.json:
        print(json.dumps({**findings.as_json(), "computed_by": used}, indent=1))
    else:
        by = f"Computed by: {', '.join(f'{k} {v}' for k, v in used.items())}."
        print(f"{findings}\n\n{wrapped(by)}")
    return 1 if findings.findings else 0


def _in_use() -> dict[str, str]:
    """What computes losses, metrics, proofs, solved heads and n-grams on this machine."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    slow = {"metrics": "torch (slow)", "proofs": "numpy (slow)", "solve": "torch (slow)"}
    slow |= {"texts": "Python (slow)"}
    others = {what: "C" if is_built(what) else name for what, name in slow.items()}
    return {"losses": kernels.in_use(device), **others}
