"""Training the models of a plan, several at a time, each to be found again after a stop."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import queue
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from labelset import encode
from labelset.artefact import Part, Run
from labelset.compare._plan import Plan, Task, parse
from labelset.compare._summary import judge
from labelset.data import Dataset
from labelset.encode.conv import Conv
from labelset.train import Progress as Stage
from labelset.train import Settings, pseudo_label, train

__all__ = ["JUDGED", "Progress", "default_jobs", "do_all", "is_done"]

Progress = Callable[[Task, dict[str, Any]], None]
"""Called with what a model has just reached: an epoch's figures, or {"done": True}."""

JUDGED = "judged.npz"
SHARED: dict[str, Any] = {}  # what forked workers find in their memory: data, plan, folder, news


def is_done(out: Path, task: Task) -> bool:
    """A model's folder is complete once its model.json is there."""
    return (out / task.folder / "model.json").is_file()


def do_all(
    dataset: Dataset, plan: Plan, out: Path, jobs: int, progress: Progress | None = None
) -> None:
    """Train what is not done yet; several processes where the system can fork them."""
    left = [task for task in plan.tasks() if not is_done(out, task)]
    encoder = encode.as_encoder(plan.build_encoder(), dataset)
    if encoder.costly and left:
        encode.encoded(encoder, dataset, out / "cache")  # once, before the workers ask for it
    SHARED.update(dataset=dataset, plan=plan, out=out, news=None)
    try:
        if min(jobs, len(left)) > 1 and "fork" in multiprocessing.get_all_start_methods():
            _in_processes(left, min(jobs, len(left)), progress)
        else:
            with _quiet_threads(encoder):
                for task in left:
                    _do(task, progress)
    finally:
        SHARED.clear()


@contextmanager
def _quiet_threads(encoder: encode.Encoder) -> Iterator[None]:
    """Heads on given features are small: one thread is quicker than the traffic between several."""
    before = torch.get_num_threads()
    if not isinstance(encoder, Conv):
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _in_processes(left: list[Task], jobs: int, progress: Progress | None) -> None:
    importlib.import_module("torch._dynamo")  # optimisers load it: once here, not in each process
    context = multiprocessing.get_context("fork")
    SHARED["news"] = news = context.Queue()
    pool = ProcessPoolExecutor(
        jobs, mp_context=context, initializer=torch.set_num_threads, initargs=(1,)
    )
    running: set[Future[None]] = set()
    try:
        running = {pool.submit(_do_and_tell, task) for task in left}
        while running:
            done, running = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
            _pass_on(news, progress)
            for future in done:
                future.result()
        _pass_on(news, progress)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _pass_on(news: Any, progress: Progress | None) -> None:
    while True:
        try:
            task, facts = news.get_nowait()
        except queue.Empty:
            return
        if progress is not None:
            progress(task, facts)


def _do_and_tell(task: Task) -> None:
    _do(task, lambda task, facts: SHARED["news"].put((task, facts)))


def _do(task: Task, progress: Progress | None) -> None:
    """Train one model and keep its scores; a checkpoint per epoch lets it go on after a stop."""
    dataset, plan, out = SHARED["dataset"], SHARED["plan"], SHARED["out"]
    folder = out / task.folder
    folder.mkdir(parents=True, exist_ok=True)
    tell = None if progress is None else (lambda news: progress(task, _facts(news)))
    loss, loss_settings = parse(task.loss)
    head, head_settings = parse(task.head)
    settings = Settings(
        **plan.training,
        loss=loss,
        loss_settings=loss_settings,
        head=head,
        head_settings=head_settings,
        seed=task.seed,
    )
    where = {"folder": folder / "checkpoint", "resume": True, "cache": out / "cache"}
    where["encoder"] = plan.build_encoder()
    if task.pseudo:
        got = pseudo_label(dataset, settings, progress=tell, **where).second
    else:
        got = train(dataset, settings, progress=tell, **where)
    if got.stopped == "interrupted":
        raise KeyboardInterrupt
    parts = {
        name: Part(dataset.part(name).labels, got.scores[name], dataset.part(name).ids)
        for name in ("valid", "test")
    }
    about = {"history": got.history, "settings": settings.as_json(), "best_epoch": got.best_epoch}
    about |= {"stopped": got.stopped, "reading": _reading(dataset)}
    run = Run(
        names=dataset.names,
        parts=parts,
        loss=settings.build_loss(),
        head=got.head,
        encoder=got.encoder,
        about=about,
    )
    judge(run).save(folder / JUDGED)
    run.save(folder)
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    if progress is not None:
        progress(task, {"done": True})


def _reading(dataset: Dataset) -> dict[str, Any]:
    """What later rows must be like."""
    card = dataset.card
    if dataset.features is not None:
        columns = card.get("about", {}).get("feature_names") or None
        return {"kind": "features", "columns": columns, "width": dataset.features.shape[1]}
    if dataset.texts is not None:
        return {"kind": "texts", "text": card.get("text_column")}
    return {"kind": "images"}


def _facts(news: Stage) -> dict[str, Any]:
    held = {"epoch": news.epoch, "share": news.done, "loss": news.loss}
    return held | {"monitor": news.monitor, "value": news.value}


def default_jobs() -> int:
    """One model per core that this process may use, or one at a time on a GPU."""
    if torch.cuda.is_available():
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
