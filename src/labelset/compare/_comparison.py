"""compare: train every candidate alike, judge all on the same rows, and write down the answer."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labelset import calibrate, check, decide
from labelset._atomic import sweep, write_bytes
from labelset.artefact import Part, Run
from labelset.compare._done import failure
from labelset.compare._folder import PLAN, SHOWN, begin, versions
from labelset.compare._judge import TUNED
from labelset.compare._plan import Plan
from labelset.compare._recommend import choose, recommend
from labelset.compare._summary import Judged, Row, Standing, over_seeds, rows_of, standings
from labelset.compare._work import JUDGED, Progress, default_jobs, do_all
from labelset.data import Dataset, drop_train_labels, ensure_split
from labelset.proofs import verify
from labelset.proofs._independent import independent
from labelset.train import Diverged
from labelset.train._lock import alone, unlock_below
from labelset.train._ranks import Ranks

__all__ = ["PARALLEL", "Comparison", "compare"]

FORMAT = 1
PARALLEL = ("models", "ddp", "fsdp")
PROVEN = 2000  # test rows whose label sets are proven: enough for a share


@dataclass(frozen=True)
class Comparison:
    """The answer: every figure, who stands how, and what to use."""

    plan: Plan
    rows: list[Row]
    standings: dict[str, list[Standing]]
    """Of each candidate, on the test rows."""
    expressible: dict[str, float | None]
    """Share of the distinct test label sets that each candidate's head can say; None: unproven."""
    best: str
    recommendation: str
    out: Path
    failed: dict[str, str] = field(default_factory=dict)
    """Candidates of which a seed could not be trained, and why; they have no standings."""

    @property
    def source(self) -> str:
        """Where the data came from."""
        held: dict[str, Any] = json.loads((self.out / PLAN).read_text(encoding="utf-8"))
        return str(held["source"])

    def test_rows(self) -> dict[str, Any]:
        """Texts or images of the test rows, where the data have them."""
        path = self.out / SHOWN
        if not path.is_file():
            return {}
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            held = {name: file[name] for name in file.files}
        if "texts" in held:
            return {"texts": held["texts"].tolist()}
        return {"images": torch.from_numpy(held["images"])}

    def run(self, key: str, seed: int = 0) -> Run:
        """A trained model of a candidate."""
        task = next(t for t in self.plan.tasks() if (t.key, t.seed) == (key, seed))
        return Run.open(self.out / task.folder)


def compare(
    dataset: Dataset,
    plan: Plan,
    out: str | Path,
    *,
    resume: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
    save_seconds: float | None = None,
    parallel: str = "models",
) -> Comparison:
    """Train, judge, and write results.csv, summary.csv, compare.json and the best run to `out`.

    Where `out` holds a comparison already it is refused, unless `resume`: then models that are
    done are not trained again, and the plan and data must be the same. `save_seconds`: between two
    checkpoints of a model, as in `train`.

    Where a process group is running (torchrun), each of its ranks calls this with the same
    arguments, and all of them see the folder `out`. `parallel="models"`: a rank trains models of
    its own, whoever is free the next one, and files are as one process writes them; "ddp" and
    "fsdp": all ranks train every model together, as in `train`.
    """
    check.one_of("parallel", parallel, PARALLEL)
    folder, ranks = Path(out), Ranks.running()
    dataset = prepared(dataset, plan)
    with alone(folder) if ranks.first else nullcontext():
        ranks.once(lambda: begin(folder, plan, dataset, resume))
        try:
            jobs = jobs or default_jobs()
            do_all(dataset, plan, folder, jobs, progress, save_seconds, parallel)
            found = judged(plan, folder)
            ranks.once(lambda: _write(found, dataset))
        finally:
            if ranks.first:
                sweep(folder)  # what workers were writing when they were ended
                unlock_below(folder)
    return found


def prepared(dataset: Dataset, plan: Plan) -> Dataset:
    """With train, valid and test parts, and with the labels dropped that the plan drops."""
    source = dataset.card.get("source", "the data set")
    if not dataset.n:
        raise ValueError(f"{source}: has no labels; say where they are, such as label_column=...")
    dataset = ensure_split(dataset, seed=0)
    for part in ("train", "valid", "test"):
        if not len(dataset.part(part)):
            few = "; there are too few rows to split" if len(dataset) < 10 else ""
            raise ValueError(f"{source}: has no {part} rows{few}")
    if not int(dataset.part("train").labels.counts().sum()):
        raise ValueError(f"{source}: no label is on in the training rows; where are the labels?")
    if plan.missing is not None:
        dataset = drop_train_labels(dataset, plan.missing, seed=0)
    return dataset


