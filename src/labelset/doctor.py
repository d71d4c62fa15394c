"""Why does it predict nothing? `diagnose(run)` tells causes apart by figures and names remedies."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import calibrate, decide, losses
from labelset.display import Shown
from labelset.labels import Labels
from labelset.metrics import (
    PositiveRanks,
    build,
    confusion_counts,
    known_counts,
    positive_ranks,
    ratio,
    reliability,
)
from labelset.metrics.counts import f_score
from labelset.metrics.ranking import auroc, average_precision
from labelset.model import Change, Changes, SavedModel, Split
from labelset.proofs import independent, verify
from labelset.terminal import width

__all__ = ["Diagnosis", "Finding", "diagnose"]

SHOWN = 6  # labels named in a sentence
WIDEST = 96  # characters of a line


@dataclass(frozen=True)
class Finding:
    """One cause of trouble."""

    cause: str
    """dead, not-carried, too-few, wrong-link, miscalibrated, threshold, unargmaxable"""
    what: str
    """What is wrong, in a sentence."""
    evidence: str
    remedy: str
    labels: list[str] = field(default_factory=list)
    """The labels concerned; empty where all are."""
    numbers: dict[str, Any] = field(default_factory=dict)
    """The figures behind the evidence."""

    def __str__(self) -> str:
        lines = [f"[{self.cause}] {self.what}"]
        if self.labels:
            more = f" and {len(self.labels) - SHOWN} more" if len(self.labels) > SHOWN else ""
            lines.append(f"labels: {', '.join(self.labels[:SHOWN])}{more}")
        lines += [f"evidence: {self.evidence}", f"remedy: {self.remedy}"]
        return "\n".join(
            textwrap.fill(line, _room(), initial_indent="  " if i else "", subsequent_indent="    ")
            for i, line in enumerate(lines)
        )


@dataclass(frozen=True)
class Diagnosis(Shown):
    """What is the matter with a run, and what to do about it."""

    summary: str
    findings: list[Finding]

    @property
    def causes(self) -> list[str]:
        """The causes found, in order."""
        return [finding.cause for finding in self.findings]

    def headline(self) -> str:
        return self.summary

    def records(self) -> list[dict[str, Any]]:
        """A line for each finding."""
        names = ("cause", "what", "evidence", "remedy", "labels")
        return [{name: getattr(each, name) for name in names} for each in self.findings]

    def as_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {"summary": self.summary, "findings": [asdict(f) for f in self.findings]}

    def __str__(self) -> str:
        body = [str(finding) for finding in self.findings] or ["These checks found no problem."]
        return "\n\n".join([textwrap.fill(self.summary, _room()), *body])


def _room() -> int:
    """Characters of a line."""
    return min(width() or WIDEST, WIDEST)


@dataclass(frozen=True)
class Facts:
    """One number per label."""

    trained: Tensor | None
    """Training rows in which it is on; None where the run holds no training labels."""
    on: Tensor
    """Held-out rows in which it is on."""
    known: Tensor
    """Held-out rows in which it is known."""
    predicted: Tensor
    """Held-out rows for which it is predicted."""
    found: Tensor
    """Those of them in which it is on."""
    f1: Tensor
    ap: Tensor
    """Average precision of its ranking; NaN where it is never on."""
    z: Tensor
    """How many standard errors its ranking is above chance (Mann-Whitney); 0 where undefined."""
    mean: Tensor
    """Mean probability over the rows in which it is known."""

    @property
    def silent(self) -> Tensor:
        """On somewhere, and found nowhere."""
        return (self.on > 0) & (self.found == 0)


def facts(run: SavedModel, part: Split, probabilities: Tensor) -> Facts:
    """The facts of every label, from probabilities of the rows of `part`."""
    assert part.scores is not None
    train = run.splits.get("train")
    counts = confusion_counts(run.predictor.decide(probabilities), part.labels, by_class=True)
    found = positive_ranks(part.scores, part.labels, by_class=True)
    known = known_counts(part.labels, by_class=True)
    mask = part.labels.known()
    total = (probabilities if mask is None else torch.where(mask, probabilities, 0.0)).double()
    return Facts(
        trained=None if train is None else _on(train.labels),
        on=found.on,
        known=known,
        predicted=counts[0] + counts[1],
        found=counts[0],
        f1=f_score(counts, 1.0, 0.0),
        ap=average_precision(found),
        z=_above_chance(found, known),
        mean=ratio(total.sum(0), known),
    )


def found_by(predicted: Labels, labels: Labels) -> Tensor:
    """How many rows in which each label is on are found."""
    return confusion_counts(predicted, labels, by_class=True)[0]


def _on(labels: Labels) -> Tensor:
    on = labels.indices if labels.values is None else labels.indices[labels.values > 0]
    return torch.bincount(on, minlength=labels.n)


def _above_chance(found: PositiveRanks, known: Tensor) -> Tensor:
    """(AUC - 1/2) over its standard error for a ranking at random."""
    on, off = found.on.double(), (known - found.on).double()
    error = ((on + off + 1) / (12 * on * off).clamp(min=1)).sqrt()
    return torch.where((on > 0) & (off > 0), (auroc(found, known) - 0.5) / error, 0.0)


CHANCE = 2.0  # standard errors above chance that show that the scores carry a label
FEW = 5  # rows that are on, below which nothing is concluded from a ranking
GAP = 0.03  # average calibration error that is worth a word
GAIN = 0.02  # gain in macro F1 that is worth a word


def of_labels(run: SavedModel, seen: Facts, changes: Changes) -> list[Finding]:
    """Labels that were never on in training, that scores do not carry, or too rare to judge."""
    found = []
    dead = torch.zeros_like(seen.silent) if seen.trained is None else seen.trained == 0
    if bool(dead.any()):
        found.append(
            Finding(
                "dead",
                f"{int(dead.sum())} labels have no positive in training and cannot be learnt.",
                f"0 training rows have them; {int(seen.on[dead].sum())} held-out rows do.",
                "Collect rows that have them, merge them into broader labels, or leave them out.",
                _named(run, dead),
                {"held_out_on": seen.on[dead].tolist()},
            )
        )
    judged = ~dead & (seen.on >= FEW) & (seen.on < seen.known)
    blind = judged & (seen.z < CHANCE)
    if bool(blind.any()):
        found.append(
            Finding(
                "not-carried",
                f"For {int(blind.sum())} labels the scores are no better than chance.",
                "Their held-out ranking does not differ from chance (Mann-Whitney z below "
                f"{CHANCE:g}); median average precision {_median(seen.ap[blind])} at a share on "
                f"of {_median(seen.on[blind] / seen.known[blind])}.",
                "No threshold helps: the features do not carry them, or training has not "
                "converged. Train longer, use other features, or more rows that have them.",
                _named(run, blind),
                {"z": seen.z[blind].tolist(), "ap": seen.ap[blind].tolist()},
            )
        )
    few = seen.silent & ~dead & (seen.on < FEW)
    if bool(few.any()):
        together = decide.tuned_for(changes.purpose, "global")
        helps = _may_decide(run, together, changes)
        found.append(
            Finding(
                "too-few",
                f"{int(few.sum())} labels are never found, and too rare here to say why.",
                f"Each is positive in fewer than {FEW} held-out rows.",
                "Hold out more rows"
                f"{', or judge them together: labelset decide RUN --rule global' * helps}.",
                _named(run, few),
                {"held_out_on": seen.on[few].tolist()},
            )
        )
    return found


def of_link(run: SavedModel, part: Split, p: Tensor, changes: Changes) -> list[Finding]:
    """Probabilities that are not what the loss makes of the scores."""
    fitted = run.calibrator is not None and run.calibrator.needs_fit
    if fitted:
        return []
    assert part.scores is not None
    now = reliability(p, part.labels).ace()
    if run.loss is not None and run.loss.link_missing() is not None:
        if run.calibrator is not None:
            return []
        return [
            Finding(
                "wrong-link",
                f"The loss {_loss_name(run)!r} fixes no probabilities, and no map was fitted.",
                f"sigmoid(score) was taken instead; its average calibration error is {now:.3f}.",
                _unless_worse(
                    _with_platt(run, part, changes),
                    "Fit a calibrator: labelset calibrate RUN --map platt.",
                ),
                numbers={"ace": now},
            )
        ]
    name, best = _loss_name(run), now
    if run.loss is not None:
        best = reliability(run.loss.link(part.scores), part.labels).ace()
    else:
        for other in ("spa", "focal", "asl"):
            ace = reliability(losses.build(other).link(part.scores), part.labels).ace()
            if ace < best:
                name, best = other, ace
    if now < GAP or best > now / 2:
        return []
    sure = "was trained" if run.loss is not None else "seems to have been trained"
    return [
        Finding(
            "wrong-link",
            f"The scores are read with the wrong link: the model {sure} with {name!r}.",
            f"Average calibration error {now:.3f} as it is, {best:.3f} with the link of {name!r}; "
            f"{_means(p, part)}.",
            _unless_worse(
                changes.to_calibrator(calibrate.build("link", loss=name))[1],
                f"Use the loss's own link: labelset calibrate RUN --map link --loss {name}.",
            ),
            numbers={"ace": now, "ace_with_link": best, "loss": name},
        )
    ]


def of_probabilities(run: SavedModel, part: Split, p: Tensor, changes: Changes) -> list[Finding]:
    """Probabilities that are not true, though the link is right."""
    if not _both_kinds(part):
        return []
    now = reliability(p, part.labels).ace()
    if now < GAP:
        return []
    quality = calibrate.build("platt", loss=run.loss).fit(part.scores, part.labels).quality
    if quality is None or quality.after > now / 2:
        return []
    return [
        Finding(
            "miscalibrated",
            "The probabilities are not calibrated.",
            f"Average calibration error {now:.3f}; after Platt scaling {quality.after:.3f} "
            f"(cross-validated); {_means(p, part)}.",
            _unless_worse(
                _with_platt(run, part, changes),
                "Fit a calibrator on held-out rows: labelset calibrate RUN --map platt.",
            ),
            numbers={"ace": now, "ace_after": quality.after},
        )
    ]


def of_thresholds(
    run: SavedModel, part: Split, p: Tensor, seen: Facts, changes: Changes
) -> list[Finding]:
    """Labels that are ranked well and yet cut off: what other thresholds would find.

    Those for the metric that the run is for are tried first, then those for macro F1; thresholds
    that would do harm are not advised.
    """
    mask = part.labels.known()
    rows = torch.arange(len(part)) if mask is None else mask.any(1).nonzero().flatten()
    if len(rows) < 2 * FEW or not _both_kinds(part):
        return []
    for metric, more in ((changes.purpose, ""), ("f1-macro", " --set metric=f1-macro")):
        rule = decide.tuned_for(metric)
        if not _may_decide(run, rule, changes):
            continue
        before, after, hits = _by_halves(run, rule, part, p, rows)
        cut = seen.silent & (seen.z >= CHANCE) & (hits > 0)
        if after <= before or (not bool(cut.any()) and after - before < GAIN):
            continue
        return [
            Finding(
                "threshold",
                f"The thresholds keep {int(cut.sum())} labels that are ranked well from ever being "
                "predicted."
                if bool(cut.any())
                else "Other thresholds would do better.",
                f"Macro F1 {before:.3f} as it is, {after:.3f} with thresholds ({rule.name}) fitted "
                "on one half of the held-out rows and judged on the other.",
                f"Fit a rule: labelset decide RUN{more}.",
                _named(run, cut),
                {"f1_macro": before, "f1_macro_tuned": after},
            )
        ]
    return []


def _by_halves(
    run: SavedModel, rule: decide.Rule, part: Split, p: Tensor, rows: Tensor
) -> tuple[float, float, Tensor]:
    """Macro F1 as it is and with a rule, and how often this finds each label: every row is judged
    by what the other half of the rows taught."""
    halves, metric = [rows[i::2] for i in (0, 1)], build("f1-macro")
    now, then, hits = [], [], torch.zeros(part.labels.n, dtype=torch.int64)
    for fit_on, judge_on in (halves, halves[::-1]):
        other = rule.fit(p[fit_on], part.labels[fit_on])(p[judge_on])
        truth = part.labels[judge_on]
        now.append(metric(run.predictor.decide(p[judge_on]), truth))
        then.append(metric(other, truth))
        hits += found_by(other, truth)
    return float(np.mean(now)), float(np.mean(then)), hits


def _may_decide(run: SavedModel, rule: decide.Rule, changes: Changes) -> bool:
    """Whether `labelset decide` would take this rule, and it is another than the one in force."""
    if run.predictor.calibrator is None:
        return False  # there are no probabilities yet
    if type(run.rule) is type(rule) and run.rule.settings() == rule.settings():
        return False
    return not changes.to(run.calibrator, rule).falls


def _with_platt(run: SavedModel, part: Split, changes: Changes) -> Change | None:
    """What `labelset calibrate RUN --map platt` changes; None where it cannot be fitted."""
    try:
        platt = calibrate.build("platt", loss=run.loss).fit(part.scores, part.labels, folds=0)
    except ValueError:
        return None
    return changes.to_calibrator(platt)[1]


def _unless_worse(change: Change | None, advice: str) -> str:
    """The advice, unless following it would be refused: then why there is none."""
    if change is None or not change.falls:
        return advice
    return (
        f"Hold out more rows: what these teach would do harm, by cross-validation "
        f"({', '.join(change.falls)})."
    )


def of_head(run: SavedModel, part: Split, seconds: float) -> list[Finding]:
    """Label sets of the held-out rows that the head can never say."""
    if run.head is None or run.head.places:
        return []
    if independent(run.head.matrix()[0].detach().double().cpu().numpy()):
        return []
    proof = verify(run.head, part.labels, seconds=seconds, alone=True)
    never = np.flatnonzero(proof.status == "unargmaxable")
    if not len(never):
        return []
    rows = proof.certificate(int(never[0]))[0]
    blamed = [run.names[i] for i in rows if i < len(run.names)]
    return [
        Finding(
            "unargmaxable",
            f"{len(never)} of {len(proof)} held-out rows have label sets that the head cannot "
            "say, whatever its input.",
            f"Proven for each; row {part.id(int(never[0]))} fails through these labels together.",
            "Use more features than labels that must combine, or a dft head: "
            "labelset.heads.build('dft', ...). Details: labelset verify.",
            blamed,
            {"rows": [part.id(int(i)) for i in never[:100]], "count": len(never)},
        )
    ]


def _means(p: Tensor, part: Split) -> str:
    y = part.labels.dense()
    known = ~y.isnan()
    return f"mean probability {float(p[known].mean()):.3f}, share on {float(y[known].mean()):.3f}"


def _named(run: SavedModel, which: Tensor) -> list[str]:
    return [run.names[i] for i in which.nonzero().flatten().tolist()]


def _median(values: Tensor) -> str:
    return f"{float(values.double().nanmedian()):.3f}"


def _loss_name(run: SavedModel) -> str:
    return "sigmoid" if run.loss is None else losses.catalog.name_of(type(run.loss))


def _both_kinds(part: Split) -> bool:
    y = part.labels.dense()
    return bool((y == 1).any()) and bool((y == 0).any())


def diagnose(
    run: SavedModel, on: str = "valid", seconds: float = 20.0, probabilities: Tensor | None = None
) -> Diagnosis:
    """Look at the held-out rows of a run and say what keeps labels from being predicted.

    `seconds` bounds the proofs about label sets that the head cannot represent; `probabilities`
    are those of the rows, where they are known already.
    """
    part = run.scored(on)
    if not int(part.labels.counts().sum()):
        nothing = "No label is positive in the held-out rows: nothing can be judged by them."
        remedy = "Hold out rows with positive labels, or diagnose another part with --on."
        return Diagnosis(nothing, [Finding("too-few", nothing, f"{len(part)} rows", remedy)])
    p = probabilities
    if p is None:
        p = run.predictor.or_sigmoid().probabilities(part.scores)
    seen = facts(run, part, p)
    changes = Changes(run, on)
    findings = [*of_labels(run, seen, changes), *of_link(run, part, p, changes)]
    if not any(finding.cause == "wrong-link" for finding in findings):
        findings += of_probabilities(run, part, p, changes)
    findings += of_thresholds(run, part, p, seen, changes)
    findings += of_head(run, part, seconds)
    return Diagnosis(_summary(run, part, p, seen), findings)


def _summary(run: SavedModel, part: Split, p: Tensor, seen: Facts) -> str:
    there = int((seen.on > 0).sum())
    silent = int(seen.silent.sum())
    counts, truth = run.predictor.decide(p).counts(), part.labels.counts()
    empty = int(((counts == 0) & (truth > 0)).sum())
    return (
        f"Of {there} labels that are positive in the held-out rows, {there - silent} are found at "
        f"least once and {silent} never. {empty} of the {int((truth > 0).sum())} rows that have "
        f"labels get none; on average {truth.double().mean():.2f} are positive and "
        f"{counts.double().mean():.2f} are predicted."
    )
