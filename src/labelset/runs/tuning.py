"""tune: the hyperparameters of a loss, searched with Optuna by processes that share the trials."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from labelset import losses
from labelset.catalog import hyperparameters
from labelset.data import Dataset, ensure_split
from labelset.files import write_bytes
from labelset.metrics import build as build_metric
from labelset.model import SavedModel, Split
from labelset.ranks import Ranks
from labelset.runs.comparison import stage_of
from labelset.runs.judging import Judge
from labelset.train import Diverged, Progress, Settings, Trained, train
from labelset.train.task import mixed

FOUND = "tune.json"
SPAN = 4.0  # a hyperparameter is searched between its default over this and times this


@dataclass(frozen=True)
class Tuned:
    """What a search found."""

    value: float
    """The metric on validation rows of the best trial."""
    loss_settings: dict[str, Any]
    training: dict[str, Any]
    trials: int
    run: SavedModel
    """The best model, trained again, with calibrator and rule."""


def space(loss: str) -> dict[str, tuple[float, float, bool]]:
    """Hyperparameter -> (low, high, whether by its logarithm), from the defaults of a loss.

    >>> space("focal")["gamma"]
    (0.5, 8.0, True)
    """
    found = {}
    for name, held in hyperparameters(losses.catalog.get(loss)).items():
        default = held.default
        if isinstance(default, bool) or not isinstance(default, (int, float)):
            continue
        found[name] = (default / SPAN, default * SPAN, True) if default > 0 else (0.0, 1.0, False)
    return found


def tune(
    dataset: Dataset,
    loss: str,
    out: str | Path,
    *,
    trials: int = 30,
    optimise: str = "f1-micro",
    training: dict[str, Any] | None = None,
    storage: str | None = None,
    seed: int = 0,
    progress: Callable[[int, float | None], None] | None = None,
) -> Tuned:
    """Search the hyperparameters of a loss and the learning rate, by a metric on validation rows.

    The study lives in `storage` (any that Optuna knows; an SQLite file in `out` by default): the
    same call again goes on until `trials` are done in all. Any number of processes may share a
    study, and so do the ranks of a process group (torchrun), each with trials of its own; together
    they make `trials`, not more. Data, metric, settings, space and seed are part of the study's
    name: searches that differ in any of them share a storage without meeting.
    """
    optuna = _optuna()
    shared = {"monitor": "map@class", **(training or {})}
    plain = Settings.from_json({**shared, "loss": loss, "seed": seed})  # before anything is written
    dataset, folder, ranks = ensure_split(dataset, seed=0), Path(out), Ranks.running()
    about = Search.of(dataset, optimise, plain, space(loss))
    about.check_alone(folder / FOUND)
    folder.mkdir(parents=True, exist_ok=True)
    higher = build_metric(optimise).higher_is_better
    storage = storage or f"sqlite:///{(folder / 'study.db').resolve()}"

    def objective(trial: Any) -> float:
        settings = _settings(trial, loss, shared, seed)
        try:
            got = train(dataset, settings, progress=_pruning(trial, optuna), parallel="alone")
        except Diverged:
            raise optuna.TrialPruned from None
        return _value(_run(dataset, got), optimise)

    with in_reach(optuna, storage):
        study = open_study(optuna, storage, about.name, higher)
        search(optuna, study, objective, trials, seed, progress)
        settings = _settings(best(study), loss, shared, seed)
    run = Judge(_run(dataset, train(dataset, settings, parallel="alone"))).finish(optimise)
    run.splits["train"] = Split(dataset.part("train").labels)
    rate, done = {"lr": settings.lr}, len(ended(study))
    found = Tuned(study.best_value, settings.loss_settings, rate, done, run)
    if ranks.first:
        _write(found, folder, {"loss": loss, "study": about.name, "search": about.facts})
    return found


def _write(found: Tuned, folder: Path, about: dict[str, Any]) -> None:
    found.run.save(folder / "best")
    held = {f.name: getattr(found, f.name) for f in fields(found) if f.name != "run"}
    write_bytes(folder / FOUND, json.dumps(held | about, indent=1).encode())


def _settings(trial: Any, loss: str, shared: dict[str, Any], seed: int) -> Settings:
    held = {
        name: trial.suggest_float(name, low, high, log=log)
        for name, (low, high, log) in space(loss).items()
    }
    rate = {} if "lr" in shared else {"lr": trial.suggest_float("lr", 1e-3, 0.3, log=True)}
    return Settings(**(shared | rate), loss=loss, loss_settings=held, seed=seed)


def _pruning(trial: Any, optuna: Any) -> Callable[[Progress], None]:
    def look(news: Progress) -> None:
        if news.epoch_over and news.value is not None:
            trial.report(news.value, news.epoch)
            if trial.should_prune():
                raise optuna.TrialPruned

    return look


def _run(dataset: Dataset, got: Trained) -> SavedModel:
    parts = {name: Split(dataset.part(name).labels, got.scores[name]) for name in ("valid", "test")}
    about = {"history": got.history, "settings": got.settings.as_json()}
    loss = got.settings.build_loss()
    return SavedModel(dataset.names, parts, loss, head=got.head, encoder=got.encoder, about=about)


def _value(run: SavedModel, optimise: str) -> float:
    wanted = (stage_of(optimise), optimise)
    view = next(v for v in Judge(run).views("valid") if (v.stage, v.metric) == wanted)
    return view.value(run.splits["valid"].labels)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ImportError('tuning needs Optuna: pip install "labelset[tune]"') from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # warnings are of trials one too many
    return optuna


FREE = ("device", "loss_settings")
"""What does not tell searches apart: where a trial is made, and what it tries."""


@dataclass(frozen=True)
class Search:
    """All that the value of a trial depends on, besides what it tries."""

    facts: dict[str, Any]

    @classmethod
    def of(
        cls, dataset: Dataset, optimise: str, settings: Settings, space: Mapping[str, Any]
    ) -> Search:
        """Data (with their split), metric, settings of training with the seed, and the space."""
        held = {key: fact for key, fact in settings.as_json().items() if key not in FREE}
        about = {"data": dataset.fingerprint(), "metric": optimise, "space": space, **held}
        return cls(json.loads(json.dumps(about)))

    @property
    def name(self) -> str:
        """Of the study: loss, metric, and a hash of everything."""
        key = hashlib.sha256(json.dumps(self.facts, sort_keys=True).encode()).hexdigest()
        return f"{self.facts['loss']}-{self.facts['metric']}-{key[:16]}"

    def check_alone(self, path: Path) -> None:
        """A folder holds one search, of which the file there tells."""
        if not path.is_file():
            return
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            study, other = held.get("study"), dict(held.get("search", {}))
        except (ValueError, TypeError, AttributeError):
            raise ValueError(f"{path}: is damaged; delete it, and the search goes on") from None
        if not other:
            raise ValueError(
                f"{path}: was written by another version of labelset, and does not say of which "
                "search; choose another folder, or delete it to start a new search in this one"
            )
        if study == self.name:
            return
        unlike = {key: fact for key, fact in other.items() if self.facts.get(key) != fact}
        raise ValueError(
            f"{path.parent}: holds another search ({self._unlike(unlike)}); choose another folder"
        )

    def _unlike(self, unlike: Mapping[str, Any]) -> str:
        """In what the searches differ; the space follows from the loss."""
        if "data" in unlike:
            return "of other data"
        shown = [key for key in unlike if key != "space"] or list(unlike)
        return ", ".join(f"{key} {unlike[key]!r}, not {self.facts.get(key)!r}" for key in shown)


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
    progress: Callable[[int, float | None], None] | None,
) -> None:
    """Make trials until `trials` are done or under way, here and elsewhere.

    A trial gets its number from the storage, which gives each number once. It is one too many where
    `trials` before it count; it is then marked as failed, which counts for nothing. What it
    suggests depends on `seed`, its number, and the trials that are done.
    """
    reported = {t.number for t in ended(study)}

    def begun(trial: Any) -> float:
        trial.set_user_attr(BY, f"{socket.gethostname()} {os.getpid()}")
        if _taken(study, trial.number) >= trials:
            raise _Enough
        study.sampler = _sampler(optuna, mixed(seed, f"trial {trial.number}") % 2**32)
        return objective(trial)

    def tell(*_: Any) -> None:
        for trial in ended(study):
            if progress is not None and trial.number not in reported:
                progress(trial.number, trial.value)
            reported.add(trial.number)

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
