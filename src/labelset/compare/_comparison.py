"""compare: train every candidate alike, judge all on the same rows, and write down the answer."""

from __future__ import annotations

import csv
import io
import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import labelset
from labelset import calibrate, decide
from labelset._atomic import write_bytes, write_with
from labelset.artefact import Part, Run
from labelset.compare._judge import TUNED
from labelset.compare._plan import Plan
from labelset.compare._recommend import choose, recommend
from labelset.compare._summary import Judged, Row, Standing, over_seeds, rows_of, standings
from labelset.compare._work import JUDGED, Progress, default_jobs, do_all
from labelset.data import Dataset, StoredRows, drop_train_labels, ensure_split
from labelset.data._npz_write import Parts, write_npz
from labelset.data._stored import blocks
from labelset.proofs import verify
from labelset.proofs._independent import independent

__all__ = ["Comparison", "compare"]

FORMAT = 1
PLAN, SHOWN = "plan.json", "test_rows.npz"
LONGEST = 400  # characters of a text that are kept to be shown


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
) -> Comparison:
    """Train, judge, and write results.csv, summary.csv, compare.json and the best run to `out`.

    Where `out` holds a comparison already it is refused, unless `resume`: then models that are
    done are not trained again, and the plan and data must be the same.
    """
    folder = Path(out)
    dataset = prepared(dataset, plan)
    _begin(folder, plan, dataset, resume)
    do_all(dataset, plan, folder, jobs or default_jobs(), progress)
    found = judged(plan, folder)
    _write(found, dataset)
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


def _begin(folder: Path, plan: Plan, dataset: Dataset, resume: bool) -> None:
    """Make the folder, or see that what is there is the same comparison."""
    about = {"plan": plan.as_json(), "data": dataset.fingerprint()}
    path = folder / PLAN
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: is a file; give a folder")
    if path.is_file():
        if not resume:
            raise ValueError(f"{folder}: there is a run already; go on with --resume, or --force")
        held = json.loads(path.read_text(encoding="utf-8"))
        for what in ("plan", "data"):
            if held.get(what) != about[what]:
                raise ValueError(f"{folder}: holds a comparison with another {what}")
        return
    folder.mkdir(parents=True, exist_ok=True)
    _keep_test_rows(folder / SHOWN, dataset.part("test"))
    about |= {"source": str(dataset.card.get("source", "data")), "versions": versions()}
    write_bytes(path, json.dumps(about, indent=1).encode())


def _keep_test_rows(path: Path, test: Dataset) -> None:
    """What a reader of the report sees of a row: its text or its picture."""
    if test.texts is not None:
        kind = f"<U{LONGEST}"  # which cuts longer texts off
        each = (np.array(block, dtype=kind) for block in blocks(test.texts))
        held = {"texts": Parts((len(test),), kind, each)}
    elif test.images is not None:
        held = {"images": Parts(tuple(test.images.shape), np.uint8, _as_bytes(test.images))}
    else:
        return
    write_with(path, lambda file: write_npz(file, held, compress=True))


def _as_bytes(images: Tensor | StoredRows) -> Iterator[np.ndarray[Any, Any]]:
    """uint8 in 0..255, some pictures at a time."""
    low, high = torch.tensor(torch.inf), torch.tensor(-torch.inf)
    if images.dtype != torch.uint8:
        for block in blocks(images):
            low, high = torch.minimum(low, block.min()), torch.maximum(high, block.max())
    for block in blocks(images):
        if block.dtype != torch.uint8:
            block = ((block - low) / (high - low).clamp(min=1e-9) * 255).to(torch.uint8)
        yield block.numpy()


def versions() -> dict[str, str]:
    """What the numbers depend on."""
    return {
        "labelset": labelset.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def judged(plan: Plan, folder: Path) -> Comparison:
    """From the trained models to the answer."""
    rows: list[Row] = []
    values, able = {}, {}
    for loss in plan.losses:
        for head in plan.heads:
            tasks = [t for t in plan.tasks() if (t.loss, t.head) == (loss, head)]
            each = [Judged.load(folder / task.folder / JUDGED) for task in tasks]
            for task, one in zip(tasks, each, strict=True):
                rows += rows_of(loss, head, task.seed, one)
            values[tasks[0].key] = over_seeds(each)
            able[tasks[0].key] = _expressible(Run.open(folder / tasks[0].folder))
    valid, test = (
        {
            key: standings(own, values[plan.base], key == plan.base, split)
            for key, own in values.items()
        }
        for split in ("valid", "test")
    )
    best = choose(valid, plan.base, plan.optimise)
    sentence = recommend(best, plan.base, test, plan.optimise)
    return Comparison(plan, rows, test, able, best, sentence, folder)


def _expressible(run: Run, seconds: float = 10.0) -> float | None:
    """Share of the test rows whose label sets the head provably can say."""
    if run.head is None:
        return None
    if independent(run.head.matrix()[0].detach().double().cpu().numpy()):
        return 1.0
    proof = verify(run.head, run.parts["test"].labels, seconds=seconds)
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
