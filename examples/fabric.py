"""Lightning Fabric: the loss is a callable; metrics are torchmetrics', gathered over ranks.

Run it: python examples/fabric.py, or on two processes:
fabric run examples/fabric.py --accelerator cpu --devices 2
"""

import torch
from lightning.fabric import Fabric
from torch.utils.data import DataLoader, TensorDataset

import labelset as ls
from labelset.torchmetrics import collection


def rows(count: int, seed: int) -> TensorDataset:
    """Features, and labels that depend on them."""
    g = torch.Generator().manual_seed(seed)
    way = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    x = torch.randn(count, 20, generator=g)
    return TensorDataset(x, (x @ way + torch.randn(count, 8, generator=g) > 3).float())


def main() -> dict[str, float]:
    """Train on the batches of all ranks together, then measure."""
    torch.manual_seed(0)
    fabric = Fabric(accelerator="cpu")
    # sigmoid-f1 is a loss of the whole batch: of all ranks together, not of each by itself
    loss = ls.distributed.global_batch("sigmoid-f1", ddp=True)
    network = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    model, optimiser = fabric.setup(network, torch.optim.Adam(network.parameters(), lr=0.01))
    batches = fabric.setup_dataloaders(DataLoader(rows(1000, seed=1), batch_size=50, shuffle=True))
    for _ in range(8):
        for x, y in batches:
            optimiser.zero_grad()
            fabric.backward(loss(model(x), y))
            optimiser.step()

    # sigmoid-f1 has no link, but its scores are pushed to either side of 0
    measured = collection(["map@class", "f1-macro"], map="link")
    with torch.no_grad():
        for x, y in fabric.setup_dataloaders(DataLoader(rows(500, seed=2), batch_size=100)):
            measured.update(model(x), y)
    return {name: value.item() for name, value in measured.compute().items()}


if __name__ == "__main__":
    print(main())
