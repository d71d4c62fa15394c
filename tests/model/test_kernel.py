"""A kernel machine says what its formula says; a crafted file of one is refused."""

import pytest
import torch
from safetensors.torch import load, save

from labelset.model.kernel import KernelMachine, log_odds


@pytest.fixture
def machine():
    g = torch.Generator().manual_seed(0)
    rows, coefficients = torch.randn(40, 3, generator=g), torch.randn(40, 5, generator=g)
    return KernelMachine(rows, 0.1 * coefficients, torch.linspace(0.1, 0.9, 5), gamma=0.7)


def test_it_is_its_formula(machine):
    x = torch.randn(11, 3, generator=torch.Generator().manual_seed(1))
    kernel = torch.exp(-0.7 * torch.cdist(x.double(), machine.rows.double()).square())
    estimate = kernel @ machine.coefficients.double() + machine.means
    torch.testing.assert_close(machine.scores(x), log_odds(estimate), atol=1e-5, rtol=1e-5)


def test_a_row_alone_and_among_others(machine, monkeypatch):
    x = torch.randn(300, 3)
    whole = machine.scores(x)
    alone = torch.cat([machine.scores(row[None]) for row in x])
    monkeypatch.setattr("labelset.model.kernel.ENTRIES", 1)
    for other in (machine.scores(x), alone):
        torch.testing.assert_close(other, whole, atol=1e-6, rtol=1e-6)
    assert machine.scores(x[:0]).shape == (0, 5)
    with pytest.raises(ValueError, match=r"takes \(rows, 3\) features, got \(300, 2\)"):
        machine.scores(x[:, :2])


def test_log_odds_rise_and_are_those_of_probabilities():
    estimate = torch.linspace(-0.5, 1.5, 401, dtype=torch.float64)
    v = log_odds(estimate)
    assert bool((v.diff() > 0).all())
    inside = (estimate > 0.05) & (estimate < 0.95)
    torch.testing.assert_close(v[inside], estimate[inside].logit().float())
    torch.testing.assert_close(v, -v.flip(0), atol=1e-5, rtol=1e-5)


def test_a_file_gives_the_same_machine(machine):
    again = KernelMachine.from_tensors(load(save(machine.tensors())))
    assert torch.equal(again.scores(machine.rows), machine.scores(machine.rows))
    assert again.nbytes == machine.nbytes == 4 * (40 * 3 + 40 * 5 + 5)
    assert (again.width, again.labels, again.gamma) == (3, 5, 0.7)


CRAFTED = {
    "rows of a kernel machine must be 2-D": {"rows": lambda t: t[0]},
    "rows of a kernel machine": {"rows": lambda t: t.double()},
    "rows of a": {"rows": lambda t: t / 0},
    "means of a kernel machine": {"means": lambda t: t * torch.nan},
    "coefficients \\(rows, labels\\)": {"coefficients": lambda t: t[1:]},
    "means \\(labels,\\)": {"means": lambda t: t[1:]},
    "gamma of a kernel machine must be above 0": {"gamma": lambda t: -t},
    "gamma of a kernel machine must be": {"gamma": lambda t: t * torch.nan},
    "gamma of a": {"gamma": lambda t: t * torch.inf},
    "one float64 number": {"gamma": lambda t: torch.cat([t, t])},
    "one float64": {"gamma": lambda t: t.float()},
    "has the tensors rows": {"extra": lambda t: t},
}


@pytest.mark.parametrize("message", CRAFTED)
def test_crafted_files_are_refused(machine, message):
    held = machine.tensors()
    for name, change in CRAFTED[message].items():
        held[name] = change(held.get(name, torch.zeros(1)))
    with pytest.raises(ValueError, match=message):
        KernelMachine.from_tensors(held)
    del held["rows"]
    with pytest.raises(ValueError, match="has the tensors"):
        KernelMachine.from_tensors(held)
