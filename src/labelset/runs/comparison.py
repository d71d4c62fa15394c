"""compare: train every candidate alike, judge all on the same rows, and write down the answer."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from labelset import check
from labelset.charts import Panel, differences
from labelset.data import Dataset, ensure_split, inspect
from labelset.data.formats.npz import opened
from labelset.data.reading import reading
from labelset.display import Shown
from labelset.files import folder_lock, share, sweep, unlock_below, versions, write_bytes
from labelset.metrics import build
from labelset.model import COMPARED, SavedModel, Split
from labelset.ranks import Ranks
from labelset.runs import PARALLEL
from labelset.runs.choosing import affordable, choose_found, described
from labelset.runs.families import MANY
from labelset.runs.folder import PLAN, SHOWN, begin, failure, reasons, with_sum, without_sum
from labelset.runs.judging import FIGURES, JUDGEMENT, PLAIN, Judged, Judgement, Key, stage_of
from labelset.runs.plan import Plan, Task
from labelset.runs.resample import draws
from labelset.runs.search import Found, search, suits
from labelset.runs.shelf import InFolder
from labelset.terminal import phase, table, width, wrapped
from labelset.train import Diverged

if TYPE_CHECKING:
    from labelset.runs.pool import Progress

FORMAT = 1
COSTS = ("seconds", "ms_per_row", "megabytes")
"""Of fitting, of scoring a row, and of the model."""
REASONS = "reasons.json"
CARD = "data.json"
"""What is known of the data: what `labelset data inspect` finds, and positives by label."""
BEST = "best"
"""The folder of the recommended model."""


@dataclass(frozen=True)
class Row:
    """One line of results.csv."""

    loss: str
    head: str
    seed: int
    split: str
    stage: str
    metric: str
    value: float


@dataclass(frozen=True)
class Standing:
    """A candidate by one metric at one stage."""

    stage: str
    metric: str
    mean: float
    sd: float
    """Standard deviation over seeds; NaN with one seed."""
    delta: float
    """Difference to the baseline, paired over seeds and rows."""
    low: float
    """95% interval of that difference, rows and seeds drawn again."""
    high: float
    verdict: str
    """`better` and `worse` only where the interval excludes 0; else `no difference`."""
    mean_low: float = math.nan
    """95% interval of the mean itself, rows and seeds drawn again."""
    mean_high: float = math.nan

    def as_json(self) -> dict[str, Any]:
        """Plain data, None for what is not finite."""
        held = asdict(self).items()
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in held}


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """The answer: every figure, who stands how, and what to use."""

    plan: Plan
    rows: list[Row]
    standings: dict[str, list[Standing]]
    """Of each candidate, on the test rows."""
    expressible: dict[str, float | None]
    """Share of the test label sets that each candidate's head can represent; None: unproven."""
    best: str
    recommendation: str
    out: Path
    failed: dict[str, str] = field(default_factory=dict)
    """Candidates that could not be fitted, or were left out, and why; they have no standings."""
    tasks: Sequence[Task] = ()
    """The models that there are."""
    valid: Mapping[str, Sequence[Standing]] = field(default_factory=dict)
    """As `standings`, on the rows that chose: validation rows, or all by out-of-fold scores."""
    search: dict[str, Any] | None = None
    """Of a search: how choices were made (`sentence`), the nested test of the `blend`, what was
    `left_out` and `not_tried`, and the `costs` of each candidate: those of COSTS."""

    def __repr__(self) -> str:
        return self.table()

    def table(self) -> str:
        """The answer in words: a line for each candidate, what is missing and why, what to use."""
        rows, mark = table_rows(self), None
        if width() is not None:  # on a terminal the recommended row stands out, in any colour
            mark = next(at for at, row in enumerate(rows) if row[0] == self.best)
            rows = [["> " * (at == mark) or "  ", *row] for at, row in enumerate(rows)]
            rows = [[lead + key, *rest] for lead, key, *rest in rows]
        lines = [
            table(rows, heads=2, marked=mark),
            "",
            *(["> recommended."] if mark is not None else []),
            "+ better, - worse than the baseline: the 95% interval of the difference excludes 0.",
            "raw: own link, threshold 0.5; tuned, calibrated: fitted on validation rows.",
            *(f"{key} failed, {why}" for key, why in self.failed.items()),
        ]
        if self.search is not None and self.search["left_out"]:
            left_out = ", ".join(self.search["left_out"])
            lines.append(
                f"left out after a trial on some rows: {left_out}; up to {MANY} that --losses "
                "names are fitted, however it ends"
            )
        lines += ["", self.recommendation]
        if self.search is not None and self.search.get("not_tried"):
            lines.append(self.search["not_tried"])
        return "\n".join([lines[0], *map(wrapped, lines[1:])])

    def headline(self) -> str:
        return self.recommendation

    def records(self) -> list[dict[str, Any]]:
        """A line for each candidate, the best first: its metrics, as in the table, and its cost."""
        costs = {} if self.search is None else self.search["costs"]
        lines = []
        for key, by in ranked(self):
            line = {"candidate": key, "recommended": key == self.best}
            for stage, metric in shown_metrics(self.plan.optimise):
                one = by[stage, metric]
                line |= {metric: one.mean, f"{metric} against {self.plan.base}": one.verdict}
            line["representable"] = self.expressible[key]
            lines.append(line | dict(zip(COSTS, costs.get(key, ()), strict=False)))
        return lines

    def panels(self) -> list[Panel]:
        """Differences from the baseline, by the metric that chooses, with their intervals."""
        metric = self.plan.optimise
        rows = [
            (key, one.delta, one.low, one.high, one.verdict)
            for key, held in self.standings.items()
            if key != self.plan.base and math.isfinite((one := standing(held, metric)).delta)
        ]
        title = f"{metric}: difference from {self.plan.base}, test rows"
        return [differences(rows, title, f"difference in {metric}")] if rows else []

    @cached_property
    def best_model(self) -> SavedModel:
        """The recommended model, ready for use: `best_model.predict(rows)`."""
        return SavedModel.open(self.out / BEST)

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
        with reading(path):
            held = opened(path)
        if "texts" in held:
            return {"texts": held["texts"].tolist()}
        return {"images": torch.from_numpy(held["images"])}

    def reasons(self) -> dict[str, Any]:
        """Why test rows worth a look have their labels by the recommended model, and the largest
        weights of labels; nothing where none were kept."""
        path = self.out / REASONS
        return without_sum(path) if path.is_file() else {"rows": {}, "weights": {}}

    def data_card(self) -> dict[str, Any]:
        """What `labelset data inspect` finds, and how often each label is on in training rows;
        nothing where it was not kept."""
        path = self.out / CARD
        return without_sum(path) if path.is_file() else {}

    def described(self, key: str) -> str:
        """A candidate in words."""
        return described(key, self.tasks, {} if self.search is None else self.search["blend"])

    def run(self, key: str, seed: int = 0) -> SavedModel:
        """A trained model of a candidate; that of the first seed has calibrator and rule."""
        task = next(t for t in self.tasks if (t.key, t.seed) == (key, seed))
        return SavedModel.open(self.out / task.folder)


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
    searched = parallel == "models" and suits(dataset, plan)
    jobs = jobs or default_jobs()
    if plan.finetune and not searched:
        raise ValueError(
            "networks are fine-tuned as candidates of a search, in one process, of rows in memory, "
            "with losses trained in one stage: leave out --seeds, pseudo/ losses, torchrun, and an "
            "--encoder that is trained itself"
        )
    if not searched and plan.label_texts is not None:
        raise ValueError(
            "texts of labels take part where candidates are searched, which are n-grams of texts "
            "or other fixed features in memory: leave them out, or what asks for training by epochs"
        )
    if not searched and plan.seconds is not None:
        each = plan.seconds * min(jobs, len(plan.tasks())) / len(plan.tasks())
        plan = replace(plan, training={**plan.training, "seconds": round(each, 3)})
    dataset = prepared(dataset.in_memory() if searched else dataset, plan, searched)
    with folder_lock(folder) if ranks.first else nullcontext():
        ranks.once(lambda: begin(folder, plan, dataset, resume))
        try:
            if searched:
                shelf = InFolder(folder, plan.optimise)
                left = search(dataset, plan, shelf, progress, save_seconds)
                found = found_by_search(plan, folder, left)
            else:
                from labelset.runs.pool import do_all

                do_all(dataset, plan, folder, jobs, progress, save_seconds, parallel)
                found = judged(plan, folder)
            phase("writing the model and why rows have their labels")
            ranks.once(lambda: _write(found, dataset))
            ranks.once(lambda: share(folder, "encoder*.safetensors"))
        finally:
            if ranks.first:
                sweep(folder)  # what workers were writing when they were ended
                unlock_below(folder)
    return found


