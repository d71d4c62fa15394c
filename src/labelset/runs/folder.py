"""RUN on disk: what is compared, which models are done, the rows that are shown, and why."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset.data import Dataset, StoredRows
from labelset.data.formats.npz import BlockedArray, write_npz
from labelset.data.store import blocks
from labelset.files import file_sum, versions, write_bytes, write_with
from labelset.labels import Labels
from labelset.model import SavedModel, Split
from labelset.runs.judging import FIGURES, JUDGEMENT, Judge, rounded, stored_probabilities
from labelset.runs.plan import Plan

FILE = "done.json"
log = logging.getLogger("labelset")


def mark(folder: Path, failed: str | None = None) -> None:
    """Say that a model is done, with what it left, or why it failed."""
    sums = {} if failed else {path.name: file_sum(path) for path in _files(folder)}
    write_bytes(folder / FILE, with_sum({"failed": failed, "files": sums}))


def judge_and_save(run: SavedModel, train: Labels | None, folder: Path, optimise: str) -> None:
    """Write a model with what it is worth, and say that it is done.

    With the labels of its training rows, which the doctor looks at, it is readied for use, too.
    """
    judge = Judge(run)
    judge.figures().save(folder / FIGURES)
    if train is not None:
        judge.finish(optimise)
        run.splits["train"] = Split(train)
        judge.judgement().save(folder / JUDGEMENT)
        del run.splits["train"]
    run.save(folder)
    mark(folder)


def is_marked(folder: Path) -> bool:
    """Whether it says so, at a glance."""
    return (folder / FILE).is_file()


def failure(folder: Path) -> str | None:
    """Why the model of a folder failed; None: it did not."""
    found: str | None = without_sum(folder / FILE)["failed"]
    return found


def is_whole(folder: Path) -> bool:
    """Whether a model is done and every byte is still there; what is not is named."""
    if not is_marked(folder):
        return False
    try:
        sums = without_sum(folder / FILE)["files"]
    except ValueError as error:
        log.warning("%s; the model is trained again", error)
        return False
    for name, wanted in sums.items():
        if not (folder / name).is_file() or file_sum(folder / name) != wanted:
            log.warning("%s: is damaged or missing; the model is trained again", folder / name)
            return False
    return True


def with_sum(held: dict[str, Any]) -> bytes:
    """JSON with a checksum of itself, for `without_sum`."""
    text = json.dumps(held, indent=1)
    return json.dumps({"sha256": _digest(text)} | held, indent=1).encode()


def without_sum(path: Path) -> dict[str, Any]:
    """What `with_sum` was given; an error says that it is damaged."""
    try:
        held: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if held.pop("sha256") == _digest(json.dumps(held, indent=1)):
            return held
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    raise ValueError(f"{path}: is damaged")


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.is_file() and p.name != FILE)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


PLAN, SHOWN = "plan.json", "test_rows.npz"
LONGEST = 400  # characters of a text that are kept to be shown
log = logging.getLogger("labelset")


def begin(folder: Path, plan: Plan, dataset: Dataset, resume: bool) -> None:
    """Make the folder, or see that what is there is the same comparison."""
    about = {"plan": plan.as_json(), "data": dataset.fingerprint()}
    path, shown = folder / PLAN, folder / SHOWN
    if path.is_file():
        if not resume:
            raise ValueError(f"{folder}: there is a run already; go on with --resume, or --force")
        held = _same(path, about)
        if held["shown"] != _sum(shown):
            log.warning("%s: is damaged or missing; it is written again", shown)
            _keep_test_rows(shown, dataset.part("test"))
        return
    if (folder / "work").exists():  # models, perhaps of other data, that would pass as done
        raise ValueError(
            f"{path}: is missing, so that what {folder} holds is not known: delete the folder, or "
            "choose another"
        )
    folder.mkdir(parents=True, exist_ok=True)
    _keep_test_rows(shown, dataset.part("test"))
    about |= {"source": str(dataset.card.get("source", "data")), "versions": versions()}
    write_bytes(path, with_sum(about | {"shown": _sum(shown)}))


def _same(path: Path, about: dict[str, Any]) -> dict[str, Any]:
    """What is written there, which must be of the same comparison."""
    try:
        held = without_sum(path)
    except ValueError as error:
        raise ValueError(f"{error}: start again with --force, or in another folder") from None
    for what in ("plan", "data"):
        if held[what] != about[what]:
            raise ValueError(f"{path.parent}: holds a comparison with another {what}")
    return held


def _sum(path: Path) -> str | None:
    return file_sum(path) if path.is_file() else None


def _keep_test_rows(path: Path, test: Dataset) -> None:
    """What a reader of the report sees of a row: its text or its picture."""
    if test.texts is not None:
        kind = f"<U{LONGEST}"  # which cuts longer texts off
        each = (np.array(block, dtype=kind) for block in blocks(test.texts))
        held = {"texts": BlockedArray((len(test),), kind, each)}
    elif test.images is not None:
        held = {"images": BlockedArray(tuple(test.images.shape), np.uint8, _as_bytes(test.images))}
    else:
        return
    write_with(path, lambda file: write_npz(file, held, compress=True))


def _as_bytes(images: Tensor | StoredRows) -> Iterator[np.ndarray[Any, Any]]:
    """uint8 in 0..255, some pictures at a time."""
    low, high = torch.tensor(torch.inf), torch.tensor(-torch.inf)
    if images.dtype != torch.uint8:
        for block in blocks(images):
            low, high = torch.minimum(low, block.min()), torch.maximum(high, block.max())
    for block in blocks(images):
        if block.dtype != torch.uint8:
            block = ((block - low) / (high - low).clamp(min=1e-9) * 255).to(torch.uint8)
        yield block.numpy()


# ---- rows worth a look --------------------------------------------------------------------------

MOST = 60  # rows, and entries, of each kind
LISTED = 12  # labels of one row, of each kind
TINY = 1e-12  # a probability of 0 would make every other row look right
TERMS = 8  # of a reason, and of the weights of a label
SECONDS = 5.0  # after which no more rows are explained
WEIGHED = 1000  # labels, the most frequent ones


def worst_rows(p: Tensor, decided: Tensor, truth: Tensor, most: int = MOST) -> list[dict[str, Any]]:
    """The rows with the largest log loss, summed over known labels.

    p, decided, truth: (rows, labels) probabilities, decisions, and 0 off, 1 on, 2 unknown. Each row
    has `on`, its labels with their probabilities, and `extra`, those predicted though off, the most
    surprising first; `more` says how many of both are not listed.
    """
    loss = _log_loss(p, truth)
    order = loss.argsort(descending=True, stable=True)[:most].tolist()
    return [_row(row, float(loss[row]), p[row], decided[row], truth[row]) for row in order]


def _row(row: int, loss: float, p: Tensor, decided: Tensor, truth: Tensor) -> dict[str, Any]:
    on, extra = truth == 1, (truth == 0) & decided
    listed = {"on": _listed(on, 1 - p, p, decided), "extra": _listed(extra, p, p, decided)}
    more = int(on.sum() + extra.sum()) - sum(map(len, listed.values()))
    return {"row": row, "loss": rounded([loss])[0], "more": more, **listed}


def likely_missing(p: Tensor, truth: Tensor, most: int = MOST) -> list[list[Any]]:
    """[row, label, probability] of the most confident labels that are off, best first."""
    off = p.masked_fill(truth != 0, -1.0)
    best = off.flatten().topk(min(most, off.numel()))
    n = p.shape[1]
    return [
        [int(at) // n, int(at) % n, rounded([value])[0]]
        for value, at in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        if value >= 0.5
    ]


def _log_loss(p: Tensor, truth: Tensor) -> Tensor:
    """(rows,) float64: -log p where on, -log(1 - p) where off, added up."""
    total = torch.zeros(len(p), dtype=torch.float64)
    for first in range(0, len(p), 1024):
        block, y = p[first : first + 1024].double(), truth[first : first + 1024]
        right = torch.where(y == 1, block, 1 - block).clamp(TINY, 1.0)
        total[first : first + 1024] = -right.log().masked_fill(y == 2, 0.0).sum(1)
    return total


def _listed(which: Tensor, surprise: Tensor, p: Tensor, decided: Tensor) -> list[list[Any]]:
    """[label, probability, whether predicted], the most surprising first."""
    labels = which.nonzero().flatten()
    best = labels[surprise[labels].argsort(descending=True, stable=True)][:LISTED]
    return [[j, rounded([float(p[j])], 3)[0], int(decided[j])] for j in best.tolist()]


def reasons(run: SavedModel, test: Dataset) -> dict[str, Any]:
    """Why the labels of test rows worth a look are, or are not, predicted: `rows`, by their number;
    and the largest `weights` of labels, by theirs, where the model has any.

    Empty where the model, or its encoder, is kept in no file.
    """
    if not run.can_score or not len(test):
        return {"rows": {}, "weights": {}}
    from labelset.model import Explainer

    truth = run.scored("test").labels.to("cpu").dense().nan_to_num(2.0).to(torch.uint8)
    scores = run.scored("test").scores
    assert scores is not None
    p = stored_probabilities(run)
    decided = run.predictor.decide(p).to("cpu").dense(torch.bool)
    asked: dict[int, dict[int, None]] = {}
    for entry in worst_rows(p, decided, truth):
        of_row = asked.setdefault(entry["row"], {})
        of_row |= {label: None for label, *_ in entry["on"] + entry["extra"]}
    for row, label, _ in likely_missing(p, truth):
        asked.setdefault(row, {})[label] = None
    explainer, start = Explainer(run, TERMS), time.monotonic()
    rows: dict[str, list[dict[str, Any]]] = {}
    numbers = {name: at for at, name in enumerate(run.names)}
    for row, labels in asked.items():
        if time.monotonic() - start > SECONDS:
            break
        for reason in explainer(test.rows(torch.tensor([row])), [[*labels]], scores[[row]]):
            plain = reason.as_json() | {"label": numbers[reason.label]}
            plain["members"] = [[each.name, each.value] for each in reason.members]
            rows.setdefault(str(row), []).append(plain)
    return {"rows": rows, "weights": _weights(run, truth, numbers)}


def _weights(
    run: SavedModel, truth: Tensor, numbers: dict[str, int]
) -> dict[str, list[dict[str, Any]]]:
    often = (truth == 1).sum(0).argsort(descending=True, stable=True)[:WEIGHED].tolist()
    try:
        found = run.weights(often, TERMS)
    except ValueError:  # it has none
        return {}
    each: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        terms = [[name, rounded([value], 4)[0]] for name, value in one.terms]
        about = {"kind": one.kind, "member": one.member, "terms": terms}
        each.setdefault(str(numbers[one.label]), []).append(about)
    return each
