"""The laws of rules. Each is a function that makes a fresh rule and raises `LawBroken`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor

from labelset.decide import Rule
from labelset.labels import Labels
from labelset.learned import NotFitted
from labelset.testing.cases import hold, hold_to, near

Make = Callable[[], Rule]

WORKED: dict[str, tuple[dict[str, Any], ...]] = {
    "fixed": (
        {"settings": {"threshold": 0.3}, "given": [[0.2, 0.3, 0.4]], "sets": [[0, 1, 1]]},
        {"settings": {"threshold": [0.5, 0.2]}, "given": [[0.5, 0.1]], "sets": [[1, 0]]},
    ),
    "global": (  # three on give F1 4/5, two 1/2, one 2/3: midway between 0.4 and 0.1
        {
            "fit": ([[0.9, 0.4], [0.6, 0.1]], [[1, 1], [0, 0]]),
            "given": [[0.26, 0.24]],
            "sets": [[1, 0]],
        },
    ),
    "per-class": (  # midway between 0.9 and 0.6, and between 0.2 and 0.1
        {
            "fit": ([[0.9, 0.3], [0.6, 0.2], [0.4, 0.1]], [[1, 1], [0, 1], [0, 0]]),
            "given": [[0.76, 0.14], [0.74, 0.16]],
            "sets": [[1, 0], [0, 1]],
        },
    ),
    "averaging": (  # 0.6 is best for the first row, 0.8 for the second
        {
            "fit": ([[0.9, 0.6, 0.2], [0.8, 0.3, 0.1]], [[1, 1, 0], [1, 0, 0]]),
            "given": [[0.72, 0.68, 0.1]],
            "sets": [[1, 0, 0]],
        },
    ),
    "top-k": ({"settings": {"k": 2}, "given": [[0.1, 0.7, 0.1, 0.2]], "sets": [[0, 1, 0, 1]]},),
    "expected-f1": (  # one 5/12, both 7/12; one 0.87, both 0.64; one 0.3, none 0
        {"given": [[0.5, 0.5], [0.9, 0.1], [0.3, 0.0]], "sets": [[1, 1], [1, 0], [1, 0]]},
    ),
    "budget": (  # recalls 0.8 / 1.7 and 0.3 / 0.4; the other way round 0.9 / 1.7 and 0.1 / 0.4
        {
            "settings": {"k": 1, "metric": "recall-macro"},
            "given": [[0.9, 0.3], [0.8, 0.1]],
            "sets": [[0, 1], [1, 0]],
        },
    ),
}
"""Cases worked by hand of the rules of the catalogue, by name; see `Rule.worked`."""


def _case(rule: Rule, seed: int, rows: int = 40, unknown: bool = False) -> tuple[Tensor, Tensor]:
    """Probabilities, ties and 0 and 1 among them, exact in float32; labels that they foretell."""
    g = torch.Generator().manual_seed(seed)
    p = torch.rand(rows, rule.width or 6, generator=g) ** 2
    coarse = torch.rand(p.shape, generator=g) < 0.4
    p = torch.where(coarse, (p * 8).round() / 8, p).double()
    y = (torch.rand(p.shape, generator=g) < p).double()
    if unknown:
        y[torch.rand(p.shape, generator=g) < 0.2] = torch.nan
    return p, y


def _ready(make: Make, seed: int = 0) -> Iterator[Rule]:
    """The rule as it is, where it can be used so, and fitted."""
    if not make().needs_fit:
        yield make()
    for unknown in (False, True):
        rule = make()
        yield rule.fit(*_case(rule, seed, unknown=unknown))


def shape(make: Make) -> None:
    """It returns Labels of the right shape, each on or off; no row or one row will do."""
    for rule in _ready(make):
        for rows in (0, 1, 7):
            p, _ = _case(rule, 1, rows)
            got = rule(p)
            hold(isinstance(got, Labels), f"returns {type(got).__name__}, not Labels")
            hold(got.shape == tuple(p.shape), f"returns {got.shape} for {tuple(p.shape)}")
            hold(got.values is None, "returns soft or unknown labels")
            hold(got == Labels.from_dense(got.dense()), "the labels are not in order")


def deterministic(make: Make) -> None:
    """The same input gives the same rule and the same decisions, and is left as it was."""
    for rule, other in zip(_ready(make), _ready(make), strict=True):
        p, y = _case(rule, 2)
        kept, labels = p.clone(), y.clone()
        hold(rule.as_json() == other.as_json(), "two fits to the same data differ")
        hold(rule(p) == rule(p), "the same probabilities are decided differently")
        make().fit(p, y)
        hold(torch.equal(p, kept) and torch.equal(y, labels), "the input was changed")


def rows(make: Make) -> None:
    """The order of rows does not matter, nor, for rules that say so, which others there are."""
    turn = torch.arange(39, -1, -1)
    for rule in _ready(make):
        p, y = _case(rule, 3)
        if rule.row_by_row:
            want = rule(p)
            hold(rule(p[turn]) == want[turn], "decisions depend on the order of the rows")
            alone = Labels.stack([rule(row[None]) for row in p])
            hold(alone == want, "a row is decided differently when alone")
        if rule.needs_fit:
            same = make().fit(p, y).as_json() == make().fit(p[turn], y[turn]).as_json()
            hold(same, "what is learnt depends on the order of the rows")


def monotone(make: Make) -> None:
    """Raising one probability never turns that label off, for rules that say so."""
    for rule in _ready(make):
        p, _ = _case(rule, 4)
        before = rule(p).dense()
        for label in range(p.shape[1] if rule.monotone else 0):
            for step in (0.01, 0.3, 1.0):
                q = p.clone()
                q[:, label] += step * (1 - p[:, label])
                after = rule(q).dense()
                fell = bool((after[:, label] < before[:, label]).any())
                hold(not fell, f"a label is turned off as its probability rises by {step:g}")


def unknown(make: Make) -> None:
    """Unknown labels teach nothing, whatever their probabilities, NaN included."""
    rule = make()
    p, y = _case(rule, 5, unknown=True)
    want = rule.fit(p, y).as_json()
    free = y.isnan()
    for junk in (torch.nan, 7.0, 1.0):
        got = make().fit(p.masked_fill(free, junk), y).as_json()
        hold(got == want, f"what is learnt depends on unknown labels: {junk} instead of p")
    more = torch.cat([p, torch.full_like(p, 0.9)]), torch.cat([y, torch.full_like(y, torch.nan)])
    hold(make().fit(*more).as_json() == want, "rows of which nothing is known teach something")


def round_trip(make: Make) -> None:
    """JSON carries all there is, exactly."""
    for rule in _ready(make):
        p, _ = _case(rule, 6)
        text = json.dumps(rule.as_json(), allow_nan=False)
        other = type(rule).from_json(json.loads(text))
        hold(json.dumps(other.as_json()) == text, "JSON does not come back as it was")
        same = {name: torch.equal(t, other.learnt[name]) for name, t in rule.learnt.items()}
        hold(all(same.values()), f"what was learnt does not come back exactly: {same}")
        hold(other(p) == rule(p), "a rule that was saved decides differently")
        hold(rule.as_json().get("name") == rule.name, "the saved rule does not state its name")


def not_fitted(make: Make) -> None:
    """A rule with something to learn raises NotFitted before `fit`, others work; fit returns it."""
    rule = make()
    p, y = _case(rule, 7)
    try:
        rule(p)
        early = True
    except NotFitted:
        early = False
    wanted = "raise NotFitted" if rule.needs_fit else "need no fit"
    hold(early != rule.needs_fit, f"it should {wanted} before fit")
    hold(rule.fit(p, y) is rule, "fit does not return the rule itself")
    rule(p)


def precision(make: Make) -> None:
    """The dtype of the probabilities changes nothing, in `fit` or after."""
    rule = make()
    p, y = _case(rule, 8)
    rule.fit(p, y)
    hold(make().fit(p.float(), y).as_json() == rule.as_json(), "fit differs in float32")
    hold(rule(p.float()) == rule(p), "decisions differ in float32")
    for dtype in (torch.bfloat16, torch.float16):
        low = p.to(dtype)
        hold(rule(low) == rule(low.double()), f"decisions differ in {dtype}")


def optimal(make: Make) -> None:
    """Nothing is better than what claims to be optimal: no one threshold for all labels, nor,
    where there is one for each, another for one of them."""
    rule: Any = make()
    if not rule.optimal:
        return
    for seed in range(4):
        p, y = _case(rule, 9 + seed, rows=20, unknown=seed > 1)
        reached = rule.fit(p, y).objective(p, y)
        for what, t in _other_thresholds(rule, p):
            value = rule.score(Labels.from_dense(p >= t), y)
            hold(value <= reached + 1e-12, f"reaches {reached}, the threshold {what} {value}")


def _other_thresholds(rule: Any, p: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Every cut: of all entries together, and of one label while the others stay. 2: nothing."""
    for t in [*sorted(set(p.flatten().tolist())), 2.0]:
        yield f"{t:g} for all", torch.tensor(t, dtype=p.dtype)
    each = getattr(rule, "thresholds", torch.zeros(()))
    for label in range(p.shape[1] if each.ndim else 0):
        for t in [*sorted(set(p[:, label].tolist())), 2.0]:
            moved = each.clone()
            moved[label] = t
            yield f"{t:g} for label {label}", moved