def default_jobs() -> int:
    """One model per core that this process may use, or one at a time on a GPU."""
    if torch.cuda.is_available():
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def prepared(dataset: Dataset, plan: Plan, searched: bool = False) -> Dataset:
    """With train and test parts and, unless folds take their place, valid ones; with the labels
    dropped that the plan drops."""
    source = dataset.card.get("source", "the data set")
    if not dataset.n:
        raise ValueError(f"{source}: has no labels; say where they are, such as label_column=...")
    if dataset.features is not None and not math.prod(dataset.features.shape[1:]):
        raise ValueError(f"{source}: its {len(dataset)} rows have no features to learn from")
    folds = searched and plan.missing is None
    dataset = ensure_split(dataset, (0.8, 0.0, 0.2) if folds else (0.7, 0.1, 0.2), seed=0)
    for part in ("train", "test") if folds else ("train", "valid", "test"):
        if not len(dataset.part(part)):
            raise ValueError(
                f"{source}: has no {part} rows: of {len(dataset)} rows, those with the same input "
                "stay together; a split needs at least 3 rows with inputs of their own, or give "
                "valid=FILE and test=FILE, or a split_column"
            )
    if not int(dataset.part("train").labels.counts().sum()):
        raise ValueError(
            f"{source}: no label is positive in the training rows; where are the labels?"
        )
    _can_judge(dataset, plan.optimise, source)
    if plan.missing is not None:
        from labelset.data import drop_train_labels

        dataset = drop_train_labels(dataset, plan.missing, seed=0)
    return dataset


