"""The causes: each function looks for some and gives findings with evidence and remedy."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from labelset import calibrate, decide, losses
from labelset.artefact import Part, Run
from labelset.doctor._facts import Facts, found_by
from labelset.doctor._findings import Finding
from labelset.metrics import build, reliability
from labelset.proofs import verify
from labelset.proofs._independent import independent

__all__ = ["of_head", "of_labels", "of_link", "of_probabilities", "of_thresholds"]

CHANCE = 2.0  # standard errors above chance that show that the scores carry a label
FEW = 5  # rows that are on, below which nothing is concluded from a ranking
GAP = 0.03  # average calibration error that is worth a word
GAIN = 0.02  # gain in macro F1 that is worth a word


def of_labels(run: Run, seen: Facts) -> list[Finding]:
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
                f"The scores of {int(blind.sum())} labels say nothing about them.",
                "Their held-out ranking is no better than chance (Mann-Whitney z below "
                f"{CHANCE:g}); median average precision {_median(seen.ap[blind])} at a share on "
                f"of {_median(seen.on[blind] / seen.known[blind])}.",
                "No threshold helps: the features do not carry them, or training has not got "
                "there. Train longer, use other features, or more rows that have them.",
                _named(run, blind),
                {"z": seen.z[blind].tolist(), "ap": seen.ap[blind].tolist()},
            )
        )
    few = seen.silent & ~dead & (seen.on < FEW)
    if bool(few.any()):
        found.append(
            Finding(
                "too-few",
                f"{int(few.sum())} labels are never found, and too rare here to say why.",
                f"Each is on in fewer than {FEW} held-out rows.",
                "Hold out more rows, or judge them together with `--rule global`.",
                _named(run, few),
                {"held_out_on": seen.on[few].tolist()},
            )
        )
    return found


def of_link(run: Run, part: Part, p: Tensor) -> list[Finding]:
    """Probabilities that are not what the loss makes of the scores."""
    fitted = run.map is not None and run.map.needs_fit
    if fitted:
        return []
    assert part.scores is not None
    now = reliability(p, part.labels).ace()
    if run.loss is not None and run.loss.link_missing() is not None:
        if run.map is not None:
            return []
        return [
            Finding(
                "wrong-link",
                f"The loss {_loss_name(run)!r} fixes no probabilities, and no map was fitted.",
                f"sigmoid(score) was taken instead; its average calibration error is {now:.3f}.",
                "Fit a map: labelset calibrate RUN --map platt.",
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
            f"Use the loss's own link: labelset calibrate RUN --map link --loss {name}.",
            numbers={"ace": now, "ace_with_link": best, "loss": name},
        )
    ]


def of_probabilities(run: Run, part: Part, p: Tensor) -> list[Finding]:
    """Probabilities that are not true, though the link is right."""
    if not _both_kinds(part):
        return []
    quality = calibrate.build("platt", loss=run.loss).fit(part.scores, part.labels).quality
    now = reliability(p, part.labels).ace()
    if quality is None or now < GAP or quality.after > now / 2:
        return []
    return [
        Finding(
            "miscalibrated",
            "The probabilities are not true.",
            f"Average calibration error {now:.3f}; after Platt scaling {quality.after:.3f} "
            f"(cross-validated); {_means(p, part)}.",
            "Fit a map on held-out rows: labelset calibrate RUN --map platt.",
            numbers={"ace": now, "ace_after": quality.after},
        )
    ]


def of_thresholds(run: Run, part: Part, p: Tensor, seen: Facts) -> list[Finding]:
    """Labels that are ranked well and yet cut off: what other thresholds would find."""
    mask = part.labels.known()
    rows = torch.arange(len(part)) if mask is None else mask.any(1).nonzero().flatten()
    if len(rows) < 2 * FEW or not _both_kinds(part):
        return []
    ranked = seen.z >= CHANCE
    halves = [rows[i::2] for i in (0, 1)]
    metric = build("f1-macro")
    now, then, hits = [], [], torch.zeros(part.labels.n, dtype=torch.int64)
    for fit_on, judge_on in (halves, halves[::-1]):
        rule = decide.build("per-class").fit(p[fit_on], part.labels[fit_on])
        truth, other = part.labels[judge_on], rule(p[judge_on])
        now.append(metric(run.decide(p[judge_on]), truth))
        then.append(metric(other, truth))
        hits += found_by(other, truth)
    before, after = float(np.mean(now)), float(np.mean(then))
    cut = seen.silent & ranked & (hits > 0)
    if not bool(cut.any()) and after - before < GAIN:
        return []
    return [
        Finding(
            "threshold",
            f"The thresholds keep {int(cut.sum())} labels that are ranked well from ever being "
            "predicted."
            if bool(cut.any())
            else "Other thresholds would do better.",
            f"Macro F1 {before:.3f} as it is, {after:.3f} with thresholds per class fitted on one "
            "half of the held-out rows and judged on the other.",
            "Fit a rule: labelset decide RUN --rule per-class.",
            _named(run, cut),
            {"f1_macro": before, "f1_macro_tuned": after},
        )
    ]


def of_head(run: Run, part: Part, seconds: float) -> list[Finding]:
    """Label sets of the held-out rows that the head can never say."""
    if run.head is None or independent(run.head.matrix()[0].detach().double().cpu().numpy()):
        return []
    proof = verify(run.head, part.labels, seconds=seconds)
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


def _means(p: Tensor, part: Part) -> str:
    y = part.labels.dense()
    known = ~y.isnan()
    return f"mean probability {float(p[known].mean()):.3f}, share on {float(y[known].mean()):.3f}"


def _named(run: Run, which: Tensor) -> list[str]:
    return [run.names[i] for i in which.nonzero().flatten().tolist()]


def _median(values: Tensor) -> str:
    return f"{float(values.double().nanmedian()):.3f}"


def _loss_name(run: Run) -> str:
    return "sigmoid" if run.loss is None else losses.catalog.name_of(type(run.loss))


def _both_kinds(part: Part) -> bool:
    y = part.labels.dense()
    return bool((y == 1).any()) and bool((y == 0).any())