def expectation(make: Make) -> None:
    """A rule that states `expected`, the expected F1 of what it decides, labels being independent,
    is right about it, and none of all label sets has more. `empty`: F1 of nothing for nothing."""
    rule: Any = next(_ready(make))
    p, _ = _case(rule, 14)
    if not hasattr(rule, "expected") or p.shape[1] > 6:
        return
    every = torch.tensor(list(product((0.0, 1.0), repeat=p.shape[1])), dtype=p.dtype)
    chance = torch.where(every[None] == 1, p[:, None], 1 - p[:, None]).prod(-1)
    size = every.sum(1)
    f1 = 2 * every @ every.T / (size[:, None] + size).clamp(min=1)
    f1[0, 0] = getattr(rule, "empty", 0.0)
    value = chance @ f1
    chosen = (rule(p).dense(p.dtype)[:, None] == every).all(-1)
    reached = value[chosen]
    hold((reached >= value.amax(1) - 1e-9).all(), "another label set has a larger expected F1")
    near(rule.expected(p), reached, "the expected F1 that is stated is another", 1e-9, 1e-11)


def worked(make: Make) -> None:
    """Cases worked by hand come out so: those that the class states, or the catalogue's."""
    kind = type(make())
    for case in kind.worked or WORKED.get(getattr(kind, "name", ""), ()):
        rule = kind(**case.get("settings", {}))
        if "fit" in case:
            rule.fit(*case["fit"])
        got = rule(case["given"]).dense().int().tolist()
        hold(got == case["sets"], f"{case['given']} gives {got}, by hand {case['sets']}")