def _can_judge(dataset: Dataset, optimise: str, source: Any) -> None:
    """Whether the labels of the rows that choose, and of those that judge, allow it: said before
    anything is fitted."""
    values = dataset.labels.values
    if values is not None and bool((soft := (values != 1) & ~values.isnan()).any()):
        at = int(soft.nonzero()[0])
        row, label = int(dataset.labels.rows()[at]), int(dataset.labels.indices[at])
        raise ValueError(
            f"{source}: row {row}, label {dataset.names[label]!r} is {float(values[at]):g}, and "
            "candidates are judged by labels that are 0, 1 or unknown; round soft labels, or train "
            "one model on them with labelset train"
        )
    for part in ("valid" if len(dataset.part("valid")) else "train", "test"):
        labels = dataset.part(part).labels
        if labels.values is not None and int(labels.values.isnan().sum()) == math.prod(
            labels.shape
        ):
            raise ValueError(
                f"{source}: no label of the {len(labels)} {part} rows is known, so that they can "
                f"judge nothing; give {part} rows with labels"
            )
        if part != "test" and optimise in PLAIN and not int(labels.counts().sum()):
            raise ValueError(
                f"{source}: no label is positive in the {len(labels)} {part} rows, and {optimise} "
                "is not defined there: give others, or another --optimise, such as f1-micro"
            )


def reopened(folder: Path) -> Comparison:
    """The answer that `compare` has left in a folder."""
    held = json.loads((folder / COMPARED).read_text(encoding="utf-8"))
    plan = Plan(**held["plan"])
    if held["search"] is None:
        return judged(plan, folder)
    return found_by_search(plan, folder, Found.of(folder, held["search"]))


def judged(plan: Plan, folder: Path) -> Comparison:
    """From the models that the loop has trained to the answer."""
    tasks = plan.tasks()
    reasons = {task: failure(folder / task.folder) for task in tasks}
    rows: list[Row] = []
    failed: dict[str, str] = {}
    for task, reason in reasons.items():
        if reason is not None:
            rows.append(Row(task.loss, task.head, task.seed, "train", "failed", reason, math.nan))
            failed.setdefault(task.key, f"seed {task.seed}: {reason}")
    if plan.base in failed:
        raise Diverged(_no_baseline(plan, failed))
    answer = _answer(plan, folder, tasks, failed, rows)
    best = choose(answer.valid, plan.base, plan.optimise)
    sentence = recommend(best, plan.base, answer.standings, plan.optimise)
    return replace(answer, best=best, recommendation=sentence)


