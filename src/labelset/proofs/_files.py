"""Verdicts in a JSON file: what is proven, and the proof, for someone else to check."""

from __future__ import annotations

import hashlib
import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from labelset.labels import Labels
from labelset.proofs._problem import Problem
from labelset.proofs._prove import Verdict
from labelset.proofs.verification import ProofFailed, Verification

__all__ = ["as_json", "load", "save"]


def fingerprint(problem: Problem) -> str:
    """Of the weights and the bias, as float64."""
    digest = hashlib.sha256(str(problem.weight.shape).encode() + problem.weight.tobytes())
    if problem.bias is not None:
        digest.update(problem.bias.tobytes())
    return digest.hexdigest()


def as_json(result: Verification, proofs: bool = True) -> dict[str, Any]:
    """Plain lists and numbers; exact weights as text, because they are long."""
    sets = [_set(result, at, proofs) for at in range(len(result.verdicts))]
    return {
        "labels": result.problem.n,
        "features": result.problem.weight.shape[1],
        "weights_sha256": fingerprint(result.problem),
        "rounding": result.problem.rounding,
        "rows": len(result),
        "counts": result.counts(),
        "box": None if result.boxes is None else result.box,
        "set_of_row": result.which.tolist(),
        "sets": sets,
    }


def _set(result: Verification, at: int, proofs: bool) -> dict[str, Any]:
    verdict, labels = result.verdicts[at], result.sets[at]
    row = int(np.flatnonzero(result.which == at)[0])
    free = (
        np.zeros(len(labels.indices), bool)
        if labels.values is None
        else labels.values.isnan().numpy()
    )
    out: dict[str, Any] = {
        "status": verdict.status,
        "on": labels.indices.numpy()[~free].tolist(),
        "unknown": labels.indices.numpy()[free].tolist(),
        "rho": [verdict.lower, verdict.upper if np.isfinite(verdict.upper) else None],
    }
    if result.boxes is not None and np.isfinite(result.boxes[at]):
        out["box_radius"] = float(result.boxes[at])
    if proofs and verdict.witness is not None:
        out["witness"] = [part.tolist() for part in verdict.witness]
    if verdict.rows is not None:
        out["blame"] = verdict.rows[verdict.rows < result.problem.n].tolist()
    if proofs and verdict.rows is not None:
        rows, weights = result.certificate(row)
        out["certificate"] = {"labels": rows.tolist(), "weights": [str(w) for w in weights]}
    return out


def save(result: Verification, path: str | Path) -> None:
    """Write all verdicts with their proofs; the file appears whole or not at all."""
    text = json.dumps(as_json(result), indent=1)
    part = Path(f"{path}.part")
    with part.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def load(path: str | Path, problem: Problem) -> Verification:
    """Verdicts from a file, about these weights; call `check()` to prove them again."""
    data = json.loads(Path(path).read_text())
    if data["weights_sha256"] != fingerprint(problem):
        raise ProofFailed(f"{path} is about other weights")
    sets = data["sets"]
    labels = Labels.from_lists(
        [s["on"] for s in sets], n=data["labels"], unknown=[s["unknown"] for s in sets]
    )
    verdicts = [_verdict(s) for s in sets]
    boxes = None
    if data["box"] is not None:
        boxes = np.array([s.get("box_radius", np.nan) for s in sets])
    which = np.array(data["set_of_row"], dtype=np.int64)
    return Verification(problem, labels, which, verdicts, boxes, data["box"] or 1e4)


def _verdict(s: dict[str, Any]) -> Verdict:
    lower, upper = s["rho"]
    witness = tuple(np.array(part) for part in s["witness"]) if "witness" in s else None
    rows, weights = None, None
    if "certificate" in s:
        rows = np.array(s["certificate"]["labels"], dtype=np.int64)
        weights = tuple(Fraction(w) for w in s["certificate"]["weights"])
    return Verdict(s["status"], lower, np.inf if upper is None else upper, witness, rows, weights)  # type: ignore[arg-type]
