"""Training the models of a plan, several at a time, each to be found again after a stop."""

from __future__ import annotations

import multiprocessing
import os
import queue
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from labelset import encode
from labelset.data import Dataset, Schema
from labelset.encode.conv import Conv
from labelset.model import SavedModel, Split
from labelset.ranks import Ranks
from labelset.runs.folder import is_marked, is_whole, judge_and_save, mark
from labelset.runs.plan import Plan, Task, parse
from labelset.terminal import listening, phase
from labelset.torch_private import load_compiler
from labelset.train import Diverged, Settings, Trained, pseudo_label, train
from labelset.train import Progress as Stage

Progress = Callable[[Task, dict[str, Any]], None]
"""Called with what a model has just reached: an epoch's figures, or {"done": True}, with
"failed" and the reason where training came to nothing."""

KILLED = (
    "a process that was training a model was killed, by the system perhaps as memory ran out; "
    "go on with --resume, and with fewer --jobs"
)
TIMED = 50
"""Rows by which the time for one is measured."""
SHARED: dict[str, Any] = {}  # what forked workers find in their memory: data, plan, folder, news


def is_done(out: Path, task: Task) -> bool:
    """Whether a model was trained, or failed; `do_all` looks whether all of it is still there."""
    return is_marked(out / task.folder)


def do_all(
    dataset: Dataset,
    plan: Plan,
    out: Path,
    jobs: int,
    progress: Progress | None = None,
    save_seconds: float | None = None,
    parallel: str = "models",
) -> None:
    """Train what is not done yet; several processes where the system can fork them.

    Where there are ranks, each trains one model at a time: its own (`models`), or all the same
    one (`ddp`, `fsdp`).
    """
    ranks, alone = Ranks.running(), parallel == "models"
    left = ranks.once(lambda: [t for t in plan.tasks() if not is_whole(out / t.folder)])
    encoder = encode.as_encoder(plan.build_encoder(), dataset)
    if encoder.costly and left:  # once, before the workers ask for it
        ranks.once(lambda: encode.encoded(encoder, dataset, out / "cache") and None)
    SHARED["parallel"] = "alone" if alone else parallel
    jobs = jobs if ranks.size == 1 else 1
    SHARED.update(dataset=dataset, plan=plan, out=out, every=save_seconds, news=None)
    try:
        if min(jobs, len(left)) > 1 and "fork" in multiprocessing.get_all_start_methods():
            _in_processes(left, min(jobs, len(left)), progress)
        else:
            with _quiet_threads(encoder):
                for task in ranks.dealt(left) if alone else left:
                    _do(task, progress)
                    _tell_of_others(left, out, progress)
    finally:
        SHARED.clear()
    ranks.wait()
    _tell_of_others(left, out, progress)


