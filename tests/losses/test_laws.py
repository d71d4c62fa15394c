"""Every law over every loss of the catalogue, with each of its example settings."""

import pytest

from labelset import losses
from labelset.testing import LOSS_LAWS, check_loss

# left to `make test-all`: compiling, which takes seconds, but for a loss of each kind; and what
# takes tenths of a second for other settings than the first
COMPILED = ("asl", "two-way")
COSTLY = ("compiled", "gradient", "precision", "implementations")
CASES = [
    pytest.param(name, example, law, id=f"{name}-{i}-{law}", marks=marks)
    for name in losses.names()
    for i, example in enumerate(losses.catalog.get(name).examples)
    for law in LOSS_LAWS
    for quick in [law not in COSTLY if i else law != "compiled" or name in COMPILED]
    for marks in [() if quick else pytest.mark.slow]
]


@pytest.mark.parametrize(("name", "example", "law"), CASES)
def test_every_loss_keeps_every_law(name, example, law):
    check_loss(losses.build(name, **example), laws=[law])


@pytest.mark.parametrize("law", [law for law in LOSS_LAWS if law != "compiled"])
def test_sums_and_multiples_keep_the_laws(law):
    bce, spa, hill = (losses.build(name) for name in ("bce", "spa", "hill"))
    for loss in (0.5 * bce, bce + 2 * hill, spa + 0.3 * losses.build("lpr", of="spa")):
        check_loss(loss, laws=[law])
