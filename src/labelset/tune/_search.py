"""tune: the best hyperparameters of a loss on one's own data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from labelset import losses
from labelset._atomic import write_bytes
from labelset.artefact import Part, Run
from labelset.catalog import hyperparameters
from labelset.compare import finished
from labelset.compare._judge import views
from labelset.compare._recommend import stage_of
from labelset.data import Dataset, ensure_split
from labelset.metrics import build as build_metric
from labelset.train import Diverged, Progress, Settings, Trained, train
from labelset.train._ranks import Ranks
from labelset.tune._same import Search
from labelset.tune._study import best, ended, in_reach, open_study, search

__all__ = ["Tuned", "space", "tune"]

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
    run: Run
    """The best model, trained again, with map and rule."""


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
    run = finished(_run(dataset, train(dataset, settings, parallel="alone")), optimise)
    run.parts["train"] = Part(dataset.part("train").labels)
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


def _run(dataset: Dataset, got: Trained) -> Run:
    parts = {name: Part(dataset.part(name).labels, got.scores[name]) for name in ("valid", "test")}
    about = {"history": got.history, "settings": got.settings.as_json()}
    loss = got.settings.build_loss()
    return Run(dataset.names, parts, loss, head=got.head, encoder=got.encoder, about=about)


def _value(run: Run, optimise: str) -> float:
    wanted = (stage_of(optimise), optimise)
    view = next(v for v in views(run, "valid") if (v.stage, v.metric) == wanted)
    return view.value(run.parts["valid"].labels)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ImportError('tuning needs Optuna: pip install "labelset[tune]"') from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # warnings are of trials one too many
    return optuna
