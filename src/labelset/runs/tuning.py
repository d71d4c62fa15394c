"""tune: the hyperparameters of a loss and the learning rate, searched with Optuna.

All trials that came to an end are in `tune.json`, which is written after each of them: an
interrupted search continues from there as it would have gone on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labelset import losses
from labelset.catalog import hyperparameters
from labelset.data import Dataset, ensure_split
from labelset.files import folder_lock, write_bytes
from labelset.metrics import build as build_metric
from labelset.model import SavedModel, Split
from labelset.runs.folder import PLAN
from labelset.runs.judging import Judge, stage_of
from labelset.train import Diverged, Progress, Settings, Trained, train
from labelset.train.task import mixed

FILE = "tune.json"
SPAN = 4.0  # a hyperparameter is searched between its default over this and times this
FREE = ("device", "loss_settings")
"""Settings in which the trials of one search may differ: where they run, and what they try."""


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
    intervals = {}
    for name, hyper in hyperparameters(losses.catalog.get(loss)).items():
        default = hyper.default
        if isinstance(default, bool) or not isinstance(default, (int, float)):
            continue
        positive = default > 0
        intervals[name] = (default / SPAN, default * SPAN, True) if positive else (0.0, 1.0, False)
    return intervals


def tune(
    dataset: Dataset,
    loss: str,
    out: str | Path,
    *,
    trials: int = 30,
    optimise: str = "f1-micro",
    training: dict[str, Any] | None = None,
    seed: int = 0,
    progress: Callable[[int, float | None], None] | None = None,
) -> Tuned:
    """Search the hyperparameters of a loss and the learning rate, by a metric on validation rows.

    The same call again continues until `trials` are done in all. What a trial tries depends on the
    seed, its number and the trials before it. A folder holds one search: another metric, seed,
    space, other data or settings are refused there.
    """
    optuna = _optuna()
    shared = {"monitor": "map@class", **(training or {})}
    plain = Settings.from_json({**shared, "loss": loss, "seed": seed})  # before anything is written
    dataset, folder = ensure_split(dataset, seed=0), Path(out)
    if (folder / PLAN).is_file():  # whose best model would be written over
        raise ValueError(f"{folder}: there is a run already; choose another folder")
    higher = build_metric(optimise).higher_is_better
    search = TrialFile(facts(dataset, optimise, plain, space(loss)), folder / FILE)
    search.read()
    with folder_lock(folder):
        study = optuna.create_study(
            direction="maximize" if higher else "minimize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=2),
        )
        search.read()  # again, as another process may have written until now
        study.add_trials([_as_trial(optuna, trial) for trial in search.history])

        def objective(trial: Any) -> float:
            settings = _settings(trial, loss, shared, seed)
            try:
                done = train(dataset, settings, progress=_pruning(trial, optuna), parallel="alone")
            except Diverged:
                raise optuna.TrialPruned from None
            return _value(_run(dataset, done), optimise)

        def keep(_: Any, trial: Any) -> None:
            search.history.append(_as_json(trial))
            search.write()
            if progress is not None:
                progress(trial.number, search.history[-1]["value"])

        for number in range(len(search.history), trials):
            sampler_seed = mixed(seed, f"trial {number}") % 2**32
            study.sampler = optuna.samplers.TPESampler(seed=sampler_seed)
            study.optimize(objective, n_trials=1, callbacks=[keep])
        if all(trial["value"] is None for trial in search.history):
            raise ValueError(
                f"none of {len(search.history)} trials came to a value: training diverged in all "
                "of them; try a lower learning rate, or more trials"
            )
        settings = _settings(study.best_trial, loss, shared, seed)
        run = Judge(_run(dataset, train(dataset, settings, parallel="alone"))).finish(optimise)
        run.splits["train"] = Split(dataset.part("train").labels)
        run.save(folder / "best")
        tuned = Tuned(
            study.best_value, settings.loss_settings, {"lr": settings.lr}, len(study.trials), run
        )
        search.write(
            loss=loss,
            value=tuned.value,
            loss_settings=tuned.loss_settings,
            training=tuned.training,
            trials=tuned.trials,
        )
    return tuned


def _settings(trial: Any, loss: str, shared: dict[str, Any], seed: int) -> Settings:
    """What a trial tries; a finished trial suggests what it tried."""
    loss_settings = {
        name: trial.suggest_float(name, low, high, log=log)
        for name, (low, high, log) in space(loss).items()
    }
    rate = {} if "lr" in shared else {"lr": trial.suggest_float("lr", 1e-3, 0.3, log=True)}
    return Settings(**(shared | rate), loss=loss, loss_settings=loss_settings, seed=seed)


def _pruning(trial: Any, optuna: Any) -> Callable[[Progress], None]:
    def look(news: Progress) -> None:
        if news.epoch_over and news.value is not None:
            trial.report(news.value, news.epoch)
            if trial.should_prune():
                raise optuna.TrialPruned

    return look


def _run(dataset: Dataset, done: Trained) -> SavedModel:
    parts = {
        name: Split(dataset.part(name).labels, done.scores[name]) for name in ("valid", "test")
    }
    about = {"history": done.history, "settings": done.settings.as_json()}
    loss = done.settings.build_loss()
    return SavedModel(dataset.names, parts, loss, head=done.head, encoder=done.encoder, about=about)


def _value(run: SavedModel, optimise: str) -> float:
    wanted = (stage_of(optimise), optimise)
    view = next(v for v in Judge(run).views("valid") if (v.stage, v.metric) == wanted)
    return view.value(run.splits["valid"].labels)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ImportError('tuning needs Optuna: pip install "labelset[tune]"') from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _as_json(trial: Any) -> dict[str, Any]:
    """What Optuna needs to know of a trial that ended; one that was pruned has no value."""
    bounds = {name: [d.low, d.high, d.log] for name, d in trial.distributions.items()}
    value = trial.value if trial.state.name == "COMPLETE" else None
    reports = {str(epoch): float(report) for epoch, report in trial.intermediate_values.items()}
    return {"value": value, "tried": trial.params, "bounds": bounds, "reports": reports}


def _as_trial(optuna: Any, facts: Mapping[str, Any]) -> Any:
    """The trial of which `_as_json` gave these facts."""
    uniform = optuna.distributions.FloatDistribution
    states = optuna.trial.TrialState
    return optuna.trial.create_trial(
        state=states.PRUNED if facts["value"] is None else states.COMPLETE,
        value=facts["value"],
        params=facts["tried"],
        distributions={
            name: uniform(low, high, log=log) for name, (low, high, log) in facts["bounds"].items()
        },
        intermediate_values={int(epoch): value for epoch, value in facts["reports"].items()},
    )


def facts(
    dataset: Dataset, optimise: str, settings: Settings, space: Mapping[str, Any]
) -> dict[str, Any]:
    """All that the value of a trial depends on, besides what it tries."""
    fixed = {key: value for key, value in settings.as_json().items() if key not in FREE}
    about = {"data": dataset.fingerprint(), "metric": optimise, "space": space, **fixed}
    plain: dict[str, Any] = json.loads(json.dumps(about))
    return plain


class TrialFile:
    """One search and its trials, as the file at `path` has them."""

    def __init__(self, facts: dict[str, Any], path: Path) -> None:
        self.facts, self.path = facts, path
        self.history: list[dict[str, Any]] = []
        """The trials that ended, in order."""

    def write(self, **result: Any) -> None:
        """Replace the file: the result, once there is one, and every trial."""
        content = {**result, "search": self.facts, "history": self.history}
        write_bytes(self.path, json.dumps(content, indent=1).encode())

    def read(self) -> None:
        """Read the trials of an earlier call; the file of another search is an error."""
        if not self.path.is_file():
            return
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            other, history = dict(content.get("search", {})), content.get("history")
            sound = history is None or all(map(_is_sound, history))
        except (ValueError, TypeError, AttributeError, LookupError):
            sound = False
        if not sound:
            raise ValueError(f"{self.path}: is damaged; delete it to start the search again")
        if not other or history is None:
            raise ValueError(
                f"{self.path}: was written by another version of labelset, and does not say of "
                "which search; choose another folder, or delete it to start a new search in this "
                "one"
            )
        unlike = {key: fact for key, fact in other.items() if self.facts.get(key) != fact}
        if unlike:
            raise ValueError(
                f"{self.path.parent}: holds another search ({self._differences(unlike)}); choose "
                "another folder"
            )
        self.history = history

    def _differences(self, unlike: Mapping[str, Any]) -> str:
        """In what the searches differ; the space follows from the loss."""
        if "data" in unlike:
            return "of other data"
        shown = [key for key in unlike if key != "space"] or list(unlike)
        return ", ".join(f"{key} {unlike[key]!r}, not {self.facts.get(key)!r}" for key in shown)


def _is_sound(trial: Mapping[str, Any]) -> bool:
    """Whether this is what `_as_json` wrote."""
    numbers = [*trial["tried"].values(), *trial["reports"].values()]
    numbers += [] if trial["value"] is None else [trial["value"]]
    return trial["tried"].keys() == trial["bounds"].keys() and all(
        isinstance(number, int | float) for number in numbers
    )
