"""Doing cells: in this process, or in several, whoever is free the next one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

import torch

from labelset.runs import KILLED
from labelset_studies._cell import Cell
from labelset_studies._data import Ready, only_texts, open_named, with_missing
from labelset_studies._fit import fit
from labelset_studies._measure import measure, on_validation
from labelset_studies._scored import Scored
from labelset_studies._store import Done

LARGE = 3 * 10**9 // 2
"""Products in a pass over the training rows from which on a GPU is the quicker one, where as many
trainings share it as there are cores: below, a core of its own is."""
HERE: dict[str, Workshop] = {}  # of a worker process


@dataclass(eq=False)
class Workshop:
    """What cells need: where data are, and what was read already."""

    folder: Path | None
    device: str = "cpu"
    """cpu, cuda, or auto: cuda for the larger data sets."""
    queries: int = 200
    kept: Path | None = None
    """Where features that were computed are kept, for all processes."""
    ready: dict[str, Ready] = field(default_factory=dict)

    def do(self, cell: Cell) -> Done:
        """Train and measure; one that comes to nothing says why, and the others go on."""
        began = time.perf_counter()
        try:
            found = self._found(cell)
        except (RuntimeError, ValueError) as error:
            return Done({}, {}, time.perf_counter() - began, failed=" ".join(str(error).split()))
        values = {name: value for name, (value, _) in found.items()}
        drawn = {name: t for name, (_, t) in found.items() if t is not None}
        return Done(values, drawn, time.perf_counter() - began)

    def _found(self, cell: Cell) -> dict[str, tuple[float, torch.Tensor | None]]:
        ready = self.opened(cell.data)
        device = self.device_for(ready)
        dataset = with_missing(ready.dataset, cell.missing, cell.seed)
        got = fit(ready, dataset.labels, cell.candidate, cell.seed, cell.epochs, device)
        labels = {part: dataset.part(part).labels for part in ("valid", "test")}
        scored = Scored(cell.candidate.build_loss(), got.scores, labels)
        if cell.trial is not None:
            return {name: (on_validation(scored, name), None) for name in cell.metrics}
        train = dataset.part("train").labels
        return measure(list(cell.metrics), got, scored, train, device, self.queries)

    def opened(self, name: str) -> Ready:
        """A data set, read once."""
        if name not in self.ready:
            self.ready[name] = Ready.of(open_named(name, self.folder, self.kept))
        return self.ready[name]

    def prepare(self, cells: Iterable[Cell]) -> None:
        """Compute the features of texts, before several processes would."""
        for name in sorted({cell.data for cell in cells}):
            if only_texts(name, self.folder):
                self.opened(name)

    def device_for(self, ready: Ready) -> str:
        """Where the cells of a data set are done."""
        if self.device != "auto":
            return self.device
        return "cuda" if ready.size > LARGE and torch.cuda.is_available() else "cpu"


def do_cells(
    cells: Sequence[Cell], workshop: Workshop, jobs: int, goes_on: Callable[[], bool]
) -> Iterator[tuple[Cell, Done]]:
    """Every cell with what it left, as they are done; none is begun once `goes_on` says no."""
    if jobs > 1 and len(cells) > 1:
        yield from _in_processes(cells, workshop, min(jobs, len(cells)), goes_on)
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # trainings are small
    try:
        for cell in cells:
            if not goes_on():
                return
            yield cell, workshop.do(cell)
    finally:
        torch.set_num_threads(before)


def _in_processes(
    cells: Sequence[Cell], workshop: Workshop, jobs: int, goes_on: Callable[[], bool]
) -> Iterator[tuple[Cell, Done]]:
    context = multiprocessing.get_context("spawn")  # a GPU cannot be used in forked processes
    workshop.prepare(cells)
    given = (workshop.folder, workshop.device, workshop.queries, workshop.kept, os.getpid())
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=given)
    others = multiprocessing.active_children()  # which are the caller's
    left, running = iter(cells), dict[Future[Done], Cell]()
    try:
        while True:
            while len(running) < 2 * jobs and goes_on():
                cell = next(left, None)
                if cell is None:
                    break
                running[pool.submit(_do, cell)] = cell
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    except BaseException as error:
        for worker in multiprocessing.active_children():
            if worker not in others:
                worker.terminate()  # what is finished is kept
        if isinstance(error, BrokenProcessPool):
            raise RuntimeError(KILLED) from None
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(folder: Path | None, device: str, queries: int, kept: Path | None, parent: int) -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent, which gets Ctrl-C too, will end us
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    HERE["workshop"] = Workshop(folder, device, queries, kept)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.3)
    os._exit(1)


def _do(cell: Cell) -> Done:
    return HERE["workshop"].do(cell)
