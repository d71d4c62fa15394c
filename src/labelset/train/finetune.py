"""Fine-tuning: a network and its head, trained whole, fold by fold and once more on all rows.

Each training is one of the loop's (`network.train`), to its last epoch, so that the rows of a fold
have no say in the weights that score them. What is kept is trained on all rows, as long as the
members were: a mean of several networks would take as much longer for each row.
"""

from __future__ import annotations

import logging
import math
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from labelset.data import Dataset
from labelset.encode import Encoder
from labelset.files import write_bytes
from labelset.train._checkpoint import BadCheckpoint
from labelset.train._state import Diverged
from labelset.train.fitted import Failed, Fitted
from labelset.train.network import Progress, Trained, train
from labelset.train.settings import Settings

log = logging.getLogger("labelset")

LOWER = (1.0, 0.3, 0.1)
"""Shares of the learning rate that are tried in turn, where training comes to nothing."""
STEPS = 3
"""By which a training's time is foretold."""

News = Callable[[dict[str, Any]], object]
"""Told how far the trainings of a candidate are: `share`, `left` and what the loop says."""


def default_epochs(rows: int) -> int:
    """Few rows are seen more often: 60 / sqrt(rows / 100) epochs, 3 to 20 of them.

    >>> [default_epochs(rows) for rows in (500, 1_300, 8_000, 100_000)]
    [20, 17, 7, 3]
    """
    return max(3, min(20, round(60 / math.sqrt(max(rows / 100, 1)))))


def default_settings(given: dict[str, Any], rows: int) -> Settings:
    """The settings that were given, and else those that serve: on the GPU where there is one, there
    with products in bfloat16."""
    cuda = torch.cuda.is_available()
    usual = {"epochs": default_epochs(rows), "device": "cuda" if cuda else "cpu"}
    if str(given.get("device", usual["device"])).startswith("cuda"):
        usual["precision"] = "bfloat16"
    return Settings.from_json(usual | given | {"monitor": None})


@dataclass(frozen=True)
class _Part:
    """One training: rows to learn from, and rows to score."""

    name: str
    learn: Tensor
    score: Tensor


def _parts(rows: Tensor, folds: Tensor) -> Iterator[_Part]:
    for fold in range(int(folds.max()) + 1):
        yield _Part(f"fold-{fold}", rows[folds != fold], rows[folds == fold])
    yield _Part("all", rows, rows[:0])


def finetune(
    dataset: Dataset,
    rows: Tensor,
    folds: Tensor,
    encoder: Encoder,
    settings: Settings,
    *,
    folder: Path | None = None,
    seconds: float | None = None,
    progress: News | None = None,
) -> Fitted | Failed:
    """Train an encoder that learns, and a head, on some rows of a data set.

    `rows`: numbers of the rows to fit on, `folds` their folds, as `Fitted` has them. `encoder` is
    fitted already, and stays as it is. In a `folder` each training keeps checkpoints, and what it
    came to, so that a stopped one goes on. Where the trainings would take longer than `seconds`
    nothing is trained. A training that diverges is tried again at a lower rate.
    """
    began, parts = time.perf_counter(), list(_parts(rows, folds))
    reason = None if seconds is None else _too_long(dataset, parts, encoder, settings, seconds)
    if reason is not None:
        return Failed(reason)
    diverged = ""
    for share in LOWER:
        own = settings if share == 1.0 else _slower(dataset, encoder, settings, share)
        place = None if folder is None else folder / f"rate-{share:g}"
        try:
            scores, final = _all(dataset, parts, len(rows), encoder, own, place, progress)
        except Diverged as error:
            diverged = str(error)
            continue
        out = torch.zeros(len(rows), dataset.n)
        for fold, each in enumerate(scores):
            out[folds == fold] = each
        about = {"way": "finetune", "epochs": own.epochs, "lr": final.settings.lr}
        about |= {"batch": final.settings.batch, "precision": own.precision}
        about["history"] = [{k: e[k] for k in ("epoch", "loss")} for e in final.history]
        took = time.perf_counter() - began
        loss = final.settings.build_loss()
        return Fitted(out, final.head, loss, took, about, final.encoder)
    return Failed(diverged)