def refuses(make: Make) -> None:
    """NaN, numbers outside [0, 1], labels of another shape and soft labels are errors."""
    for rule in _ready(make):
        p, y = _case(rule, 13)
        for bad in (torch.nan, -0.1, 1.1):
            q = p.clone()
            q[1, -1] = bad
            _refused(f"a probability of {bad}", rule, q)
            _refused(f"a probability of {bad} in fit", make().fit, q, y)
        _refused("labels of another shape", make().fit, p, y[:-1])
        _refused("soft labels", make().fit, p, 0.5 * y)


def _refused(what: str, call: Callable[..., object], *given: Tensor) -> None:
    try:
        call(*given)
    except (ValueError, TypeError):
        return
    hold(False, f"accepts {what}")


RULE_LAWS: dict[str, Callable[[Make], None]] = {
    law.__name__: law
    for law in (
        *(shape, deterministic, rows, monotone, unknown, round_trip, not_fitted, precision),
        *(optimal, expectation, worked, refuses),
    )
}


def check_rule(make: Make, laws: Iterable[str] | None = None) -> None:
    """Hold a rule to the laws; `make` makes a fresh one, such as `lambda: build("top-k", k=2)`.

    It is tried on 6 labels, or on `rule.width` of them where that is a number.

    >>> from labelset.decide import build
    >>> check_rule(lambda: build("global"))
    """
    hold_to(RULE_LAWS, laws, make, "the rule")