def found_by_search(plan: Plan, folder: Path, found: Found) -> Comparison:
    """From the candidates of a search to the answer."""
    if plan.base in found.failed:
        raise Diverged(_no_baseline(plan, found.failed))
    answer = _answer(plan, folder, found.tasks, found.failed, [])
    models = {task.key: SavedModel.open(folder / task.folder) for task in found.tasks}
    values = {
        key: standing(answer.valid[key], plan.optimise).mean
        for key in affordable(models, plan)
        if key in answer.valid
    }
    best = choose_found(values, plan, found.blend)
    sentence = recommend_found(best, answer.standings, plan, found)
    return replace(
        answer,
        best=best,
        recommendation=sentence,
        search={
            "sentence": found.sentence,
            "left_out": found.left_out,
            "not_tried": found.not_tried,
            "blend": found.blend,
            "costs": {
                key: [float(model.about[cost]) for cost in COSTS] for key, model in models.items()
            },
        },
    )


def _answer(
    plan: Plan, folder: Path, tasks: list[Task], failed: dict[str, str], rows: list[Row]
) -> Comparison:
    """Every figure and how candidates stand, before one is chosen."""
    phase("judging the candidates against each other")
    values, able = {}, {}
    for key in dict.fromkeys(task.key for task in tasks):
        own = [task for task in tasks if task.key == key]
        each = {
            t: Judged.load(folder / t.folder / FIGURES)
            for t in own
            if failure(folder / t.folder) is None
        }
        for task, figures in each.items():
            rows += rows_of(task.loss, task.head, task.seed, figures)
        if len(each) == len(own):
            values[key] = over_seeds([*each.values()])
            able[key] = Judgement.load(folder / own[0].folder / JUDGEMENT).expressible
    valid, test = (
        {
            key: standings(own, values[plan.base], key == plan.base, split)
            for key, own in values.items()
        }
        for split in ("valid", "test")
    )
    return Comparison(plan, rows, test, able, "", "", folder, failed, tuple(tasks), valid)


def _no_baseline(plan: Plan, failed: dict[str, str]) -> str:
    why = f"{plan.base} failed, {failed[plan.base]}"
    if len({task.key for task in plan.tasks()}) == 1:
        return why
    return f"{why}; without the baseline nothing can be compared: choose another --baseline"


def _write(found: Comparison, dataset: Dataset) -> None:
    run = found.run(found.best)
    assert run.folder is not None
    verdict = (run.folder / JUDGEMENT).read_bytes()
    run.splits["train"] = Split(dataset.part("train").labels)
    run.save(found.out / BEST)
    write_bytes(found.out / BEST / JUDGEMENT, verdict)
    write_bytes(found.out / REASONS, with_sum(reasons(run, dataset.part("test"))))
    _write_csv(found.out / "results.csv", found.rows)
    write_bytes(found.out / CARD, with_sum(_card(dataset)))
    lines = [
        {"candidate": key, **asdict(standing)}
        for key, held in found.standings.items()
        for standing in held
    ]
    _write_csv(found.out / "summary.csv", lines)
    about = {
        "format": FORMAT,
        "plan": found.plan.as_json(),
        "versions": versions(),
        "best": found.best,
        "failed": found.failed,
        "baseline": found.plan.base,
        "recommendation": found.recommendation,
        "search": found.search,
        "expressible": found.expressible,
        "standings": {key: [s.as_json() for s in held] for key, held in found.standings.items()},
    }
    write_bytes(found.out / COMPARED, json.dumps(about, indent=1).encode())


def _card(dataset: Dataset) -> dict[str, Any]:
    on = dataset.part("train").labels.T.counts()
    return {"inspected": inspect(dataset).as_json(), "trained_on": on.tolist()}