def _tell_of_others(left: list[Task], out: Path, progress: Progress | None) -> None:
    """What other ranks have finished, their folders say."""
    if progress is None or Ranks.running().size == 1:
        return
    for task in left:
        if is_done(out, task):
            progress(task, {"done": True})


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
    load_compiler()
    context = multiprocessing.get_context("fork")
    SHARED["news"] = news = context.Queue()
    pool = ProcessPoolExecutor(
        jobs, mp_context=context, initializer=_begin_worker, initargs=(os.getpid(),)
    )
    running: set[Future[None]] = set()
    others = multiprocessing.active_children()  # which are the caller's
    try:
        running = {pool.submit(_do_and_tell, task) for task in left}
        while running:
            done, running = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
            _pass_on(news, progress)
            for future in done:
                future.result()
        _pass_on(news, progress)
    except BaseException as error:
        for worker in multiprocessing.active_children():
            if worker not in others:
                worker.terminate()  # what it has done is in its checkpoint
        if isinstance(error, BrokenProcessPool):
            raise RuntimeError(KILLED) from None
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin_worker(parent: int) -> None:
    """One thread of work; a request to end is obeyed at once, and so is the parent's end."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent, which gets Ctrl-C too, will ask
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """A killed parent cannot say so; its workers would wait for more work for ever."""
    while os.getppid() == parent:
        time.sleep(0.3)
    os._exit(1)


def _pass_on(news: Any, progress: Progress | None) -> None:
    while True:
        try:
            task, facts = news.get_nowait()
        except queue.Empty:
            return
        if task is None:
            phase(facts)
        elif progress is not None:
            progress(task, facts)


def _do_and_tell(task: Task) -> None:
    news = SHARED["news"]
    with listening(lambda text: news.put((None, text))):
        _do(task, lambda task, facts: news.put((task, facts)))


def _do(task: Task, progress: Progress | None) -> None:
    """Train one model and keep its scores; a checkpoint per epoch lets it go on after a stop."""
    dataset, plan, out = SHARED["dataset"], SHARED["plan"], SHARED["out"]
    folder = out / task.folder
    folder.mkdir(parents=True, exist_ok=True)
    tell = None if progress is None else (lambda news: progress(task, _facts(news)))
    loss, loss_settings = parse(task.loss)
    head, head_settings = parse(task.head)
    settings = Settings(
        **plan.loop,
        loss=loss,
        loss_settings=loss_settings,
        head=head,
        head_settings=head_settings,
        seed=task.seed,
    )
    where = {"folder": folder / "checkpoint", "resume": True, "cache": out / "cache"}
    where |= {"encoder": plan.build_encoder(), "save_seconds": SHARED["every"]}
    where["parallel"] = SHARED["parallel"]
    writes = SHARED["parallel"] == "alone" or Ranks.running().first
    try:
        if task.pseudo:
            got = pseudo_label(dataset, settings, progress=tell, **where).second
        else:
            got = train(dataset, settings, progress=tell, **where)
    except Diverged as error:  # the same again whenever it is tried, and no matter to the others
        if writes:
            mark(folder, failed=error.args[0])
        if progress is not None:
            progress(task, {"done": True, "failed": str(error)})
        return
    if got.stopped == "interrupted":
        raise KeyboardInterrupt
    phase(f"judging {task.key}")
    if writes:
        _keep(dataset, settings, got, folder, plan.optimise, task.seed == 0)
    if progress is not None:
        progress(task, {"done": True})


def _keep(
    dataset: Dataset,
    settings: Settings,
    got: Trained,
    folder: Path,
    optimise: str,
    first_seed: bool,
) -> None:
    """The model, its scores and what they are worth."""
    parts = {
        name: Split(dataset.part(name).labels, got.scores[name], dataset.part(name).ids)
        for name in ("valid", "test")
    }
    about = {"history": got.history, "settings": settings.as_json(), "best_epoch": got.best_epoch}
    schema = (dataset.schema or Schema.of(dataset)).only(got.encoder.reads)
    about |= {"stopped": got.stopped, "schema": schema.as_json(), **_costs(dataset, got)}
    run = SavedModel(
        names=dataset.names,
        splits=parts,
        loss=settings.build_loss(),
        head=got.head,
        encoder=got.encoder,
        about=about,
    )
    train = dataset.part("train").labels if first_seed else None  # of a model that is shown
    judge_and_save(run, train, folder, optimise)
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)


def _costs(dataset: Dataset, got: Trained) -> dict[str, float]:
    """Of training, of scoring a row, one of some, and of the model."""
    test = dataset.part("test")
    few = test.rows(torch.arange(min(TIMED, len(test))))
    began = time.perf_counter()
    got.logits(few)
    each = 1000 * (time.perf_counter() - began) / len(few)
    size = got.encoder.nbytes + sum(p.numel() * p.element_size() for p in got.head.parameters())
    spent = sum(epoch["seconds"] for epoch in got.history)
    return {"seconds": spent, "ms_per_row": each, "megabytes": size / 1e6}


def _facts(news: Stage) -> dict[str, Any]:
    held = {"epoch": news.epoch, "share": news.done, "loss": news.loss}
    return held | {"monitor": news.monitor, "value": news.value}
