"""Hyperparameters of a loss, searched with Optuna: pruned, resumable, on many machines at once."""

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
from labelset.train import Progress, Settings, Trained, train

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
    same call again goes on until `trials` are done, and many processes may share one.
    """
    optuna = _optuna()
    shared = {"monitor": "map@class", **(training or {})}
    Settings.from_json({**shared, "loss": loss})  # before anything is written
    dataset, folder = ensure_split(dataset, seed=0), Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{loss}-{optimise}-{dataset.fingerprint()[:12]}"
    _same_search(folder / FOUND, name)
    study = optuna.create_study(
        study_name=name,
        storage=storage or f"sqlite:///{(folder / 'study.db').resolve()}",
        direction="maximize" if build_metric(optimise).higher_is_better else "minimize",
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=2),
        load_if_exists=True,
    )
    ended = [t for t in study.get_trials(deepcopy=False) if t.state.is_finished()]

    def objective(trial: Any) -> float:
        settings = _settings(trial, loss, shared, seed)
        got = train(dataset, settings, progress=_pruning(trial, optuna))
        return _value(_run(dataset, got), optimise)

    def told(study: Any, trial: Any) -> None:
        if progress is not None:
            progress(trial.number, trial.value)

    study.optimize(objective, n_trials=max(trials - len(ended), 0), callbacks=[told])
    settings = _settings(study.best_trial, loss, shared, seed)
    run = finished(_run(dataset, train(dataset, settings)), optimise)
    run.parts["train"] = Part(dataset.part("train").labels)
    run.save(folder / "best")
    found = Tuned(
        study.best_value, settings.loss_settings, {"lr": settings.lr}, len(study.trials), run
    )
    held = {f.name: getattr(found, f.name) for f in fields(found) if f.name != "run"}
    held |= {"loss": loss, "study": name}
    write_bytes(folder / FOUND, json.dumps(held, indent=1).encode())
    return found


def _same_search(path: Path, name: str) -> None:
    """A folder holds one search: another loss, metric or data set needs another."""
    if path.is_file() and json.loads(path.read_text(encoding="utf-8")).get("study") != name:
        raise ValueError(f"{path.parent}: holds another search; choose another folder")


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
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
