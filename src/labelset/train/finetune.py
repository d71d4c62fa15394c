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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from labelset.data import Dataset
from labelset.encode import Encoder
from labelset.files import write_bytes
from labelset.labels import Labels
from labelset.losses import Loss
from labelset.train._checkpoint import BadCheckpoint
from labelset.train.fitted import Diverged, Failed, Fitted
from labelset.train.network import Progress, Trained, train
from labelset.train.settings import Settings

log = logging.getLogger("labelset")

LOWER = (0.3, 0.1)
"""Shares of the learning rate that are tried in turn, where training comes to nothing."""
STEPS = 3
"""By which a training's time is foretold."""

News = Callable[[dict[str, Any]], object]
"""Told how far the trainings of a candidate are: `share`, `left` and what the loop says."""


def default_epochs(rows: int, passes: int = 60) -> int:
    """Few rows are seen more often: passes / sqrt(rows / 100) epochs, from 3 to passes / 3.

    >>> [default_epochs(rows) for rows in (500, 1_300, 8_000, 100_000)]
    [20, 17, 7, 3]
    """
    return max(3, min(passes // 3, round(passes / math.sqrt(max(rows / 100, 1)))))


def default_settings(given: dict[str, Any], encoder: Encoder, rows: int) -> Settings:
    """The settings that were given, and else those that serve: on the GPU where there is one, there
    with products in bfloat16."""
    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    usual: dict[str, Any] = {
        "epochs": default_epochs(rows, encoder.advice.get("passes", 60)),
        "device": device,
    }
    if str(given.get("device", usual["device"])).startswith("cuda"):
        usual["precision"] = "bfloat16"
    usual |= {"lr": encoder.advice.get("lr"), "batch": encoder.advice.get("batch")}
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
    tries: Sequence[Settings],
    value: Callable[[Loss | None, Tensor, Labels], float] | None = None,
    *,
    folder: Path | None = None,
    seconds: float | None = None,
    save_seconds: float | None = None,
    progress: News | None = None,
) -> Fitted | Failed:
    """Train an encoder that learns, and a head, on some rows of a data set.

    `rows`: numbers of the rows to fit on, `folds` their folds, as `Fitted` has them. `encoder` is
    fitted already, and stays as it is. Of several settings in `tries` that is taken which is best
    on the first fold, by `value` of loss, scores and labels; with too little time the first. In a
    `folder` each training keeps checkpoints, every `save_seconds` as `train` does, and what it came
    to, so that a stopped one goes on.
    Where the trainings would take longer than `seconds` nothing is trained. A training that
    diverges is tried again at a lower rate.
    """
    began, parts = time.perf_counter(), list(_parts(rows, folds))
    if seconds is not None:
        each = _pace(dataset, parts, encoder, tries[0])
        left = seconds - (time.perf_counter() - began)
        if each * _work(parts, tries[:1]) > left:
            return Failed(_too_long(each * _work(parts, tries[:1]), left, tries[0]))
        if each * _work(parts, tries) > left:
            tries = tries[:1]
    work = _work(parts, tries)
    run = _Trainings(dataset, parts, encoder, folder, save_seconds, progress, work)
    ranked, diverged = list(tries), ""
    if len(tries) > 1 and value is not None:
        found: list[tuple[float, Settings]] = []
        for own in tries:
            try:
                scores = run.scores(0, own)
            except Diverged as error:
                diverged = str(error)
                continue
            labels = dataset.labels[parts[0].score]
            found.append((value(own.build_loss(), scores, labels), own))
        ranked = [own for _, own in sorted(found, key=lambda each: -each[0])]
    ranked += [replace(tries[0], lr=share * (tries[0].lr or 0.01)) for share in LOWER]
    for own in ranked:
        try:
            out = torch.zeros(len(rows), dataset.n)
            for fold in range(len(parts) - 1):
                out[folds == fold] = run.scores(fold, own)
            final = run.trained(len(parts) - 1, own)
        except Diverged as error:
            diverged = str(error)
            continue
        about = {"way": "finetune", "epochs": own.epochs, "lr": final.settings.lr}
        about |= {"batch": final.settings.batch, "precision": own.precision}
        about["history"] = [{k: e[k] for k in ("epoch", "loss")} for e in final.history]
        took = time.perf_counter() - began
        return Fitted(out, final.head, own.build_loss(), took, about, final.encoder)
    return Failed(diverged)


def _work(parts: Sequence[_Part], tries: Sequence[Settings]) -> float:
    """Rows that go through the network."""
    whole = sum(len(part.learn) for part in parts) * tries[0].epochs
    return whole + len(parts[0].learn) * sum(own.epochs for own in tries[1:])


@dataclass
class _Trainings:
    """The trainings of one candidate; those that are done are not done again."""

    dataset: Dataset
    parts: list[_Part]
    encoder: Encoder
    folder: Path | None
    save_seconds: float | None
    progress: News | None
    work: float
    done: float = 0.0
    known: dict[tuple[int, str], Tensor] = field(default_factory=dict)

    def scores(self, number: int, settings: Settings) -> Tensor:
        """Of the rows that a part leaves out."""
        key = (number, _called(settings))
        if key not in self.known:
            place = self._place(number, settings)
            kept = _kept(place)
            if kept is None:
                kept = self.trained(number, settings).scores["valid"]
                _keep(place, kept)
            else:
                self.done += len(self.parts[number].learn) * settings.epochs
            self.known[key] = kept
        return self.known[key]

    def trained(self, number: int, settings: Settings) -> Trained:
        """On the rows of a part."""
        part = self.parts[number]
        work = len(part.learn) * settings.epochs

        def tell(news: Progress) -> None:
            assert self.progress is not None
            done = self.done + news.done * work
            pace = news.seconds / max(news.done * work, 1e-9)
            share = min(done / self.work, 0.999)
            about = {"share": share, "left": pace * max(self.work - done, 0.0)}
            about |= {"training": number + 1, "trainings": len(self.parts), "epoch": news.epoch}
            self.progress(about | {"epochs": news.epochs, "loss": news.loss})

        place = self._place(number, settings)
        listen = None if self.progress is None else tell
        every = self.save_seconds
        trained = _trained(self.dataset, part, self.encoder, settings, place, listen, every)
        self.done += work
        return trained

    def _place(self, number: int, settings: Settings) -> Path | None:
        if self.folder is None:
            return None
        return self.folder / _called(settings) / self.parts[number].name


def _called(settings: Settings) -> str:
    """What differs between the settings that are tried."""
    return f"lr-{settings.lr or 0:g}-epochs-{settings.epochs}"


def _trained(
    dataset: Dataset,
    part: _Part,
    encoder: Encoder,
    settings: Settings,
    folder: Path | None,
    progress: Callable[[Progress], object] | None,
    save_seconds: float | None = None,
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
            save_seconds=save_seconds,
            parts=("valid",) if len(part.score) else (),
            parallel="alone",
        )

    try:
        trained = go_on()
    except torch.OutOfMemoryError:  # batches of one row have been tried
        raise Diverged(
            f"{settings.device} has no memory for one row of it: take a smaller network, or fewer "
            "tokens (length=) or pixels (side=)"
        ) from None
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


def _pace(dataset: Dataset, parts: Sequence[_Part], encoder: Encoder, settings: Settings) -> float:
    """Seconds for a row in an epoch, by a few steps on some rows."""
    size = settings.batch or 32
    order = torch.randperm(len(parts[-1].learn), generator=torch.Generator().manual_seed(0))
    some = parts[-1].learn[order[: STEPS * size]]
    own = replace(settings, epochs=1)
    spent = 0.0
    for _ in range(2):  # the first time it warms up
        began = time.perf_counter()
        try:
            _trained(dataset, _Part("trial", some, some[:0]), encoder, own, None, None)
        except Diverged:
            return 0.0  # the training itself will say so
        spent = time.perf_counter() - began
    return spent / len(some)


def _too_long(whole: float, left: float, settings: Settings) -> str:
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
