"""Every rule keeps every law, with several settings."""

import pytest

from labelset.decide import build, names
from labelset.testing.rule_laws import RULE_LAWS, check_rule

SETTINGS = {
    "fixed": [{}, {"threshold": [0.1, 0.5, 0.9, 0.0, 1.0]}],
    "global": [{"metric": f"f1-{a}"} for a in ("micro", "macro", "weighted", "samples")]
    + [{"metric": "hamming"}, {"beta": 2.0}, {"metric": "f1-samples", "beta": 0.5}],
    "per-class": [{"metric": f"f1-{a}"} for a in ("micro", "macro", "weighted")]
    + [{"metric": "hamming"}, {"beta": 0.5}, {"shrink": 3}, {"metric": "f1-micro", "beta": 1.7}],
    "averaging": [{}],
    "top-k": [{"k": 1}, {"k": 3}, {"k": 6}],
    "expected-f1": [{}, {"empty": 1.0}],
    "budget": [
        {"k": k, "metric": f"{m}-macro"} for k in (1, 3) for m in ("f1", "recall", "precision")
    ],
}


def test_every_rule_is_tried():
    assert sorted(SETTINGS) == names()


@pytest.mark.parametrize("law", RULE_LAWS)
@pytest.mark.parametrize(
    ("name", "given"), [(name, given) for name, each in SETTINGS.items() for given in each], ids=str
)
def test_laws(name, given, law):
    check_rule(lambda: build(name, **given), laws=[law])
