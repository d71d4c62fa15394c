"""The answer of a comparison and how it was found, for somebody who has heard of none of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from labelset.decide import TUNED
from labelset.metrics import build
from labelset.runs import SEEDS, Comparison, Standing, stage_of

Point = tuple[str, str]
"""What it is about, and what is to be said of it."""

FAMILIES = {
    "frequency": "the same answer for every row: how often each label is positive in the training "
    "rows. What is not better than this has learnt nothing",
    "kernel-ridge": "a row gets the labels of training rows that are like it (kernel ridge)",
    "extra-trees": "many decision trees with random splits, whose answers are averaged",
    "mlp": "a small neural network with one hidden layer",
    "linear": "one weight per feature and label",
    "label-names": "one weight per feature and label; the weights start from the words in the "
    "label's name, which helps labels with few examples",
    "dft": "a linear output layer that can produce every combination of up to k labels",
    "conv": "a small convolutional network on pictures",
    "text": "a small network on pieces of words, trained from scratch",
    "transformer": "a pretrained language network, trained further on these texts",
    "vision": "a pretrained picture network, trained further on these pictures",
    "distilled": "one small network that was taught to give the blend's answers, so that it is "
    "cheaper to use",
}


def figure(value: float) -> str:
    """Three digits, as everywhere on the page."""
    return "not defined" if math.isnan(value) else f"{value:.3f}"


def interval(low: float, high: float, sign: str = "") -> str:
    """From its low to its high end, in words."""
    return f"95% interval {low:{sign}.3f} to {high:{sign}.3f}"


def compared(found: Comparison) -> bool:
    """Whether there is more than one candidate, or was to be."""
    return len(found.standings) + len(found.failed) > 1


def headline(found: Comparison) -> str:
    """What is recommended, and how good it is with its interval."""
    own = _standing(found, found.best)
    value = f"{own.metric} {figure(own.mean)}"
    if not math.isnan(own.mean_low):
        value += f" ({interval(own.mean_low, own.mean_high)})"
    if compared(found):
        return f"Use {found.described(found.best)}: {value}."
    return f"{found.best} reaches {value} on rows it has not seen."


def because(found: Comparison) -> list[Point]:
    """Why that one, against whom, and what to mind."""
    points = []
    if compared(found):
        points = [("Why this one", _why(found)), ("Against the baseline", _against(found))]
    if (ahead := _ahead(found)) is not None:
        points.append(("Another tops the test rows", ahead))
    if (tuned := _tuned(found)) is not None:
        points.append(("Use it with its saved thresholds", tuned))
    return points


def _standing(
    found: Comparison, key: str, stage: str | None = None, split: str = "test"
) -> Standing:
    metric = found.plan.optimise
    held = found.valid[key] if split == "valid" else found.standings[key]
    return next(s for s in held if (s.metric, s.stage) == (metric, stage or stage_of(metric)))


def _why(found: Comparison) -> str:
    metric, best = found.plan.optimise, found.best
    own = _standing(found, best, split="valid").mean
    if found.search is None:
        if best == found.plan.base:
            return (
                f"No other candidate had a significantly better {metric} on the validation rows, "
                "so that the baseline stays"
            )
        return (
            f"Of those that were significantly better than {found.plan.base} on the validation "
            f"rows, which choose, it had the best {metric}: {figure(own)}"
        )
    others = {key: _standing(found, key, split="valid").mean for key in found.valid if key != best}
    others = {key: value for key, value in others.items() if not math.isnan(value)}
    best_of = "Of the single models it" if best != "blend" and "blend" in others else "It"
    said = f"{best_of} had the best {metric}, {own:.4f}, on the rows that choose"
    if found.plan.max_ms is not None or found.plan.max_mb is not None:
        said += ", of those within the bounds that were given"
    if rivals := [key for key in others if key != "blend"]:
        sign = 1 if build(metric).higher_is_better else -1
        rival = max(rivals, key=lambda key: sign * others[key])
        said += f"; next came {rival} with {others[rival]:.4f}"
    test = found.search["blend"]
    if not test:
        return said
    ends = f"{test['difference']:+.4f} ({interval(test['low'], test['high'], '+')})"
    if best == "blend":
        return f"{said}. It is better than its best member beyond chance: {ends} in a nested test"
    if found.plan.single and test["passes"]:
        return f"{said}. A blend of several was better, {ends}, but one model was asked for"
    return f"{said}. A blend of several was not better than that beyond chance: {ends}"


def _against(found: Comparison) -> str:
    own, base = _standing(found, found.best), found.plan.base
    if found.best == base:
        return "It is the baseline itself, which the others are compared with"
    if math.isnan(own.low):
        return f"The difference from {base} has no interval here"
    words = {
        "better": "better beyond chance",
        "worse": "worse beyond chance",
        "no difference": "not statistically significant",
    }
    said = (
        f"{own.delta:+.3f} over {base}, which has {figure(_standing(found, base).mean)} "
        f"({interval(own.low, own.high, '+')}): {words[own.verdict]}"
    )
    worse = [s for s in found.standings[found.best] if s.verdict == "worse" and s.stage != "raw"]
    if worse:
        some = ", ".join(f"{s.metric} {s.delta:+.3f} ({s.stage})" for s in worse[:3])
        said += f". Significantly worse: {some}"
    return said


def _ahead(found: Comparison) -> str | None:
    metric = found.plan.optimise
    sign = 1 if build(metric).higher_is_better else -1
    test = {key: _standing(found, key).mean for key in found.standings}
    able = [key for key in test if not math.isnan(test[key])]
    if not able or found.best not in able:
        return None
    top = max(able, key=lambda key: sign * test[key])
    if sign * test[top] <= sign * test[found.best]:
        return None
    return (
        f"There {top} has {figure(test[top])}. The choice was made on other rows, and stays: "
        "whoever chooses by the test rows gets a figure that new rows will not keep"
    )


def _tuned(found: Comparison) -> str | None:
    metric = found.plan.optimise
    if metric not in TUNED:
        return None
    raw, own = _standing(found, found.best, "raw").mean, _standing(found, found.best).mean
    if math.isnan(raw) or raw >= own - 5e-4:
        return None
    return f"With 0.5 for every label its {metric} is {figure(raw)} instead of {figure(own)}"


def candidate_words(key: str, head: str, loss: str) -> str:
    """What a candidate is; nothing where its name is an estimator's own."""
    if key == "blend":
        return "a weighted mean of the probabilities of several candidates"
    said = FAMILIES.get(head.partition(":")[0], "")
    return f"{said}; trained with the loss {loss}" if said and loss else said