def _write_csv(path: Path, lines: Sequence[Any]) -> None:
    text = io.StringIO(newline="")
    names = list(lines[0]) if isinstance(lines[0], dict) else [f.name for f in fields(lines[0])]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(line if isinstance(line, dict) else asdict(line) for line in lines)
    write_bytes(path, text.getvalue().encode())


def rows_of(loss: str, head: str, seed: int, judged: Judged) -> list[Row]:
    """The lines of one trained model."""
    return [Row(loss, head, seed, *key, value) for key, value in judged.values.items()]


Resamples = Mapping[Key, tuple[Tensor, Tensor]]
"""Values of the seeds (S,), and of each resample (S, times)."""


def over_seeds(each: Sequence[Judged]) -> Resamples:
    """The figures of one candidate's seeds, together."""
    return {
        key: (
            torch.tensor([one.values[key] for one in each], dtype=torch.float64),
            torch.stack([one.drawn[key] for one in each]),
        )
        for key in each[0].values
    }


def standings(
    own: Resamples, base: Resamples, is_base: bool, split: str = "test", seed: int = 0
) -> list[Standing]:
    """A candidate against the baseline on the rows of a split, metric by metric."""
    return [
        _standing(*key[1:], own[key], base[key], is_base, seed) for key in own if key[0] == split
    ]


def _standing(
    stage: str,
    metric: str,
    own: tuple[Tensor, Tensor],
    base: tuple[Tensor, Tensor],
    is_base: bool,
    seed: int,
) -> Standing:
    values, mean = own[0], float(own[0].mean())
    sd = float(values.std()) if len(values) > 1 else math.nan
    about = _interval(own[1], seed)
    if is_base:
        return Standing(stage, metric, mean, sd, 0.0, 0.0, 0.0, "baseline", *about)
    pairs = min(len(values), len(base[0]))  # seeds that both have
    delta = float((values[:pairs] - base[0][:pairs]).mean())
    low, high = _interval(own[1][:pairs] - base[1][:pairs], seed)
    return Standing(stage, metric, mean, sd, delta, low, high, _verdict(metric, low, high), *about)


def _interval(resampled: Tensor, seed: int) -> tuple[float, float]:
    """95%, of (seeds, times) values of resampled rows, seeds drawn again too; NaN where the metric
    is not defined, or infinite, on every resample."""
    seeds, times = resampled.shape
    drawn = (resampled * (draws(seeds, times, seed + 1).T / seeds)).sum(0)
    drawn = drawn[drawn.isfinite()]
    if not len(drawn):
        return math.nan, math.nan
    low, high = torch.quantile(drawn, torch.tensor([0.025, 0.975]).double()).tolist()
    return low, high


def _verdict(metric: str, low: float, high: float) -> str:
    if not (low > 0 or high < 0):
        return "no difference"
    return "better" if (low > 0) == build(metric).higher_is_better else "worse"


def choose(valid: Mapping[str, Sequence[Standing]], baseline: str, optimise: str) -> str:
    """The best of those that are significantly better on validation rows; else the baseline.

    The test rows have no say.
    """
    sign = 1 if build(optimise).higher_is_better else -1
    own = {key: standing(held, optimise) for key, held in valid.items()}
    if math.isnan(own[baseline].mean):
        raise ValueError(f"{optimise} is not defined on the validation rows")
    surely = [key for key, held in own.items() if held.verdict == "better"]
    return max(surely, key=lambda key: sign * own[key].mean, default=baseline)


def recommend_found(
    best: str, test: Mapping[str, Sequence[Standing]], plan: Plan, found: Found
) -> str:
    """The sentence for the answer of a search, with its figures on test rows."""
    own = standing(test[best], plan.optimise)
    how = " after threshold tuning" if own.stage == "tuned" else ""
    figure = f"{plan.optimise} {own.mean:.3f} on the test rows{how}"
    if math.isnan(own.mean):
        figure = f"{plan.optimise} is not defined on the test rows"
    elif best != plan.base:
        figure += f", {own.delta:+.3f} [{own.low:+.3f}, {own.high:+.3f}] against {plan.base}"
    use = described(best, found.tasks, found.blend)
    sentence = f"Use {use}: {figure}; {found.sentence}."
    if best != "blend" and "blend" in test:
        sentence += " A blend was not better than that beyond chance."
    return sentence


