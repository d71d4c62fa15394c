"""One sentence: what to use, why, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from labelset.compare._judge import PLAIN, TUNED
from labelset.compare._summary import Standing
from labelset.metrics import build

__all__ = ["choose", "recommend", "stage_of", "standing"]


def stage_of(metric: str) -> str:
    """The stage at which candidates are chosen: F1 after every one's own threshold tuning."""
    return "tuned" if metric in TUNED else "raw"


def choose(valid: Mapping[str, Sequence[Standing]], baseline: str, optimise: str) -> str:
    """The best of those that are surely better on validation rows; else the baseline.

    The test rows have no say.
    """
    sign = 1 if build(optimise).higher_is_better else -1
    own = {key: standing(held, optimise) for key, held in valid.items()}
    if math.isnan(own[baseline].mean):
        raise ValueError(f"{optimise} is not defined on the validation rows")
    surely = [key for key, held in own.items() if held.verdict == "better"]
    return max(surely, key=lambda key: sign * own[key].mean, default=baseline)


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
        return f"{use}: no other candidate is surely better on the validation rows ({figure})."
    against = f"{own.delta:+.3f} [{own.low:+.3f}, {own.high:+.3f}] against {baseline}"
    doubt = "" if own.verdict == "better" else "; there the gain may be chance"
    return f"{use}: {figure}, {against}{doubt}{_price(test[best])}."


def standing(held: Sequence[Standing], metric: str) -> Standing:
    """By the metric that decides, at the stage that decides."""
    stage = stage_of(metric)
    return next(s for s in held if (s.stage, s.metric) == (stage, metric))


def _price(standings: Sequence[Standing]) -> str:
    """What gets surely worse; and where only the raw figures do, that tuning is needed."""
    worse = [s for s in standings if s.verdict == "worse"]
    lasting = [s for s in worse if s.stage != "raw" or s.metric in PLAIN]
    parts = [f"{s.metric} {s.delta:+.3f} ({s.stage})" for s in lasting[:3]]
    if not lasting and worse:
        parts = [f"without its map and thresholds {worse[0].metric} is {worse[0].delta:+.3f}"]
    return f"; the price: {', '.join(parts)}" if parts else "; nothing measured here gets worse"