def judged(plan: Plan, folder: Path) -> Comparison:
    """From the trained models to the answer."""
    rows: list[Row] = []
    values, able, failed = {}, {}, dict[str, str]()
    for loss in plan.losses:
        for head in plan.heads:
            tasks = [t for t in plan.tasks() if (t.loss, t.head) == (loss, head)]
            reasons = {task: failure(folder / task.folder) for task in tasks}
            each = {t: Judged.load(folder / t.folder / JUDGED) for t in tasks if not reasons[t]}
            for task in tasks:
                reason = reasons[task]
                if reason is None:
                    rows += rows_of(loss, head, task.seed, each[task])
                else:
                    rows.append(Row(loss, head, task.seed, "train", "failed", reason, math.nan))
                    failed.setdefault(task.key, f"seed {task.seed}: {reason}")
            if len(each) < len(tasks):
                continue
            values[tasks[0].key] = over_seeds([*each.values()])
            able[tasks[0].key] = _expressible(Run.open(folder / tasks[0].folder))
    if plan.base in failed:
        raise Diverged(_no_baseline(plan, failed))
    valid, test = (
        {
            key: standings(own, values[plan.base], key == plan.base, split)
            for key, own in values.items()
        }
        for split in ("valid", "test")
    )
    best = choose(valid, plan.base, plan.optimise)
    sentence = recommend(best, plan.base, test, plan.optimise)
    return Comparison(plan, rows, test, able, best, sentence, folder, failed)


def _no_baseline(plan: Plan, failed: dict[str, str]) -> str:
    why = f"{plan.base} failed, {failed[plan.base]}"
    if len({task.key for task in plan.tasks()}) == 1:
        return why
    return f"{why}; without the baseline nothing can be compared: choose another --baseline"


def _expressible(run: Run, seconds: float = 10.0) -> float | None:
    """Share of the test rows, or of so many of them, whose label sets the head provably can say."""
    if run.head is None:
        return None
    if independent(run.head.matrix()[0].detach().double().cpu().numpy()):
        return 1.0
    labels = run.parts["test"].labels
    some = torch.linspace(0, len(labels) - 1, min(len(labels), PROVEN)).long()
    proof = verify(run.head, labels[some], seconds=seconds)
    return proof.counts()["argmaxable"] / max(len(proof), 1)


def finished(run: Run, optimise: str) -> Run:
    """With a map and a rule, fitted on the validation rows."""
    held = run.held_out()
    try:
        fitted = calibrate.build("platt", loss=run.loss).fit(held.scores, held.labels)
        if (
            run.loss is None
            or run.loss.link_missing()
            or (fitted.quality and fitted.quality.helped)
        ):
            run.map = fitted
    except ValueError:
        pass  # nothing on, or nothing off, in the validation rows: the link stays
    name, settings = TUNED.get(optimise, TUNED["f1-macro"])
    p = run.current_probabilities(held.scores)
    run.rule = decide.build(name, **settings).fit(p, held.labels)
    return run


def _write(found: Comparison, dataset: Dataset) -> None:
    run = finished(found.run(found.best), found.plan.optimise)
    run.parts["train"] = Part(dataset.part("train").labels)
    run.save(found.out / "best")
    _csv(found.out / "results.csv", found.rows)
    lines = [
        {"candidate": key, **asdict(standing)}
        for key, held in found.standings.items()
        for standing in held
    ]
    _csv(found.out / "summary.csv", lines)
    about = {
        "format": FORMAT,
        "plan": found.plan.as_json(),
        "versions": versions(),
        "best": found.best,
        "failed": found.failed,
        "baseline": found.plan.base,
        "recommendation": found.recommendation,
        "expressible": found.expressible,
        "standings": {key: [s.as_json() for s in held] for key, held in found.standings.items()},
    }
    write_bytes(found.out / "compare.json", json.dumps(about, indent=1).encode())


def _csv(path: Path, lines: Sequence[Any]) -> None:
    text = io.StringIO(newline="")
    names = list(lines[0]) if isinstance(lines[0], dict) else [f.name for f in fields(lines[0])]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(line if isinstance(line, dict) else asdict(line) for line in lines)
    write_bytes(path, text.getvalue().encode())