def _slower(dataset: Dataset, encoder: Encoder, settings: Settings, share: float) -> Settings:
    usual = settings.lr if settings.lr is not None else encoder.advice.get("lr", 0.01)
    return replace(settings, lr=share * usual)


def _all(
    dataset: Dataset,
    parts: list[_Part],
    count: int,
    encoder: Encoder,
    settings: Settings,
    folder: Path | None,
    progress: News | None,
) -> tuple[list[Tensor], Trained]:
    """Scores of each fold, and the training on all rows."""
    work = [len(part.learn) for part in parts]
    scores: list[Tensor] = []
    for number, part in enumerate(parts):
        place = None if folder is None else folder / part.name
        kept = _kept(place)
        if kept is not None:
            scores.append(kept)
            continue

        def tell(news: Progress, number: int = number) -> None:
            assert progress is not None
            done = sum(work[:number]) + news.done * work[number]
            pace = news.seconds / max(news.done * work[number], 1e-9)
            about: dict[str, Any] = {"share": done / sum(work), "left": pace * (sum(work) - done)}
            about |= {"training": number + 1, "trainings": len(parts), "epoch": news.epoch}
            progress(about | {"epochs": news.epochs, "loss": news.loss})

        trained = _trained(dataset, part, encoder, settings, place, progress and tell)
        if part is parts[-1]:
            return scores, trained
        scores.append(trained.scores["valid"])
        _keep(place, trained.scores["valid"])
    raise AssertionError("the last part is never kept")


def _trained(
    dataset: Dataset,
    part: _Part,
    encoder: Encoder,
    settings: Settings,
    folder: Path | None,
    progress: Callable[[Progress], object] | None,
) -> Trained:
    """The rows of one part trained on, and those to be scored scored."""
    split = torch.cat([torch.zeros(len(part.learn)), torch.ones(len(part.score))]).to(torch.int8)
    data = replace(dataset.rows(torch.cat([part.learn, part.score])), split=split)

    def go_on() -> Trained:
        return train(
            data,
            settings,
            folder,
            resume=True,
            progress=progress,
            encoder=encoder,
            parts=("valid",) if len(part.score) else (),
            parallel="alone",
        )

    try:
        trained = go_on()
    except BadCheckpoint as error:
        assert folder is not None
        log.warning("%s; it is trained from the start", error)
        shutil.rmtree(folder)
        trained = go_on()
    if trained.stopped == "interrupted":  # the loop would be content with what it has
        raise KeyboardInterrupt
    return trained


SCORES = "scores.safetensors"


def _kept(folder: Path | None) -> Tensor | None:
    """The scores of a training that is done."""
    if folder is None or not (folder / SCORES).is_file():
        return None
    try:
        return load_file(folder / SCORES)["scores"]
    except (SafetensorError, KeyError, OSError):
        return None


def _keep(folder: Path | None, scores: Tensor) -> None:
    """In place of its checkpoints."""
    if folder is not None:
        write_bytes(folder / SCORES, save({"scores": scores}))
        for old in folder.glob("checkpoint*"):
            old.unlink()


def _too_long(
    dataset: Dataset, parts: list[_Part], encoder: Encoder, settings: Settings, seconds: float
) -> str | None:
    """Why there is no time for it, by a few steps on some rows."""
    began = time.perf_counter()
    size = settings.batch or int(encoder.advice.get("batch", 32))
    order = torch.randperm(len(parts[-1].learn), generator=torch.Generator().manual_seed(0))
    some = parts[-1].learn[order[: STEPS * size]]
    own = replace(settings, epochs=1, batch=size)
    try:
        _trained(dataset, _Part("trial", some, some[:0]), encoder, own, None, None)  # warm up
        spent = time.perf_counter()
        _trained(dataset, _Part("trial", some, some[:0]), encoder, own, None, None)
    except Diverged:
        return None  # the training itself will say so
    each = (time.perf_counter() - spent) / len(some)
    whole = each * settings.epochs * sum(len(part.learn) for part in parts)
    left = seconds - (time.perf_counter() - began)
    if whole <= left:
        return None
    return (
        f"would take about {_minutes(whole)} of the {_minutes(max(left, 0))} that are left; allow "
        f"more (--time-budget), or fewer --epochs than {settings.epochs}"
    )


def _minutes(seconds: float) -> str:
    """
    >>> _minutes(75), _minutes(7300)
    ('1:15', '2:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