def recommend(
    best: str, baseline: str, test: Mapping[str, Sequence[Standing]], optimise: str
) -> str:
    """The sentence for the candidate chosen on validation rows, with its figures on test rows."""
    loss, head = best.rsplit("+", 1)
    own = standing(test[best], optimise)
    how = " after threshold tuning" if own.stage == "tuned" else ""
    figure = f"{optimise} {own.mean:.3f} on the test rows{how}"
    use = f"Use {loss} with a {head} head"
    if best == baseline:
        return f"{use}: no candidate beat it significantly on the validation rows ({figure})."
    against = f"{own.delta:+.3f} [{own.low:+.3f}, {own.high:+.3f}] against {baseline}"
    doubt = "" if own.verdict == "better" else "; this gain is not statistically significant"
    return f"{use}: {figure}, {against}{doubt}{_price(test[best])}."


def standing(held: Sequence[Standing], metric: str) -> Standing:
    """By the metric that decides, at the stage that decides."""
    stage = stage_of(metric)
    return next(s for s in held if (s.stage, s.metric) == (stage, metric))


def _price(standings: Sequence[Standing]) -> str:
    """What gets significantly worse; and where only the raw figures do, that tuning is needed."""
    worse = [s for s in standings if s.verdict == "worse"]
    lasting = [s for s in worse if s.stage != "raw" or s.metric in PLAIN]
    parts = [f"{s.metric} {s.delta:+.3f} ({s.stage})" for s in lasting[:3]]
    if not lasting and worse:
        drop = f"untuned its {worse[0].metric} is {worse[0].mean:.3f}"
        return f"; {drop}: use it with its saved thresholds"
    return (
        f"; significantly worse: {', '.join(parts)}"
        if parts
        else "; nothing measured here gets worse"
    )


MARK = {"better": "+", "worse": "-", "no difference": " ", "baseline": " "}


def table_rows(found: Comparison) -> list[list[str]]:
    """Rows of cells: two of the head, then the candidates by the metric that was asked for."""
    shown = shown_metrics(found.plan.optimise)
    costs = {} if found.search is None else found.search["costs"]
    head = [["candidate"], [""]]
    for stage, name in shown:
        head[0].append(f"{name} ")
        head[1].append(f"{stage} ")
    head[0] += ["representable", *(("fitted in", "a row in", "size") if costs else ())]
    head[1] += [""] * (len(head[0]) - len(head[1]))
    lines = []
    for key, by in ranked(found):
        able = found.expressible[key]
        cells = [_cell(by[stage, metric]) for stage, metric in shown]
        cells.append("-" if able is None else f"{able:.0%}")
        if costs:
            seconds, each, size = costs[key]
            cells += [f"{seconds:.1f} s", f"{each:.2g} ms", f"{size:.2g} MB"]
        lines.append([key, *cells])
    failed = [[key, "failed", *["-"] * (len(head[0]) - 2)] for key in found.failed]
    return [*head, *lines, *failed]


def shown_metrics(optimise: str) -> list[tuple[str, str]]:
    """The columns of the table, the one that chooses first: a stage and a metric."""
    shown = [(stage_of(optimise), optimise), ("tuned", "f1-micro"), ("tuned", "f1-macro")]
    shown += [("raw", name) for name in ("map@class", "map-micro", "auroc@class")]
    return list(dict.fromkeys([*shown, ("calibrated", "ace")]))


def ranked(found: Comparison) -> list[tuple[str, dict[tuple[str, str], Standing]]]:
    """Candidates by the metric that was asked for, with their standings by stage and metric."""
    first = shown_metrics(found.plan.optimise)[0]
    sign = -1 if build(first[1]).higher_is_better else 1
    held = [(key, {(s.stage, s.metric): s for s in own}) for key, own in found.standings.items()]
    means = {key: sign * by[first].mean for key, by in held}
    return sorted(held, key=lambda line: (math.isnan(means[line[0]]), means[line[0]]))


def _cell(standing: Standing) -> str:
    """`-` where the metric is not defined on these rows."""
    mean = "-" if math.isnan(standing.mean) else f"{standing.mean:.3f}"
    return f"{mean}{MARK[standing.verdict]}"
