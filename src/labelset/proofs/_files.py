"""Verdicts in a JSON file: what is proven, and the proof, for someone else to check."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from labelset.files import write_bytes
from labelset.labels import Labels
from labelset.proofs import _exact
from labelset.proofs._prove import Verdict
from labelset.proofs.problem import OutputLayer
from labelset.proofs.verification import ProofFailed, Verification


def fingerprint(problem: OutputLayer) -> str:
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
    free = (
        np.zeros(len(labels.indices), bool)
        if labels.values is None
        else labels.values.isnan().numpy()
    )
    out: dict[str, Any] = {
        "status": verdict.status,
        "on": labels.indices.numpy()[~free].tolist(),
        "unknown": labels.indices.numpy()[free].tolist(),
        "rho": [b if np.isfinite(b) else None for b in (verdict.lower, verdict.upper)],
    }
    if result.boxes is not None and np.isfinite(result.boxes[at]):
        out["box_radius"] = float(result.boxes[at])
    if proofs:
        out |= {name: _vector(getattr(verdict, name)) for name in ("witness", "centre")}
        out["hull"] = None if verdict.hull is None else [part.tolist() for part in verdict.hull]
    if verdict.rows is not None:
        out["blame"] = verdict.rows.tolist()
    if proofs and verdict.rows is not None:
        rows, weights = result.set_certificate(at)
        out["certificate"] = {"labels": rows.tolist(), "weights": [str(w) for w in weights]}
    return out


def save(result: Verification, path: str | Path) -> None:
    """Write all verdicts with their proofs; the file appears whole or not at all."""
    write_bytes(Path(path), json.dumps(as_json(result), indent=1).encode())


def _vector(x: Any) -> Any:
    """Numbers as they are, fractions as text."""
    if x is None:
        return None
    return [str(v) for v in x] if x.dtype == object else x.tolist()


def load(path: str | Path, problem: OutputLayer) -> Verification:
    """Verdicts from a file, about these weights; call `check()` to prove them again."""
    data = json.loads(Path(path).read_text())
    try:
        if data["weights_sha256"] != fingerprint(problem):
            raise ProofFailed(f"{path} is about other weights")
        sets, which = data["sets"], np.array(data["set_of_row"], dtype=np.int64)
        on, unknown = [s["on"] for s in sets], [s["unknown"] for s in sets]
        labels = Labels.from_lists(on, n=problem.n, unknown=unknown)
        verdicts = [_verdict(s) for s in sets]
        boxes = None
        if data["box"] is not None:
            boxes = np.array([s.get("box_radius", np.nan) for s in sets], dtype=np.float64)
        if which.size and not (which.min() >= 0 and which.max() < len(sets)):
            raise ValueError("set_of_row names sets that are not there")
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ProofFailed(f"{path} does not hold verdicts: {error!r}") from None
    return Verification(problem, labels, which, verdicts, boxes, data["box"] or 1e4)


def _verdict(s: dict[str, Any]) -> Verdict:
    lower, upper = s["rho"]
    rows, weights = None, None
    if "certificate" in s:
        rows = np.array(s["certificate"]["labels"], dtype=np.int64)
        weights = tuple(Fraction(w) for w in s["certificate"]["weights"])
    hull = s["hull"]
    return Verdict(
        s["status"],
        float("inf") if lower is None else float(lower),
        float("inf") if upper is None else float(upper),
        _read_vector(s["witness"]),
        _read_vector(s["centre"]),
        None if hull is None else (np.array(hull[0], np.int64), *map(np.array, hull[1:])),  # type: ignore[arg-type]
        rows,
        weights,
    )


def _read_vector(values: Any) -> Any:
    if values is None:
        return None
    if values and isinstance(values[0], str):
        return _exact.array([Fraction(v) for v in values])
    return np.array(values, dtype=np.float64)
