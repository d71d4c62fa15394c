"""A study that processes share: together they make as many trials as are wanted, and no more."""

from __future__ import annotations

import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from labelset.train._random import mixed
from labelset.train._ranks import Ranks

__all__ = ["best", "ended", "in_reach", "open_study", "search"]

Progress = Callable[[int, float | None], None]
BY = "process"
"""Under which a trial says whose it is."""
NEW, OLD = timedelta(minutes=1), timedelta(days=1)
"""A trial that does not say yet is new; one on another machine counts as running for so long."""
ATTEMPTS = 8
HOPELESS = ("disk is full", "not a database", "malformed", "unable to open", "readonly")
"""What SQLite says where waiting does not help."""


class _Enough(Exception):
    """Others were quicker: as many trials as are wanted are done or under way."""


@contextmanager
def in_reach(optuna: Any, storage: str) -> Iterator[None]:
    """A full disk, a damaged file or a database that is not there: an error in words."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    try:
        where = make_url(storage).render_as_string(hide_password=True)
    except ArgumentError:
        raise ValueError(f"storage must be like sqlite:///trials.db, got {storage!r}") from None
    try:
        yield
    except (optuna.exceptions.StorageInternalError, SQLAlchemyError) as error:
        raise RuntimeError(
            f"{where}: the trials cannot be read or written ({_cause(error)}); see that it is "
            "there, whole, and has room, or choose another --storage or folder"
        ) from None


def _cause(error: BaseException) -> BaseException:
    """What the database itself said."""
    return error if error.__cause__ is None else _cause(error.__cause__)


def open_study(optuna: Any, storage: str, name: str, higher: bool) -> Any:
    """The study of that name; where it is new, the first rank makes it."""
    pruner = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=2)

    def opened() -> Any:
        held: Any = storage
        if storage.startswith("sqlite"):  # whose writers wait for each other
            patient = {"connect_args": {"timeout": 60}}
            held = optuna.storages.RDBStorage(storage, engine_kwargs=patient)
        return optuna.create_study(
            study_name=name,
            storage=held,
            direction="maximize" if higher else "minimize",
            pruner=pruner,
            load_if_exists=True,
        )

    Ranks.running().once(lambda: _patiently(optuna, opened) and None)
    return opened()


def _patiently(optuna: Any, work: Callable[[], Any]) -> Any:
    """Two processes that make the tables of one database at once are in each other's way."""
    from sqlalchemy.exc import SQLAlchemyError

    for attempt in range(ATTEMPTS):
        try:
            return work()
        except (optuna.exceptions.StorageInternalError, SQLAlchemyError) as error:
            if any(words in str(_cause(error)) for words in HOPELESS):
                raise
            time.sleep(0.1 * 2**attempt * (1 + os.getpid() % 7 / 7))  # not all at once again
    return work()


def search(
    optuna: Any,
    study: Any,
    objective: Callable[[Any], float],
    trials: int,
    seed: int,
    progress: Progress | None,
) -> None:
    """Make trials until `trials` are done or under way, here and elsewhere.

    A trial gets its number from the storage, which gives each number once. It is one too many where
    `trials` before it count; it is then marked as failed, which counts for nothing. What it
    suggests depends on `seed`, its number, and the trials that are done.
    """
    told = {t.number for t in ended(study)}

    def begun(trial: Any) -> float:
        trial.set_user_attr(BY, f"{socket.gethostname()} {os.getpid()}")
        if _taken(study, trial.number) >= trials:
            raise _Enough
        study.sampler = _sampler(optuna, mixed(seed, f"trial {trial.number}") % 2**32)
        return objective(trial)

    def tell(*_: Any) -> None:
        for trial in ended(study):
            if progress is not None and trial.number not in told:
                progress(trial.number, trial.value)
            told.add(trial.number)

    while _taken(study) < trials:
        study.optimize(begun, n_trials=1, callbacks=[tell], catch=(_Enough,))
    Ranks.running().wait()
    tell()


def ended(study: Any) -> list[Any]:
    """The trials that came to an end, pruned or not."""
    every = study.get_trials(deepcopy=False)
    return [t for t in every if t.state.name in ("COMPLETE", "PRUNED")]


def best(study: Any) -> Any:
    """The best trial; an error where none came to a value."""
    if not any(t.state.name == "COMPLETE" for t in ended(study)):
        raise ValueError(
            f"none of {len(ended(study))} trials came to a value: training diverged in all of "
            "them; try a lower learning rate, or more trials"
        )
    return study.best_trial


def _taken(study: Any, before: int | None = None) -> int:
    """How many trials (of lower number) are done, or under way in a process that lives."""
    every = study.get_trials(deepcopy=False)
    if before is not None:
        every = [t for t in every if t.number < before]
    states = [t.state.name for t in every]
    running = [t for t in every if t.state.name == "RUNNING"]
    return states.count("COMPLETE") + states.count("PRUNED") + sum(map(_lives, running))


def _lives(trial: Any) -> bool:
    age = datetime.now() - trial.datetime_start
    if BY not in trial.user_attrs:
        return bool(age < NEW)
    host, process = trial.user_attrs[BY].rsplit(" ", 1)
    if host != socket.gethostname():
        return bool(age < OLD)
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _sampler(optuna: Any, seed: int) -> Any:
    with warnings.catch_warnings():  # older releases call the argument experimental
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