def how(found: Comparison) -> list[Point]:
    """The way from rows to the answer, a step at a time."""
    return [*_rows(found), *_steps(found)]


def _rows(found: Comparison) -> Iterator[Point]:
    searched = found.search is not None
    folded = searched and "folds" in str(found.search and found.search["sentence"])
    if folded:
        assert found.search is not None
        sentence = found.search["sentence"].removeprefix("chosen by ")
        yield (
            "Training rows and folds",
            "The training rows are dealt into equal parts, the folds. Every candidate is fitted "
            "several times, each time without one fold, and scores the fold it has not seen: "
            f"these models are its members. So there are {sentence}. The model that is kept "
            "uses all training rows, or averages its members",
        )
    else:
        yield (
            "Training and validation rows",
            "Candidates learn from the training rows. Validation rows, which they do not learn "
            "from, choose among them and set thresholds"
            + (
                "; the model that is kept has learnt from both"
                if searched
                else f". Each is trained {found.plan.seeds or SEEDS} times from different random "
                "starts (seeds)"
                if (found.plan.seeds or SEEDS) > 1
                else ""
            ),
        )
    yield (
        "Test rows",
        "Set aside from the start; they choose nothing. The figures on this page are of them, and "
        "so tell what to expect of new rows",
    )


def _steps(found: Comparison) -> Iterator[Point]:
    if compared(found):
        yield (
            "Candidates and rivals",
            f"A candidate is one way to learn. All compete on the same rows. {found.plan.base} is "
            "the baseline: an ordinary choice, which the differences are measured from. The rival "
            "of a candidate is the next best one",
        )
    if found.search is not None and found.search["blend"]:
        weights = sorted(found.search["blend"]["weights"].items(), key=lambda item: -item[1])
        parts = ", ".join(f"{name} ({weight:.0%})" for name, weight in weights)
        yield (
            "Blend",
            "A weighted mean of the probabilities of several candidates. It is recommended only "
            "where it beats the best single one in a nested test: both are chosen on some of the "
            f"rows, and judged on the others, in turn. Here it is {parts}",
        )
    yield (
        "Raw, tuned, calibrated",
        "Raw: the model's own probabilities, a label is predicted from 0.5 on. Tuned: thresholds "
        "set on validation rows (or rows not seen) for that very metric. Calibrated: probabilities "
        "mended so that, of all entries given 0.7, about 70% are on",
    )
    yield (
        "95% interval, significant",
        "How far a figure moves when the test rows are drawn again, 200 times. A difference whose "
        "interval leaves out 0 is called significant; any other may be chance",
    )


def notes(found: Comparison) -> Sequence[str]:
    """What else a reader must know to read the figures aright."""
    failed = [f"{key} failed and is not shown: {why}." for key, why in found.failed.items()]
    if found.search is not None:
        return [
            "Each tuned figure of the table is by thresholds tuned for that very metric.",
            *failed,
            *(f"{key} is not shown: {why}." for key, why in found.search["left_out"].items()),
            *filter(None, [found.search.get("not_tried")]),
        ]
    seeds = found.plan.seeds or SEEDS
    over = f"means over {seeds} seeds" if seeds > 1 else "of one seed"
    first = "the model of the first seed" if seeds > 1 else "that model"
    return [
        f"The figures of the table are {over}, and each tuned one is by thresholds tuned for that "
        f"very metric. Below, {first} is shown as it would be used, with the one calibrator and "
        f"rule fitted for {found.plan.optimise}, and other metrics may differ from the table's.",
        *failed,
    ]
