"""Lightning: the loss in `training_step`, metrics logged by name, splc told the epoch.

Run it: python examples/lightning_module.py
"""

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

import labelset as ls
from labelset.torchmetrics import collection


def rows(count: int, seed: int, missing: float = 0.0) -> TensorDataset:
    """Features, and labels that depend on them; some that are on read as off."""
    g = torch.Generator().manual_seed(seed)
    way = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    x = torch.randn(count, 20, generator=g)
    y = (x @ way + torch.randn(count, 8, generator=g) > 3).float()
    return TensorDataset(x, torch.where(torch.rand(count, 8, generator=g) < missing, 0.0, y))


class Tagger(lightning.LightningModule):
    """Features to labels, with a loss by name."""

    def __init__(self, loss: str) -> None:
        super().__init__()
        self.loss = ls.losses.build(loss)
        self.network = torch.nn.Sequential(
            torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)
        )
        self.measured = collection(["map@class", "map@sample", "recall@3"])

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        """The loss that is in force at this epoch."""
        x, y = batch
        loss: torch.Tensor = self.loss.at(self.current_epoch)(self.network(x), y)
        return loss

    def validation_step(self, batch: list[torch.Tensor], _: int) -> None:
        """Count; Lightning computes and resets at the end of the epoch."""
        x, y = batch
        self.measured.update(self.network(x), y)
        self.log_dict(self.measured)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main() -> dict[str, float]:
    """Train with labels missing, measure with all of them."""
    lightning.seed_everything(0, verbose=False)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=8,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    train = DataLoader(rows(1000, seed=1, missing=0.3), batch_size=50, shuffle=True)
    trainer.fit(Tagger("splc"), train, DataLoader(rows(500, seed=2), batch_size=100))
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


if __name__ == "__main__":
    print(main())
