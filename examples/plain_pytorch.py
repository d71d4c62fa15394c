"""Plain PyTorch: the loss is a callable, its link gives probabilities, a rule gives label sets.

Run it: python examples/plain_pytorch.py
"""

import torch

import labelset as ls


def rows(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Features, and labels that depend on them; a fifth of the labels is unknown (NaN)."""
    g = torch.Generator().manual_seed(seed)
    way = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    x = torch.randn(count, 20, generator=g)
    y = (x @ way + torch.randn(count, 8, generator=g) > 3).float()
    y[torch.rand(count, 8, generator=g) < 0.2] = torch.nan
    return x, y


def main() -> dict[str, float]:
    """Train, calibrate nothing (spa is proper), choose thresholds, test."""
    torch.manual_seed(0)
    loss = ls.losses.build("spa")
    model = torch.nn.Sequential(
        torch.nn.Linear(20, 64), torch.nn.ReLU(), ls.heads.build("dft", features=64, labels=8, k=3)
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = rows(1000, seed=1)
    for _ in range(8):
        for part in torch.randperm(len(x)).split(50):
            optimiser.zero_grad()
            loss(model(x[part]), y[part]).backward()
            optimiser.step()

    valid, valid_labels = rows(500, seed=2)
    test, test_labels = rows(500, seed=3)
    with torch.no_grad():
        rule = ls.decide.build("per-class").fit(loss.link(model(valid)), valid_labels)
        scores = model(test)
    sets = rule(loss.link(scores))
    return {
        "map@class": ls.metrics.build("map@class")(scores, test_labels),
        "f1-macro": ls.metrics.build("f1-macro")(sets, test_labels),
        "ece": ls.metrics.build("ece")(loss.link(scores), test_labels),
    }


if __name__ == "__main__":
    print(main())
